"""What a check of a corpus tells, as plain values: `dataclasses.asdict` makes JSON of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProblemLines:
    """How often something was wrong or had to be put right, and the first cases, each with its file and line."""

    kind: str
    count: int
    first: tuple[str, ...]


@dataclass(frozen=True)
class Lengths:
    """Of one side's texts: half of them have at most `median` words or characters, 95 % at most `percent_95`."""

    mean: float
    median: int
    percent_95: int
    percent_99: int
    longest: int
    longest_line: int


@dataclass(frozen=True)
class SideReport:
    """The source's texts or the target's. A word is what stands between white space."""

    file: str
    words: Lengths
    characters: Lengths
    running_words: int
    different_words: int
    words_occurring_once: int
    coverage: dict[int, float]  # so many most frequent words are such a share of the running words
    all_words_counted: bool  # if not, words that appeared when MOST_WORDS were known are running words only


@dataclass(frozen=True)
class Lines:
    """How many pairs have something in common, and the first lines of them.

    Of pairs that are in the training text already, `same_as` says in which line of it they stood first.
    """

    count: int
    first: tuple[int, ...]
    same_as: tuple[int, ...] = ()


@dataclass(frozen=True)
class Overlap:
    """A test text beside the training text. What stands in both measures memory, not skill."""

    pairs: int
    sound_pairs: int
    problems: tuple[ProblemLines, ...]
    handled: tuple[ProblemLines, ...]
    known_source_words: float  # a share of the running words
    known_target_words: float
    same_pairs: Lines
    same_sources: Lines


@dataclass(frozen=True)
class CorpusReport:
    """All that was found. Lengths, words and so on are those of the sound pairs, which have no problem."""

    ready: bool
    ready_with_skip: bool  # when training leaves out pairs with an empty text or an over-long line
    pairs: int
    sound_pairs: int
    problems: tuple[ProblemLines, ...]
    handled: tuple[ProblemLines, ...]
    source: SideReport
    target: SideReport
    usual_ratio: float  # characters of the target for each of the source, the median
    unusual_ratio: Lines
    copies: Lines  # source and target are the same
    same_pairs: Lines
    same_sources: Lines  # with another target
    test: Overlap | None
