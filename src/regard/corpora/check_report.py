"""The result of checking a corpus, as plain values: `dataclasses.asdict` converts it to JSON."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProblemLines:
    """The number of problems of one kind, and the first of them with file and line."""

    kind: str
    count: int
    first: tuple[str, ...]


@dataclass(frozen=True)
class LengthStats:
    """Statistics of the lengths of one side's texts, in words or characters; `longest_line` is where the longest is."""

    mean: float
    median: int
    percent_95: int
    percent_99: int
    longest: int
    longest_line: int


@dataclass(frozen=True)
class SideReport:
    """Statistics of the sources or the targets. Words are the parts between white space."""

    file: str
    words: LengthStats
    characters: LengthStats
    running_words: int
    different_words: int
    words_occurring_once: int
    coverage: dict[int, float]  # share of the running words that the n most frequent words cover
    all_words_counted: bool  # False: more than MAX_WORDS; later ones count as running words only


@dataclass(frozen=True)
class LineSummary:
    """The number of pairs with some property, and the line numbers of the first of them.

    For duplicates, `same_as` has the lines of the training text where they occur first.
    """

    count: int
    first: tuple[int, ...]
    same_as: tuple[int, ...] = ()


@dataclass(frozen=True)
class Overlap:
    """A test set compared with the training set: pairs in both measure memorization, not generalization."""

    pairs: int
    sound_pairs: int
    problems: tuple[ProblemLines, ...]
    handled: tuple[ProblemLines, ...]
    known_source_words: float  # a share of the running words
    known_target_words: float
    same_pairs: LineSummary
    same_sources: LineSummary


@dataclass(frozen=True)
class CorpusReport:
    """Everything that was found. Statistics are those of the sound pairs, which have no problem."""

    ready: bool
    ready_with_skip: bool  # with `data.skip`, which leaves out pairs with an empty text or an over-long line
    pairs: int
    sound_pairs: int
    problems: tuple[ProblemLines, ...]
    handled: tuple[ProblemLines, ...]
    source: SideReport
    target: SideReport
    usual_ratio: float  # characters of the target for each of the source, the median
    unusual_ratio: LineSummary
    copies: LineSummary  # source and target are the same
    same_pairs: LineSummary
    same_sources: LineSummary  # with another target
    test: Overlap | None
