"""Which sentences are worth showing: those whose attention, or whose score, stands out, and in what way.

Shapes: a map is [output words, source words], with a_ij for how much output word i looks at source word j. Ends and
punctuation are left out, because models like to look there when there is nothing to look for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite, log, nan
from statistics import median

import torch
from torch import Tensor

from regard.text import END, word_boundaries

FEWEST_WORDS = 5  # a shorter sentence has no shape to speak of


@dataclass(frozen=True, eq=False)  # tensors have no single truth of being equal
class ExampleSentence:
    """One sentence of the test set and what the model made of it."""

    number: int  # in the test set, from 1
    source: str
    output: str
    reference: str
    tokens: tuple[str, ...]  # `<end>` included, if it was reached
    source_tokens: tuple[str, ...]
    starts: tuple[bool, ...]  # which tokens begin a word; empty: all
    source_starts: tuple[bool, ...]
    weights: Tensor  # [output, source], layers and heads averaged
    score: float  # of this sentence, from 0 to 100

    @property
    def cut_off(self) -> bool:
        """Whether something was written, but no end."""
        return bool(self.tokens) and self.tokens[-1] != END

    @property
    def looks(self) -> bool:
        """False for what a model without attention made."""
        return bool(self.weights.any())

    @cached_property
    def map(self) -> Tensor:
        """Where each output word looked, [output words, source words], without ends and punctuation."""
        if not self.looks:
            return torch.zeros(0, 0)
        starts = word_boundaries.word_starts(self.tokens, self.starts)
        source_starts = word_boundaries.word_starts(self.source_tokens, self.source_starts)
        whole = word_boundaries.word_attention(self.weights.detach().double().cpu(), starts, source_starts)
        return whole[_real(self.tokens, starts)][:, _real(self.source_tokens, source_starts)]


def _real(tokens: Sequence[str], starts: Sequence[bool]) -> list[int]:
    """The numbers of the words that are neither an end nor punctuation."""
    spelled = enumerate(word_boundaries.token_text(tokens, starts))
    return [number for number, word in spelled if word != END and not word_boundaries.is_punctuation(word)]


def diagonality(attention: Tensor) -> float:
    """How closely the place looked at follows the place written to: their correlation, at most 1.

        p_ij = a_ij / Σ a        ρ = cov(i, j) / √(var i · var j)   under p

    1: word for word, in the same order. 0: what is looked at has nothing to do with what is written.
    """
    p = attention / attention.sum()
    outputs, sources = (torch.arange(count, dtype=p.dtype) for count in p.shape)
    i = outputs - p.sum(1) @ outputs
    j = sources - p.sum(0) @ sources
    variances = (p.sum(1) @ i**2) * (p.sum(0) @ j**2)
    return float(i @ p @ j / variances.sqrt()) if variances > 0 else nan


def inversion(attention: Tensor) -> float:
    """How far the model surely looks back: from what an earlier word looks at to what a later one does, in words.

        s_i = argmax_j a_ij      c_i = max_j a_ij      max over i < k of  min(c_i, c_k) · (s_i − s_k)

    It is large where an English verb, early on, looks at the end of a German clause, and the words after it look back.
    """
    if not attention.numel():
        return nan
    sure, place = attention.max(1)
    back = torch.minimum(sure[:, None], sure) * (place[:, None] - place)  # [earlier, later]
    return float(back.triu(diagonal=1).max().clamp(min=0))


def spread(attention: Tensor) -> float:
    """How many places the model looks at: the entropy of a row, averaged, as a share of the largest possible one.

        H = − Σ a_ij log (a_ij / Σ_j a_ij) / Σ a        H / log (number of source words)

    0: each word looks at a single one. 1: each looks at all alike.
    """
    outputs, sources = attention.shape
    if not outputs or sources < 2:
        return nan
    rows = attention.sum(1, keepdim=True)
    surprise = -torch.xlogy(attention, attention / rows.clamp(min=1e-30))
    return float(surprise.sum() / attention.sum()) / log(sources)


@dataclass(frozen=True)
class SelectionCriterion:
    """Why a sentence is shown: it has one of the largest values of a measure."""

    title: str
    explanation: str
    measure: Callable[[ExampleSentence], float]
    told: str  # how a value is written
    smallest: bool = False  # the smallest values are wanted instead
    of_the_shape: bool = True  # only sentences that are long enough, and were looked at
    of_good_ones: bool = False  # only sentences of the better half, whose attention has found the right words

    def candidates(self, shown: Sequence[ExampleSentence]) -> list[tuple[float, ExampleSentence]]:
        """Values and sentences, what is most wanted first; of equal values first the longer, then the earlier one."""
        if self.of_the_shape:
            shown = [each for each in shown if min(each.map.shape) >= FEWEST_WORDS]
        if self.of_good_ones and shown:
            middle = median(each.score for each in shown)
            shown = [each for each in shown if each.score >= middle]
        values = [(self.measure(each), each) for each in shown]
        sign = 1 if self.smallest else -1
        return sorted(
            [(value, each) for value, each in values if isfinite(value)],
            key=lambda pair: (sign * pair[0], -len(pair[1].source_tokens), pair[1].number),
        )


@dataclass(frozen=True, eq=False)
class SelectedExample:
    """A sentence to show, and why."""

    reason: SelectionCriterion
    value: float  # of the reason's measure
    shown: ExampleSentence

    @property
    def told(self) -> str:
        return self.reason.told.format(self.value)


REASONS = (
    SelectionCriterion(
        "Word for word",
        "The output follows the source: the place that is looked at moves along with the place that is written. "
        "The measure is the correlation of the two; only translations of the better half by score are considered.",
        lambda each: diagonality(each.map),
        "correlation {:.2f}",
        of_good_ones=True,
    ),
    SelectionCriterion(
        "Words change places",
        "An earlier output word looks far to the right, and a later one back to the left. The measure is the longest "
        "way back, in words, times the smaller of the two weights; only translations of the better half by score are "
        "considered.",
        lambda each: inversion(each.map),
        "{:.1f} words back",
        of_good_ones=True,
    ),
    SelectionCriterion(
        "One place at a time",
        "Each output word looks at hardly more than one source word. The measure is the entropy of a word's attention "
        "as a share of the largest possible one, averaged over the output: 0 % is a single place.",
        lambda each: 100 * spread(each.map),
        "spread {:.0f} %",
        smallest=True,
    ),
    SelectionCriterion(
        "Many places at once",
        "Output words look at many source words, or at none in particular. The measure is the same spread as before: "
        "100 % is all places alike.",
        lambda each: 100 * spread(each.map),
        "spread {:.0f} %",
    ),
    SelectionCriterion(
        "The longest",
        "The sources with the most words, which a model without attention would have to remember all at once.",
        lambda each: each.map.shape[1],
        "{:.0f} words",
    ),
    SelectionCriterion(
        "The best scores",
        "The translations that are most like their references; of equal ones, the longest.",
        lambda each: each.score,
        "score {:.1f}",
        of_the_shape=False,
    ),
    SelectionCriterion(
        "The worst scores",
        "The translations that are least like their references. Not all of them are wrong.",
        lambda each: each.score,
        "score {:.1f}",
        smallest=True,
        of_the_shape=False,
    ),
)


def select_examples(shown: Sequence[ExampleSentence], each: int = 5) -> list[SelectedExample]:
    """Up to `each` sentences for each reason, none of them twice, in the order of `REASONS`.

    The reasons choose in turn, one sentence at a time, so that every one of them gets some of its best.
    """
    wanted = [iter(reason.candidates(shown)) for reason in REASONS]
    groups: list[list[SelectedExample]] = [[] for _ in REASONS]
    taken: set[int] = set()
    for _ in range(each):
        for reason, candidates, group in zip(REASONS, wanted, groups, strict=True):
            for value, candidate in candidates:
                if candidate.number not in taken:
                    taken.add(candidate.number)
                    group.append(SelectedExample(reason, value, candidate))
                    break
    return [chosen for group in groups for chosen in group]
