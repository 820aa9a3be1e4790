"""Where a model looks while it reads true targets: links to the source, how many are true, and measures of each look.

Row t of a map is the step that says output t, and row t + 1 the step after it.
Shapes: a map of tokens is [output tokens, source tokens], both ends included; a map of units, which are words or single
tokens, is [output units, source units and the source's end].
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite, log2, nan
from statistics import fmean
from typing import Self

import numpy as np
from torch import Tensor

from regard.corpora.alignments import GoldAlignment, Link
from regard.data import Example
from regard.errors import UserError
from regard.evaluation.alignment import (
    ALIKE,
    AlignmentCounts,
    attention_links,
    attention_peaks,
    backward_share,
    best_links,
    coverage,
    diagonal_links,
    entropy,
    teacher_forced_attention,
    white_space_starts,
)
from regard.inference.translation import mean_attention
from regard.inference.translator import ProgressCallback, Translator, no_progress
from regard.laboratory.sentences import no_attention_error
from regard.reports.example_selection import FEWEST_WORDS, diagonality, inversion
from regard.tasks import Pair
from regard.text import word_boundaries

MOST_READABLE = 25  # tokens of a sentence that is drawn
SHOWN = 3  # sentences for each measure


@dataclass(frozen=True)
class TokenizedSide:
    """One text of a pair: the units among which links are counted."""

    units: tuple[str, ...]  # words, or single tokens
    starts: tuple[bool, ...]  # which tokens begin a unit; the end does
    content: tuple[int, ...]  # the numbers of the units that are no punctuation

    @property
    def each_token_is_one(self) -> bool:
        return all(self.starts)


@dataclass(frozen=True)
class AlignedSentence:
    number: int  # in the split, from 1
    pair: Pair
    source: TokenizedSide
    target: TokenizedSide

    @classmethod
    def cut(cls, translator: Translator, number: int, pair: Pair, *, by_white_space: bool) -> Self:
        """The pair in units: the words between white space, or words as its notation has them."""
        tokenization = translator.codec.tokenization
        # Among characters that are not a text, a comma is as good as any.
        punctuated = translator.experiment.data.scored_by == "bleu"
        sides = []
        for name, text, tokens, starts_of in (
            ("source", pair.source, tokenization.source_tokens(pair.source), tokenization.source_starts),
            ("target", pair.target, tokenization.target_tokens(pair), tokenization.target_starts),
        ):
            if by_white_space:
                starts, units = _white_space_words(text, tokens, f"sentence {number}: its {name}"), text.split()
            else:
                starts = word_boundaries.word_starts(tokens, starts_of(tokens))
                units = word_boundaries.token_text(tokens, starts)
            content = [
                place for place, unit in enumerate(units) if not (punctuated and word_boundaries.is_punctuation(unit))
            ]
            sides.append(TokenizedSide(tuple(units), (*starts, True), tuple(content)))
        return cls(number, pair, *sides)

    def map_units(self, weights: Tensor) -> Tensor:
        """The map of units from that of tokens; the target's end may be left out of the rows."""
        if self.source.each_token_is_one and self.target.each_token_is_one:
            return weights
        return word_boundaries.word_attention(weights, self.target.starts[: len(weights)], self.source.starts)

    @property
    def length(self) -> int:
        return max(len(self.source.units), len(self.target.units))


def _white_space_words(text: str, tokens: Sequence[str], what: str) -> list[bool]:
    starts = white_space_starts(text, tokens)
    if starts is None:
        raise UserError(
            f"{what} is read as {' '.join(tokens)[:80]!r}, from which the words of {text[:80]!r} cannot be told; "
            "true alignments of words are of no use to such a text"
        )
    return starts


@dataclass(frozen=True)
class AttentionStats:
    """Where the output of a sentence looked, in one layer and head or on average over them."""

    links: frozenset[Link]
    later: frozenset[Link]  # one step later
    values: Mapping[str, float]  # by the keys of `MEASURES`; nan where there is too little to measure

    @classmethod
    def of(cls, weights: Tensor, sentence: AlignedSentence) -> Self:
        """`weights` is a map of tokens."""
        weights = weights.double()
        here, later = weights[:-1], weights[1:]
        found, found_later = (attention_links(sentence.map_units(attention_peaks(rows))) for rows in (here, later))
        moving = Moving.of(sentence.map_units(here), found, sentence)
        return cls(found, found_later, {key: each.measure(moving) for key, each in MEASURES.items()})


@dataclass(frozen=True, eq=False)
class Moving:
    """What the measures are about: where outputs look, step by step, true or not."""

    whole: Tensor  # a map of units, without the target's end
    content: Tensor  # without the source's end and punctuation, too: models like to look there when in doubt
    links: frozenset[Link]  # between what is content

    @classmethod
    def of(cls, whole: Tensor, found: frozenset[Link], sentence: AlignedSentence) -> Self:
        outputs, sources = sentence.target.content, sentence.source.content
        kept = frozenset(link for link in found if link[0] in sources and link[1] in outputs)
        return cls(whole, whole[list(outputs)][:, list(sources)], kept)


@dataclass(frozen=True)
class AttentionMeasure:
    title: str  # of a column
    form: str
    measure: Callable[[Moving], float]
    told: str  # which sentences show it most
    least: bool = False  # those with the least of it


