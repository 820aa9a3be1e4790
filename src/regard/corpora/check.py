"""What to know about a corpus before training on it, from one pass over its files.

Of each text only its lengths and its hash are kept, 28 bytes a pair, and of each different word its hash and its count.
Texts with the same hash are taken for the same: hashes have 64 bits, so that among a million texts two different ones
have the same hash in one check out of 40 million.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.corpora.check_report import CorpusReport, Lengths, Lines, Overlap, ProblemLines, SideReport
from regard.corpora.parallel_text import CAN_BE_LEFT_OUT, Kind, Problem, scan

FIRST = 5  # places that are named of whatever is counted
MOST_WORDS = 1_000_000  # different words that are counted on a side; without an end, they could fill the memory
COVERING = (1_000, 3_000, 10_000, 30_000, 100_000)
UNUSUAL = 3.0  # times as long, or as short, as is usual beside such a source
FEW_CHARACTERS = 10  # added to both lengths: nothing is unusual about 'Ja.' and 'Yes, I do.'
AT_ONCE = 1_000  # rows between two calls of `advance`

Keys = NDArray[np.uint64]  # hashes of texts
Numbers = NDArray[np.uint32]  # of lines


def check_parallel_text(
    source: Path,
    target: Path | None,
    test: tuple[Path, Path | None] | None = None,
    advance: Callable[[int], None] = lambda rows: None,
) -> CorpusReport:
    """Look through the files. Without `target`, `source` has two columns. `advance` is told how many rows are done."""
    train = _Tally(source, target, advance)
    lines, sources, pairs = train.lines, train.source.keys, train.pair_keys
    ratio, unusual = _unusual_ratio(train.source.characters, train.target.characters)
    pair_again = _again(pairs)
    other_target = _again(sources) & ~pair_again
    tested = _test(_Tally(*test, advance), train) if test else None
    test_is_fine = tested is None or (tested.sound_pairs > 0 and not tested.problems)
    return CorpusReport(
        ready=len(lines) > 0 and not train.problems and test_is_fine,
        ready_with_skip=len(lines) > 0 and set(train.problems) <= set(CAN_BE_LEFT_OUT) and test_is_fine,
        pairs=train.pairs,
        sound_pairs=len(lines),
        problems=_found(train.problems),
        handled=_found(train.handled),
        source=train.source.summary(source, lines),
        target=train.target.summary(target or source, lines),
        usual_ratio=ratio,
        unusual_ratio=_lines(lines[unusual]),
        copies=_lines(lines[sources == train.target.keys]),
        same_pairs=_matches(pairs[pair_again], lines[pair_again], pairs, lines),
        same_sources=_matches(sources[other_target], lines[other_target], sources, lines),
        test=tested,
    )


class _Texts:
    """What is kept of one side's texts."""

    def __init__(self) -> None:
        self._keys, self._words, self._characters = array("q"), array("H"), array("H")  # LONGEST fits into 16 bits
        self.counts: Counter[int] = Counter()  # by hash: a word may be as long as a line
        self.all_words_counted = True

    def add(self, text: str) -> None:
        words = text.split()
        self._keys.append(hash(text))
        self._words.append(len(words))
        self._characters.append(len(text))
        keys = map(hash, words)
        if len(self.counts) < MOST_WORDS:
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

    def known_to(self, other: _Texts) -> float:
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
            words=_lengths(words, lines),
            characters=_lengths(self.characters, lines),
            running_words=running,
            different_words=len(counts),
            words_occurring_once=int((counts == 1).sum()),
            coverage={size: float(covered[size - 1]) for size in COVERING if size < len(counts)},
            all_words_counted=self.all_words_counted,
        )


