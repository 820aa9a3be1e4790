"""What happened at each step of a search, linked by back-pointers.

At a step some extensions were chosen from some rows. `origins` lead from what was chosen to the row that it extends,
`parents` from a row to its own latest token among what was chosen a step before. Places count through a whole record.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.search.log_probs import EnsembleState, LogProbs
from regard.search.selection import Selection


@dataclass(frozen=True)
class StepRecord:
    tokens: Tensor  # [chosen]
    log_probabilities: Tensor  # [chosen]: log p of these tokens
    totals: Tensor  # [chosen]: by what hypotheses are compared
    origins: Tensor  # [chosen] → rows
    parents: Tensor  # [rows] → chosen, in the record before
    weights: Tensor  # [rows, …, positions]: where the decoder looked


def record_step(choice: Selection, chances: LogProbs, parents: Tensor, state: EnsembleState) -> StepRecord:
    weights = state.weights
    assert weights is not None, "a decoder knows where it looked once it has taken a step"
    return StepRecord(
        tokens=choice.tokens.flatten(),
        log_probabilities=chances.of(choice.tokens, choice.rows).flatten(),
        totals=choice.totals.flatten(),
        origins=choice.rows.flatten(),
        parents=parents,
        weights=weights,
    )


@dataclass(frozen=True)
class Backtrace:
    """Whole hypotheses, [hypotheses, steps, …] each; behind the end of a hypothesis they mean nothing."""

    tokens: Tensor
    log_probabilities: Tensor
    weights: Tensor  # [hypotheses, …, steps, positions]


def follow_backpointers(history: list[StepRecord], steps: Tensor, places: Tensor) -> Backtrace:
    """Follow the back-pointers of hypotheses that end at the records numbered `steps`, at `places` in them."""
    place = torch.zeros_like(places)
    tokens, log_probabilities, weights = [], [], []
    for step in reversed(range(len(history))):
        own = history[step]
        place = torch.where(steps == step, places, place)
        origin = own.origins[place]
        tokens.append(own.tokens[place])
        log_probabilities.append(own.log_probabilities[place])
        weights.append(own.weights[origin])
        place = own.parents[origin]
    return Backtrace(
        tokens=torch.stack(tokens[::-1], -1),
        log_probabilities=torch.stack(log_probabilities[::-1], -1),
        weights=torch.stack(weights[::-1], -2),
    )
