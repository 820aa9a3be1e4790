"""Attention compared with gold alignments, and the sentences with the most extreme attention.

Symbols: A predicted links, S sure links, P possible links. A link is (source, target).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite, nan
from pathlib import Path
from statistics import fmean

from regard.corpora.alignments import GoldAlignment, Link, read_gold_alignments
from regard.data import Example
from regard.evaluation.alignment import TOLERANCE, AlignmentCounts, best_links, diagonal_links
from regard.inference.translator import ProgressCallback, Translator, no_progress
from regard.laboratory.aligned_sentences import AlignedSentence
from regard.laboratory.attention_stats import MEASURES, AttentionStats, collect_attention_stats
from regard.reports.example_selection import FEWEST_WORDS
from regard.tasks import Pair, Split

MAX_READABLE = 25  # units of a sentence that is drawn
MAX_EXTREMES = 3  # sentences for each measure


@dataclass(frozen=True)
class AttentionAlignment:
    """The attention of many sentences, by layer and head, and their gold alignments.

    Args:
        sentences: The sentences in units.
        examples: The same sentences as token ids.
        stats: For each map name the statistics of each sentence.
        gold: The gold alignment of each sentence; empty if none is known.
        gold_origin: Where the gold alignments come from.
    """

    sentences: Sequence[AlignedSentence]
    examples: Sequence[Example]
    stats: Mapping[str, Sequence[AttentionStats]]
    gold: Sequence[GoldAlignment]
    gold_origin: str

    @property
    def main_map(self) -> str:
        """The name of the mean over layers and heads, or of the only map."""
        return next(iter(self.stats))

    @cached_property
    def counts(self) -> dict[str, tuple[AlignmentCounts, AlignmentCounts]]:
        """Link counts by map name: from the row of each output, and from the row of the next step."""
        return {
            name: (self._count([each.links for each in own]), self._count([each.next_step_links for each in own]))
            for name, own in self.stats.items()
        }

    @property
    def diagonal(self) -> AlignmentCounts:
        """Counts of the diagonal links, which need no model."""
        return self._count([diagonal_links(len(s.target.units), len(s.source.units)) for s in self.sentences])

    @property
    def oracle(self) -> AlignmentCounts:
        """Counts of the best links with one link per output."""
        return self._count([best_links(gold) for gold in self.gold])

    def _count(self, links: Sequence[Collection[Link]]) -> AlignmentCounts:
        pairs = zip(links, self.gold, strict=True)
        return sum((AlignmentCounts.between(own, gold) for own, gold in pairs), AlignmentCounts())

    def average(self, name: str, measure: str) -> float:
        """The mean of a measure over the sentences for which it is defined.

        Args:
            name: The name of the map.
            measure: One of `MEASURES`.
        """
        values = [each.values[measure] for each in self.stats[name] if isfinite(each.values[measure])]
        return fmean(values) if values else nan

    def extremes(self, measure: str) -> list[tuple[float, AlignedSentence]]:
        """The sentences with the most extreme values of a measure; short sentences only if there are no others.

        Sentences with the least extreme value are excluded.

        Args:
            measure: One of `MEASURES`.
        """
        sign = 1 if MEASURES[measure].lowest else -1
        both = zip((each.values[measure] for each in self.stats[self.main_map]), self.sentences, strict=True)
        known = [(value, sentence) for value, sentence in both if isfinite(value)]
        least = max((sign * value for value, _ in known), default=nan)
        known = [(value, sentence) for value, sentence in known if least - sign * value >= TOLERANCE]
        long = [(v, s) for v, s in known if min(len(s.source.content), len(s.target.content)) >= FEWEST_WORDS]
        return sorted(long or known, key=lambda pair: (sign * pair[0], pair[1].number))[:MAX_EXTREMES]

    @property
    def example_sentence(self) -> AlignedSentence:
        """The sentence with the longest inversion among those short enough to draw; of equals, the longest."""
        both = list(zip(self.stats[self.main_map], self.sentences, strict=True))
        readable = [(own, sentence) for own, sentence in both if sentence.length <= MAX_READABLE] or both
        values = [(own.values["inversion"], sentence) for own, sentence in readable]
        return max(values, key=lambda pair: (pair[0] if isfinite(pair[0]) else -1, pair[1].length, -pair[1].number))[1]


def measure_alignment(
    translator: Translator,
    split: Split,
    limit: int | None,
    pairs: Sequence[Pair],
    examples: Sequence[Example],
    gold_file: Path | None,
    advance: ProgressCallback = no_progress,
) -> AttentionAlignment:
    """The attention of sentences of a split, with teacher forcing, and their gold alignments.

    Args:
        translator: The translator.
        split: The split that the pairs are from.
        limit: The maximum number of pairs that were read of it; None for all.
        pairs: The sentences.
        examples: The same sentences as token ids.
        gold_file: A file of word alignments in Moses format; None for the alignments of the task, if it has any.
        advance: Called with the number of sentences done.

    Raises:
        UserError: If the model has no attention or the file does not match the split.
    """
    gold, origin = _gold_alignments(translator, split, limit, pairs, gold_file)
    sentences = [
        AlignedSentence.segment(translator, number, pair, by_white_space=gold_file is not None)
        for number, pair in enumerate(pairs, start=1)
    ]
    stats = collect_attention_stats(translator, sentences, examples, advance)
    return AttentionAlignment(sentences, examples, stats, gold, origin)


def _gold_alignments(
    translator: Translator, split: Split, limit: int | None, pairs: Sequence[Pair], gold_file: Path | None
) -> tuple[list[GoldAlignment], str]:
    """The gold alignment of each pair, from the file or the task, and its origin."""
    if gold_file is not None:
        total = len(pairs) if limit is None else sum(1 for _ in translator.experiment.task.dataset.pairs(split))
        counts = [(len(pair.source.split()), len(pair.target.split())) for pair in pairs]
        gold, lines = read_gold_alignments(gold_file, counts, more=len(pairs) < total)
        differs = f" (it has {lines:,} lines, and the split {total:,} pairs)" if lines != total else ""
        return gold, f"{gold_file}{differs}"
    if any(pair.alignment for pair in pairs):
        return [GoldAlignment(pair.alignment) for pair in pairs], "the task"
    return [], ""