MEASURES = {
    "entropy": AttentionMeasure(
        "entropy, bits",
        "{:z.2f}",
        lambda moving: entropy(moving.whole),
        "The widest look: most bits of entropy",
    ),
    "entropy_share": AttentionMeasure(
        "of the largest",
        "{:z.1%}",
        lambda moving: entropy(moving.whole) / log2(moving.whole.shape[1]),
        "",  # mostly the same sentences
    ),
    "coverage": AttentionMeasure(
        "coverage",
        "{:z.1%}",
        lambda moving: coverage(moving.whole[:, :-1]),
        "The least of the source is looked at: coverage",
        least=True,
    ),
    "monotonicity": AttentionMeasure(
        "monotonicity",
        "{:z.3f}",
        lambda moving: diagonality(moving.content),
        "The order is least that of the source: monotonicity",
        least=True,
    ),
    "backward": AttentionMeasure(
        "backward",
        "{:z.1%}",
        lambda moving: backward_share(moving.links),
        "Most often backward",
    ),
    "way_back": AttentionMeasure(
        "way back",
        "{:z.2f}",
        lambda moving: inversion(moving.content),
        "The longest way back",
    ),
}


def look(
    translator: Translator,
    sentences: Sequence[AlignedSentence],
    examples: Sequence[Example],
    advance: ProgressCallback = no_progress,
) -> dict[str, list[AttentionStats]]:
    """Where each sentence looks: on average and, where there are several, in each layer and head, by their names."""
    looks: dict[str, list[AttentionStats]] = {}
    for sentence, weights in zip(sentences, teacher_forced_attention(translator.model, examples), strict=True):
        if not weights.any():
            raise no_attention_error(translator)
        for name, each in named_maps(weights, translator.model.decoder.weight_axes).items():
            looks.setdefault(name, []).append(AttentionStats.of(each, sentence))
        advance(1)
    return looks


def named_maps(weights: Tensor, axes: Sequence[str]) -> dict[str, Tensor]:
    """The mean of all maps and each of them; only "attention" where there is one. `axes` lead those of `weights`."""
    lead = weights.shape[:-2]
    mean = mean_attention(weights)
    if lead.numel() == 1:
        return {"attention": mean}
    names = [" · ".join(f"{axis} {i + 1}" for axis, i in zip(axes, index, strict=True)) for index in np.ndindex(*lead)]
    return {"mean": mean, **dict(zip(names, weights.flatten(0, -3), strict=True))}


@dataclass(frozen=True)
class Alignment:
    """Where each sentence looks, by the name of a layer and head, and what is true."""

    sentences: Sequence[AlignedSentence]
    examples: Sequence[Example]
    looks: Mapping[str, Sequence[AttentionStats]]
    truths: Sequence[GoldAlignment]  # empty: nothing is known
    origin: str  # of the truths

    @property
    def main(self) -> str:
        """The name of the mean of all layers and heads, or of the only one."""
        return next(iter(self.looks))

    @cached_property
    def agreements(self) -> dict[str, tuple[AlignmentCounts, AlignmentCounts]]:
        """How much of what is found is true, by name: at the step itself, and one step later."""
        found = {name: ([each.links for each in own], [each.later for each in own]) for name, own in self.looks.items()}
        return {name: (self._agreement(here), self._agreement(later)) for name, (here, later) in found.items()}

    @property
    def diagonal(self) -> AlignmentCounts:
        return self._agreement([diagonal_links(len(s.target.units), len(s.source.units)) for s in self.sentences])

    @property
    def best(self) -> AlignmentCounts:
        return self._agreement([best_links(truth) for truth in self.truths])

    def _agreement(self, found: Sequence[Collection[Link]]) -> AlignmentCounts:
        pairs = zip(found, self.truths, strict=True)
        return sum((AlignmentCounts.between(own, truth) for own, truth in pairs), AlignmentCounts())

    def average(self, name: str, key: str) -> float:
        """The mean of a measure over the sentences that have it."""
        values = [each.values[key] for each in self.looks[name] if isfinite(each.values[key])]
        return fmean(values) if values else nan

    def extremes(self, key: str) -> list[tuple[float, AlignedSentence]]:
        """Values and sentences that show a measure most; short ones only where there are no others.

        Those that show it as little as any are not among them.
        """
        sign = 1 if MEASURES[key].least else -1
        both = zip((each.values[key] for each in self.looks[self.main]), self.sentences, strict=True)
        known = [(value, sentence) for value, sentence in both if isfinite(value)]
        least = max((sign * value for value, _ in known), default=nan)
        known = [(value, sentence) for value, sentence in known if least - sign * value >= ALIKE]
        long = [(v, s) for v, s in known if min(len(s.source.content), len(s.target.content)) >= FEWEST_WORDS]
        return sorted(long or known, key=lambda pair: (sign * pair[0], pair[1].number))[:SHOWN]

    @property
    def telling(self) -> AlignedSentence:
        """The sentence with the longest way back, among those that can be read in a picture; of equals the longest."""
        both = list(zip(self.looks[self.main], self.sentences, strict=True))
        readable = [(own, sentence) for own, sentence in both if sentence.length <= MOST_READABLE] or both
        ways = [(own.values["way_back"], sentence) for own, sentence in readable]
        return max(ways, key=lambda way: (way[0] if isfinite(way[0]) else -1, way[1].length, -way[1].number))[1]
