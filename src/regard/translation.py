"""What comes out: a translation with its score and attention, or the score of a text that was given."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import UserError


@dataclass(frozen=True)
class Translation:
    """What a model made of one text. `tokens` name the rows of `attention`, `source_tokens` its columns."""

    text: str
    tokens: tuple[str, ...]  # `<end>` included, if it was reached
    source_tokens: tuple[str, ...]  # `<end>` included
    log_probabilities: tuple[float, ...]  # the log-probability of each token
    attention: Tensor  # [output, source], with axes for layers and heads before them where the decoder has any
    finished: bool  # False: cut off at the maximum length
    starts: tuple[bool, ...] = ()  # does a word begin with this token? Where nothing is said, each token is one
    source_starts: tuple[bool, ...] = ()
    others: tuple[Translation, ...] = ()  # the next best

    @property
    def score(self) -> float:
        """The log-probability of the whole."""
        return math.fsum(self.log_probabilities)

    @property
    def n_best(self) -> tuple[Translation, ...]:
        """This one and the next best, all of them different texts."""
        return (self, *self.others)

    @property
    def alignment(self) -> list[tuple[int, int]]:
        """(source token, output token), counted from 0: where each output token looked most, layers and heads averaged.

        Ends do not count, and what looked most at the source's end, or nowhere, is aligned to nothing.
        """
        weights = mean_map(self.attention)
        words = len(self.tokens) - (self.finished and bool(self.tokens))
        looked = [int(row.argmax()) if row.any() else len(row) for row in weights[:words]]
        return [(source, output) for output, source in enumerate(looked) if source < len(self.source_tokens) - 1]


def mean_map(attention: Tensor) -> Tensor:
    """[output, source]: the mean over layers and heads, where there are any."""
    return attention.flatten(0, -3).mean(0) if attention.dim() > 2 else attention


def part_of(attention: Tensor, axes: Sequence[str], numbers: Mapping[str, int]) -> Tensor:
    """What belongs to the layer or the head with this number, counted from 1; `axes` are the first of `attention`."""
    for axis, number in numbers.items():
        if axis not in axes:
            raise UserError(f"this model's attention has no {axis}s to choose from")
        count = attention.shape[list(axes).index(axis)]
        if not 1 <= number <= count:
            raise UserError(f"{axis} {number}: this model has {axis}s 1 to {count}")
    return attention[tuple(numbers[axis] - 1 if axis in numbers else slice(None) for axis in axes)]


NOTHING = Translation("", (), (), (), torch.zeros(0, 0), finished=True)


@dataclass(frozen=True)
class Score:
    """What a model thinks of a text that it was given."""

    log_probabilities: tuple[float, ...]  # the log-probability of each of its tokens, `<end>` included

    @property
    def log_probability(self) -> float:
        return math.fsum(self.log_probabilities)

    @property
    def perplexity(self) -> float:
        """e to the mean surprise of a token; 1 where there is none."""
        return math.exp(min(-self.log_probability / max(len(self.log_probabilities), 1), 700.0))
