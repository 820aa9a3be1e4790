"""The records of all steps of a search, linked by back-pointers.

At each step some extensions of some rows are selected. `origins` point from a selected extension to the row that it
extends, `parents` from a row to the extension of the step before that made it. Indices count through a whole record.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.search.log_probs import EnsembleState, LogProbs
from regard.search.selection import Selection


@dataclass(frozen=True)
class StepRecord:
    """One step of a search.

    Args:
        tokens: [selected].
        log_probabilities: [selected], log p of these tokens.
        totals: [selected], what the hypotheses are ranked by.
        origins: [selected], indices of rows.
        parents: [rows], indices of selected extensions in the record before.
        weights: [rows, …, positions], the attention weights.
    """

    tokens: Tensor
    log_probabilities: Tensor
    totals: Tensor
    origins: Tensor
    parents: Tensor
    weights: Tensor


def record_step(selection: Selection, log_probs: LogProbs, parents: Tensor, state: EnsembleState) -> StepRecord:
    """The record of a step.

    Args:
        selection: The selected extensions.
        log_probs: The log-probabilities of the step.
        parents: [rows], indices of selected extensions in the record before.
        state: The decoders' states after the step.
    """
    weights = state.weights
    assert weights is not None, "a decoder has attention weights after its first step"
    return StepRecord(
        tokens=selection.tokens.flatten(),
        log_probabilities=log_probs.of_tokens(selection.tokens, selection.rows).flatten(),
        totals=selection.totals.flatten(),
        origins=selection.rows.flatten(),
        parents=parents,
        weights=weights,
    )


@dataclass(frozen=True)
class Backtrace:
    """Whole hypotheses; values after the end of a hypothesis are meaningless.

    Args:
        tokens: [hypotheses, steps].
        log_probabilities: [hypotheses, steps].
        weights: [hypotheses, …, steps, positions].
    """

    tokens: Tensor
    log_probabilities: Tensor
    weights: Tensor


def follow_backpointers(history: list[StepRecord], steps: Tensor, indices: Tensor) -> Backtrace:
    """The hypotheses that end at given records.

    Args:
        history: The records of a search.
        steps: [hypotheses], of any shape: the index of the record of the last token.
        indices: [hypotheses], the index in that record.
    """
    steps, indices = (each.to(history[0].tokens.device) for each in (steps, indices))
    index = torch.zeros_like(indices)
    tokens, log_probabilities, weights = [], [], []
    for step in reversed(range(len(history))):
        record = history[step]
        index = torch.where(steps == step, indices, index)
        origin = record.origins[index]
        tokens.append(record.tokens[index])
        log_probabilities.append(record.log_probabilities[index])
        weights.append(record.weights[origin])
        index = record.parents[origin]
    return Backtrace(
        tokens=torch.stack(tokens[::-1], -1),
        log_probabilities=torch.stack(log_probabilities[::-1], -1),
        weights=torch.stack(weights[::-1], -2),
    )
