"""Greedy search: at every step the likeliest token.

Shapes: [batch] for tokens and scores, [batch, …, positions] for weights. Rows that are finished leave the batch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.nn import Seq2Seq
from regard.search.hypothesis import Hypothesis
from regard.text import Vocabulary


@torch.no_grad()
def greedy(model: Seq2Seq, source: Tensor, valid: Tensor, first: Tensor, longest: Tensor) -> list[Hypothesis]:
    """One hypothesis for each row. The decoder reads `first` first and says at most `longest` tokens, at least one.

    The model is taken as it is: call `model.eval()` before, or dropout joins the search.
    """
    batch = len(source)
    state = model.start(source, valid)
    token, rows = first, torch.arange(batch)
    scores = torch.zeros(batch)
    said: list[list[int]] = [[] for _ in range(batch)]
    looked: list[Tensor] = []  # for each step, where each row looked
    for step in range(1, int(longest.max()) + 1):
        logits, state = model.decoder.step(token, state)
        chances, token = logits.log_softmax(-1).max(-1)
        scores[rows] += chances
        looked.append(_in_place(state.weights, rows, batch))
        for row, number in zip(rows.tolist(), token.tolist(), strict=True):
            said[row].append(number)
        going_on = ((token != Vocabulary.end) & (step < longest[rows])).nonzero().squeeze(1)
        if len(going_on) == 0:
            break
        if len(going_on) < len(rows):
            token, rows, state = token[going_on], rows[going_on], state.select(going_on)
    weights = torch.stack(looked, -2)  # [batch, …, steps, positions]
    lengths = valid.sum(1).tolist()
    return [
        Hypothesis(
            tokens=said[row],
            score=float(scores[row]),
            attention=weights[row, ..., : len(said[row]), : lengths[row]].clone(),
            finished=said[row][-1] == Vocabulary.end,
        )
        for row in range(batch)
    ]


def _in_place(weights: Tensor | None, rows: Tensor, batch: int) -> Tensor:
    """The weights of `rows` at their places in the whole batch, zeros elsewhere."""
    assert weights is not None, "a decoder knows where it looked once it has taken a step"
    return weights.new_zeros(batch, *weights.shape[1:]).index_copy(0, rows, weights)
