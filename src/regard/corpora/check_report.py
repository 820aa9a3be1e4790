"""The result of checking a corpus, as plain values."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard.corpora.check_text import format_report
from regard.corpora.parallel_text import has_both_sides


@dataclass(frozen=True)
class ProblemLines:
    """The problems of one kind.

    Args:
        kind: The kind of problem.
        count: How many there are.
        first: The first of them, with file and line.
    """

    kind: str
    count: int
    first: tuple[str, ...]


@dataclass(frozen=True)
class LengthStats:
    """Statistics of the lengths of one side's texts, in words or characters.

    Args:
        mean: The mean.
        median: The median.
        percent_95: The 95th percentile.
        percent_99: The 99th percentile.
        longest: The largest length.
        longest_line: The line of the longest text.
    """

    mean: float
    median: int
    percent_95: int
    percent_99: int
    longest: int
    longest_line: int


@dataclass(frozen=True)
class SideReport:
    """Statistics of the sources or the targets. Words are the parts between white space.

    Args:
        file: The file.
        words: Lengths in words.
        characters: Lengths in characters.
        running_words: Number of words.
        different_words: Number of different words.
        words_occurring_once: Number of words that occur once.
        coverage: Share of the running words that the n most frequent words cover, by n.
        all_words_counted: False if there are more than `MAX_WORDS` different words; later ones count as running words
            only.
    """

    file: str
    words: LengthStats
    characters: LengthStats
    running_words: int
    different_words: int
    words_occurring_once: int
    coverage: dict[int, float]
    all_words_counted: bool


@dataclass(frozen=True)
class LineSummary:
    """Pairs with some property.

    Args:
        count: How many there are.
        first: Line numbers of the first of them.
        same_as: For duplicates, the lines of the training text where these first occur.
    """

    count: int
    first: tuple[int, ...]
    same_as: tuple[int, ...] = ()


@dataclass(frozen=True)
class Overlap:
    """A test set compared with the training set: pairs in both measure memorization, not generalization.

    Args:
        pairs: Number of pairs of the test set.
        sound_pairs: Number of its pairs that have no problem.
        problems: Problems of its lines.
        handled: Problems that are corrected while reading.
        known_source_words: Share of its running source words that occur in the training set.
        known_target_words: The same for target words.
        same_pairs: Pairs that are in the training set.
        same_sources: Pairs whose source is in the training set.
    """

    pairs: int
    sound_pairs: int
    problems: tuple[ProblemLines, ...]
    handled: tuple[ProblemLines, ...]
    known_source_words: float
    known_target_words: float
    same_pairs: LineSummary
    same_sources: LineSummary


@dataclass(frozen=True)
class CorpusReport:
    """The result of checking a corpus. Statistics are those of the sound pairs, which have no problem.

    Args:
        ready: Whether training accepts the files.
        ready_with_skip: Whether it accepts them with `data.skip`, which leaves out pairs with an empty text or an
            over-long line.
        shards: Number of files on each side. Line numbers count through all of them.
        pairs: Number of pairs.
        sound_pairs: Number of pairs that have no problem.
        problems: Problems of lines.
        handled: Problems that are corrected while reading.
        source: Statistics of the sources.
        target: Statistics of the targets.
        usual_ratio: Median of target characters per source character.
        unusual_ratio: Pairs whose ratio is far from the median.
        copies: Pairs whose source and target are equal.
        same_pairs: Pairs that occur again.
        same_sources: Sources that occur again with another target.
        beyond_limits: Pairs that exceed a limit, by the limit; training leaves them out if `data.limits` has it.
        test: Comparison with a test set; None if there is none.
    """

    ready: bool
    ready_with_skip: bool
    shards: int
    pairs: int
    sound_pairs: int
    problems: tuple[ProblemLines, ...]
    handled: tuple[ProblemLines, ...]
    source: SideReport
    target: SideReport
    usual_ratio: float
    unusual_ratio: LineSummary
    copies: LineSummary
    same_pairs: LineSummary
    same_sources: LineSummary
    beyond_limits: dict[str, LineSummary]
    test: Overlap | None

    @property
    def files(self) -> tuple[str, ...]:
        """The checked files: two, or one with both sides."""
        one = has_both_sides(Path(self.source.file))
        return (self.source.file,) if one else (self.source.file, self.target.file)

    def to_dict(self) -> dict[str, Any]:
        """All findings as values that JSON has."""
        return asdict(self)

    def __str__(self) -> str:
        return format_report(self)
