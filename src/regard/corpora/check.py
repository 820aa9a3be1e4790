"""Checking a corpus before training on it, in one pass over its files.

Only the lengths and the hash of each text are stored, 28 bytes per pair, and the hash and count of each different word.
Texts with the same hash are considered equal. Hashes have 64 bits: a million texts have a collision with a probability
of one in 40 million.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.corpora.check_report import CorpusReport, LengthStats, LineSummary, Overlap, ProblemLines, SideReport
from regard.corpora.limits import NO_LIMITS, PairLimits
from regard.corpora.parallel_text import Columns, scan_pairs
from regard.corpora.rows import SKIPPABLE, Problem, ProblemKind, ScannedPair
from regard.corpora.shards import find_shards

FIRST = 5  # line numbers listed of each finding
MAX_WORDS = 1_000_000  # different words counted on a side: a limit on memory
COVERING = (1_000, 3_000, 10_000, 30_000, 100_000)
UNUSUAL = 3.0  # factor by which a length ratio differs from the median
FEW_CHARACTERS = 10  # added to both lengths: 'Ja.' and 'Yes, I do.' are not unusual
REPORT_EVERY = 1_000  # pairs between two calls of `advance`

Keys = NDArray[np.uint64]  # hashes of texts
Numbers = NDArray[np.uint32]  # of lines


def check_parallel_text(
    source: Path,
    target: Path | None,
    test: tuple[Path, Path | None] | None = None,
    advance: Callable[[int], None] = lambda rows: None,
    max_lines: int | None = None,
    columns: Columns | None = None,
    limits: PairLimits = NO_LIMITS,
) -> CorpusReport:
    """Check parallel text.

    Args:
        source: The file of the sources, or one with both sides, or a pattern of shards, or a folder.
        target: The file of the targets, or a pattern; None if `source` has both.
        test: The files of a test set to compare with.
        advance: Is called with the number of pairs read since the last call.
        max_lines: Most lines of a compressed file; None for the limit of training.
        columns: The names of source and target; see `scan_pairs`.
        limits: The limits of which to report how many pairs exceed them.
    """
    scan = partial(scan_pairs, columns=columns, max_lines=max_lines)
    train = _CorpusStatistics(scan(source, target), advance, limits)
    lines, sources, pairs = train.lines, train.source.keys, train.pair_keys
    ratio, unusual = _unusual_ratio(train.source.characters, train.target.characters)
    pair_again = _is_repeated(pairs)
    other_target = _is_repeated(sources) & ~pair_again
    tested = _compare_with_test(_CorpusStatistics(scan(*test), advance, NO_LIMITS), train) if test else None
    test_is_fine = tested is None or (tested.sound_pairs > 0 and not tested.problems)
    return CorpusReport(
        ready=len(lines) > 0 and not train.problems and test_is_fine,
        ready_with_skip=len(lines) > 0 and set(train.problems) <= set(SKIPPABLE) and test_is_fine,
        shards=len(find_shards(source, target)),
        pairs=train.pairs,
        sound_pairs=len(lines),
        problems=_problem_lines(train.problems),
        handled=_problem_lines(train.handled),
        source=train.source.summary(source, lines),
        target=train.target.summary(target or source, lines),
        usual_ratio=ratio,
        unusual_ratio=_line_summary(lines[unusual]),
        copies=_line_summary(lines[sources == train.target.keys]),
        same_pairs=_duplicates(pairs[pair_again], lines[pair_again], pairs, lines),
        same_sources=_duplicates(sources[other_target], lines[other_target], sources, lines),
        beyond_limits={reason: _line_summary(lines) for reason, lines in train.beyond_limits().items()},
        test=tested,
    )


class _SideStatistics:
    """Hashes, lengths and word counts of one side's texts."""

    def __init__(self) -> None:
        self._keys, self._words, self._characters = (
            array("q"),
            array("H"),
            array("H"),
        )  # 16 bits for MAX_CHARACTERS
        self.counts: Counter[int] = Counter()  # by hash: a word may be as long as a line
        self.all_words_counted = True

    def add(self, text: str) -> None:
        words = text.split()
        self._keys.append(hash(text))
        self._words.append(len(words))
        self._characters.append(len(text))
        keys = map(hash, words)
        if len(self.counts) < MAX_WORDS:
            self.counts.update(keys)
        else:
            known = [key for key in keys if key in self.counts]
            self.counts.update(known)
            self.all_words_counted &= len(known) == len(words)

    @property
    def keys(self) -> Keys:
        return np.frombuffer(self._keys, np.uint64)

    @property
    def characters(self) -> NDArray[np.uint16]:
        return np.frombuffer(self._characters, np.uint16)

    def known_to(self, other: _SideStatistics) -> float:
        """The share of the running words that `other` has as well."""
        known = sum(count for word, count in self.counts.items() if word in other.counts)
        return known / max(self.counts.total(), 1)

    def summary(self, path: Path, lines: Numbers) -> SideReport:
        words = np.frombuffer(self._words, np.uint16)
        running = int(words.sum(dtype=np.int64))
        counts = np.sort(np.fromiter(self.counts.values(), np.int64, len(self.counts)))[::-1]
        covered = counts.cumsum() / max(running, 1)
        return SideReport(
            file=str(path),
            words=_length_stats(words, lines),
            characters=_length_stats(self.characters, lines),
            running_words=running,
            different_words=len(counts),
            words_occurring_once=int((counts == 1).sum()),
            coverage={size: float(covered[size - 1]) for size in COVERING if size < len(counts)},
            all_words_counted=self.all_words_counted,
        )