class _Tally:
    """What is kept of a pass over two files, or over one with two columns."""

    def __init__(self, source: Path, target: Path | None, advance: Callable[[int], None]) -> None:
        self.pairs = 0
        self.problems: dict[Kind, tuple[int, list[Problem]]] = {}
        self.handled: dict[Kind, tuple[int, list[Problem]]] = {}
        self.source, self.target = _Texts(), _Texts()
        numbers = array("I")
        with closing(scan(source, target)) as rows:
            for row in rows:
                _note(self.problems, row.problems)
                _note(self.handled, row.handled)
                if not row.problems:
                    self.source.add(row.source)
                    self.target.add(row.target)
                    numbers.append(row.number)
                self.pairs += all(problem.kind is not Kind.LINES_DIFFER for problem in row.problems)
                if row.number % AT_ONCE == 0:
                    advance(AT_ONCE)
        advance(self.pairs % AT_ONCE)
        self.lines: Numbers = np.frombuffer(numbers, np.uint32)

    @property
    def pair_keys(self) -> Keys:
        """A hash of both texts; an odd factor, so that a pair and the same pair turned round differ."""
        return self.source.keys * np.uint64(0x9E3779B97F4A7C15) + self.target.keys


def _note(found: dict[Kind, tuple[int, list[Problem]]], problems: Sequence[Problem]) -> None:
    for problem in problems:
        count, first = found.get(problem.kind, (0, []))
        found[problem.kind] = (count + 1, [*first, problem] if count < FIRST else first)


def _found(found: dict[Kind, tuple[int, list[Problem]]]) -> tuple[ProblemLines, ...]:
    return tuple(ProblemLines(kind.value, count, tuple(map(str, first))) for kind, (count, first) in found.items())


def _test(test: _Tally, train: _Tally) -> Overlap:
    pairs, sources = test.pair_keys, test.source.keys
    same_pair, same_source = np.isin(pairs, train.pair_keys), np.isin(sources, train.source.keys)
    return Overlap(
        pairs=test.pairs,
        sound_pairs=len(test.lines),
        problems=_found(test.problems),
        handled=_found(test.handled),
        known_source_words=test.source.known_to(train.source),
        known_target_words=test.target.known_to(train.target),
        same_pairs=_matches(pairs[same_pair], test.lines[same_pair], train.pair_keys, train.lines),
        same_sources=_matches(sources[same_source], test.lines[same_source], train.source.keys, train.lines),
    )


def _again(keys: Keys) -> NDArray[np.bool_]:
    """Which of these texts have stood before."""
    again = np.ones(len(keys), bool)
    again[np.unique(keys, return_index=True)[1]] = False
    return again


def _matches(keys: Keys, lines: Numbers, known_keys: Keys, known_lines: Numbers) -> Lines:
    """Texts that are all among the known ones, and the lines where the first of them stood first."""
    same_as = [int(known_lines[np.argmax(known_keys == key)]) for key in keys[:FIRST]]
    return Lines(len(lines), tuple(lines[:FIRST].tolist()), tuple(same_as))


def _lines(lines: Numbers) -> Lines:
    return Lines(len(lines), tuple(lines[:FIRST].tolist()))


def _lengths(lengths: NDArray[np.uint16], lines: Numbers) -> Lengths:
    if not len(lengths):
        return Lengths(0.0, 0, 0, 0, 0, 0)
    longest = int(lengths.argmax())
    median, most, nearly_all = np.quantile(lengths, (0.5, 0.95, 0.99), method="inverted_cdf").tolist()
    return Lengths(float(lengths.mean()), median, most, nearly_all, int(lengths[longest]), int(lines[longest]))


def _unusual_ratio(sources: NDArray[np.uint16], targets: NDArray[np.uint16]) -> tuple[float, NDArray[np.bool_]]:
    """How much longer than its source a target usually is, and where it is quite different.

    The usual ratio is the corpus's own, the median: Chinese needs a third of the characters that English needs.
    """
    if not len(sources):
        return 0.0, np.zeros(0, bool)
    ratios = (targets + np.float32(FEW_CHARACTERS)) / (sources + np.float32(FEW_CHARACTERS))
    middle = np.median(ratios)
    return float(np.median(targets / sources)), (ratios > UNUSUAL * middle) | (ratios < middle / UNUSUAL)
