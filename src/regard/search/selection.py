"""Selectors: which extensions of the hypotheses a search continues with.

A selector sees one step of a batch. Shapes: [sentences, width] for hypotheses, [sentences, width, vocabulary] for their
extensions, of which it returns some: [sentences, selected]. Rows number the hypotheses of all sentences in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class Selection:
    """The selected extensions; those of a beam are sorted, best first.

    Args:
        rows: [sentences, selected], the rows that are extended.
        tokens: [sentences, selected], the tokens that extend them.
        totals: [sentences, selected], Σ log p less penalties; -∞ if there is no such hypothesis.
    """

    rows: Tensor
    tokens: Tensor
    totals: Tensor


class Selector(Protocol):
    """How a search selects extensions: `Beam` and `Sampling` are selectors."""

    def __call__(self, logits: Tensor, totals: Tensor, sentences: Tensor, step: int) -> Selection:
        """Select extensions.

        Args:
            logits: [sentences, width, vocabulary], the constrained logits of the next token.
            totals: [sentences, width], which with the logit of a token give the total of that extension.
            sentences: [sentences], their indices in the `SearchBatch`, on the CPU.
            step: The step of the search, from 0.
        """


def to_rows(hypotheses: Tensor, logits: Tensor) -> Tensor:
    """Indices of rows of all sentences, [sentences, selected].

    Args:
        hypotheses: Indices within each sentence, [sentences, selected].
        logits: The logits of the step, [sentences, width, vocabulary].
    """
    sentences, width, _ = logits.shape
    return hypotheses + width * torch.arange(sentences, device=hypotheses.device).unsqueeze(1)


def top_values(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The highest values along the last axis, in descending order, and their indices.

    Args:
        values: [..., values].
        count: How many; all if there are fewer.
    """
    if count == 1:
        return values.max(-1, keepdim=True)
    return values.topk(min(count, values.shape[-1]), -1)