class _CorpusStatistics:
    """Statistics from a pass over a corpus."""

    def __init__(self, rows: Generator[ScannedPair], advance: Callable[[int], None], limits: PairLimits) -> None:
        self.pairs = 0
        self.problems: dict[ProblemKind, tuple[int, list[Problem]]] = {}
        self.handled: dict[ProblemKind, tuple[int, list[Problem]]] = {}
        self.source, self.target = _SideStatistics(), _SideStatistics()
        numbers = array("I")
        self._beyond: dict[str, array[int]] = {}
        with closing(rows):
            for number, row in enumerate(rows, start=1):  # of all shards
                _count_problems(self.problems, row.problems)
                _count_problems(self.handled, row.handled)
                if not row.problems:
                    self.source.add(row.source)
                    self.target.add(row.target)
                    numbers.append(number)
                    if reason := limits.exceeded(row.source, row.target):
                        self._beyond.setdefault(reason, array("I")).append(number)
                self.pairs += all(problem.kind is not ProblemKind.LINES_DIFFER for problem in row.problems)
                if number % REPORT_EVERY == 0:
                    advance(REPORT_EVERY)
        advance(self.pairs % REPORT_EVERY)
        self.lines: Numbers = np.frombuffer(numbers, np.uint32)

    def beyond_limits(self) -> dict[str, Numbers]:
        """The lines of the pairs that exceed a limit, by the limit."""
        return {reason: np.frombuffer(lines, np.uint32) for reason, lines in self._beyond.items()}

    @property
    def pair_keys(self) -> Keys:
        """A hash of both texts; the factor makes a pair and its reverse differ."""
        return self.source.keys * np.uint64(0x9E3779B97F4A7C15) + self.target.keys


def _count_problems(found: dict[ProblemKind, tuple[int, list[Problem]]], problems: Sequence[Problem]) -> None:
    for problem in problems:
        count, first = found.get(problem.kind, (0, []))
        found[problem.kind] = (count + 1, [*first, problem] if count < FIRST else first)


def _problem_lines(found: dict[ProblemKind, tuple[int, list[Problem]]]) -> tuple[ProblemLines, ...]:
    return tuple(ProblemLines(kind.value, count, tuple(map(str, first))) for kind, (count, first) in found.items())


def _compare_with_test(test: _CorpusStatistics, train: _CorpusStatistics) -> Overlap:
    pairs, sources = test.pair_keys, test.source.keys
    same_pair, same_source = np.isin(pairs, train.pair_keys), np.isin(sources, train.source.keys)
    return Overlap(
        pairs=test.pairs,
        sound_pairs=len(test.lines),
        problems=_problem_lines(test.problems),
        handled=_problem_lines(test.handled),
        known_source_words=test.source.known_to(train.source),
        known_target_words=test.target.known_to(train.target),
        same_pairs=_duplicates(pairs[same_pair], test.lines[same_pair], train.pair_keys, train.lines),
        same_sources=_duplicates(sources[same_source], test.lines[same_source], train.source.keys, train.lines),
    )


def _is_repeated(keys: Keys) -> NDArray[np.bool_]:
    """True where a text has occurred before."""
    again = np.ones(len(keys), bool)
    again[np.unique(keys, return_index=True)[1]] = False
    return again


def _duplicates(keys: Keys, lines: Numbers, known_keys: Keys, known_lines: Numbers) -> LineSummary:
    """Texts that are all among the known ones, with the lines where these occur first."""
    same_as = [int(known_lines[np.argmax(known_keys == key)]) for key in keys[:FIRST]]
    return LineSummary(len(lines), tuple(lines[:FIRST].tolist()), tuple(same_as))


def _line_summary(lines: Numbers) -> LineSummary:
    return LineSummary(len(lines), tuple(lines[:FIRST].tolist()))


def _length_stats(lengths: NDArray[np.uint16], lines: Numbers) -> LengthStats:
    if not len(lengths):
        return LengthStats(0.0, 0, 0, 0, 0, 0)
    longest = int(lengths.argmax())
    median, most, nearly_all = np.quantile(lengths, (0.5, 0.95, 0.99), method="inverted_cdf").tolist()
    return LengthStats(float(lengths.mean()), median, most, nearly_all, int(lengths[longest]), int(lines[longest]))


def _unusual_ratio(sources: NDArray[np.uint16], targets: NDArray[np.uint16]) -> tuple[float, NDArray[np.bool_]]:
    """The median length ratio of target to source, and a mask of pairs that differ much from it.

    The median is the corpus's own, because it depends on the languages: Chinese has a third of English's characters.
    """
    if not len(sources):
        return 0.0, np.zeros(0, bool)
    ratios = (targets + np.float32(FEW_CHARACTERS)) / (sources + np.float32(FEW_CHARACTERS))
    middle = np.median(ratios)
    return float(np.median(targets / sources)), (ratios > UNUSUAL * middle) | (ratios < middle / UNUSUAL)
