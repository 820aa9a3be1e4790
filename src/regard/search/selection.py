"""Which extensions of the hypotheses go on: the best of all of them, or one drawn by chance for each.

A chooser sees one step of a batch. Shapes: [sentences, width] for hypotheses, [sentences, width, vocabulary] for their
extensions, of which it returns some: [sentences, chosen].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class Selection:
    """The chosen extensions; of a beam the best first."""

    rows: Tensor  # [sentences, chosen]: what is extended; rows count through all sentences
    tokens: Tensor  # [sentences, chosen]: by what
    totals: Tensor  # [sentences, chosen]: what the whole is worth; -∞: there is no such hypothesis


class Selector(Protocol):
    def __call__(self, logits: Tensor, totals: Tensor, sentences: Tensor, step: int) -> Selection:
        """Extend hypotheses whose `totals` lack only the logit of their next token.

        `sentences` are their sentences' places in the question; the step is counted from 0.
        """


@dataclass(frozen=True)
class Beam:
    """The best extensions of all hypotheses of a sentence. With a width of 1 this is greedy search."""

    width: int = 1

    def __call__(self, logits: Tensor, totals: Tensor, sentences: Tensor, step: int) -> Selection:
        best, tokens = highest(logits, self.width)  # no hypothesis can place more than that
        totals, places = highest((totals.unsqueeze(-1) + best).flatten(1), self.width)
        origins = places // best.shape[-1]
        return Selection(rows_of(origins, logits), tokens.flatten(1).gather(1, places), totals)


def rows_of(origins: Tensor, logits: Tensor) -> Tensor:
    """Rows from hypotheses counted within their sentence, [sentences, chosen] both."""
    sentences, width, _ = logits.shape
    return origins + width * torch.arange(sentences, device=origins.device).unsqueeze(1)


def highest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` highest along the last axis, or all if there are fewer, the highest first; and their places."""
    if count == 1:
        return values.max(-1, keepdim=True)
    return values.topk(min(count, values.shape[-1]), -1)


@dataclass(frozen=True)
class Sampling:
    """One extension of each hypothesis, drawn from softmax(z / temperature).

    With `top_k` only the so many likeliest tokens take part; with `top_p` the fewest likeliest ones that together have
    at least this probability. Every draw uses up one random number, which is given: what one sentence draws does not
    depend on others.
    """

    draws: Tensor  # [sentences, hypotheses, steps], uniform in [0, 1)
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0

    def __call__(self, logits: Tensor, totals: Tensor, sentences: Tensor, step: int) -> Selection:
        tokens = self.draw(logits, self.draws[sentences, :, step])
        origins = torch.arange(tokens.shape[1], device=tokens.device).clamp(max=logits.shape[1] - 1)  # one at first
        rows = rows_of(origins.expand_as(tokens), logits)
        return Selection(rows, tokens, totals.flatten()[rows] + logits.flatten(0, 1)[rows, tokens])

    def draw(self, logits: Tensor, draws: Tensor) -> Tensor:
        """Tokens [sentences, width]: in the order of the vocabulary, or of likelihood, the first beyond the draw."""
        tokens = None
        if self.top_k is not None or self.top_p < 1:
            logits, tokens = highest(logits, self.top_k or logits.shape[-1])
        warm = (logits - logits.amax(-1, keepdim=True)).double() / self.temperature  # the likeliest at 0: no overflow
        cumulative = warm.softmax(-1).cumsum(-1)
        mass = cumulative[..., -1:]
        if self.top_p < 1:
            last = (cumulative < self.top_p * mass).sum(-1, keepdim=True)
            mass = cumulative.gather(-1, last)
        cumulative, points = cumulative.expand(-1, draws.shape[1], -1), draws.unsqueeze(-1) * mass
        places = torch.searchsorted(cumulative.contiguous(), points, right=True)
        return (places if tokens is None else tokens.expand_as(cumulative).gather(-1, places)).squeeze(-1)
