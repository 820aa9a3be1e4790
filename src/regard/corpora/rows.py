"""What is read from files: lines and pairs of texts, with their problems."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

TABLE_SUFFIXES = (".parquet", ".arrow")  # of files with rows and columns


class ProblemKind(StrEnum):
    """Kinds of problems of a line."""

    NOT_UTF8 = "not UTF-8"
    NUL = "NUL character"
    COLUMNS = "not two columns"
    RECORD = "not a record with both texts"
    LINES_DIFFER = "line counts differ"
    EMPTY = "empty text"
    TOO_LONG = "over-long line"
    # These are corrected while reading.
    WINDOWS = "Windows line end"
    LINE_BREAK = "line break in a text"
    BYTE_ORDER_MARK = "byte-order mark"


SKIPPABLE = (ProblemKind.EMPTY, ProblemKind.TOO_LONG)  # the pair is useless, but the pairs around it are reliable


@dataclass(frozen=True)
class Problem:
    """A problem of a line, refused or corrected.

    Args:
        kind: The kind of problem.
        path: The file.
        line: The line or, in a table, the row, counted from 1.
        text: A description.
    """

    kind: ProblemKind
    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        unit = "row" if self.path.suffix in TABLE_SUFFIXES else "line"
        return f"{self.path}, {unit} {self.line}: {self.text}"


class TextLine(NamedTuple):
    """A line of a file, without its line end.

    Args:
        number: The line number, from 1.
        text: The text.
        problems: Problems that it has.
        handled: Problems that were corrected.
    """

    number: int
    text: str
    problems: tuple[Problem, ...] = ()
    handled: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class ScannedPair:
    """A pair of texts as read from files.

    Args:
        number: The line number, from 1.
        source: The source text.
        target: The target text.
        problems: Problems that it has.
        handled: Problems that were corrected.
    """

    number: int
    source: str
    target: str
    problems: tuple[Problem, ...] = ()
    handled: tuple[Problem, ...] = ()


def empty_problems(texts: tuple[str, str], number: int, paths: tuple[Path, Path]) -> tuple[Problem, ...]:
    """The problem of a pair with an empty text: at most one, even if both are empty.

    Args:
        texts: The source and the target text.
        number: The number of their line.
        paths: The file of each.
    """
    if all(texts):
        return ()
    if not any(texts):
        return (Problem(ProblemKind.EMPTY, paths[0], number, "the source and the target text are empty"),)
    name, path = ("target", paths[1]) if texts[0] else ("source", paths[0])
    return (Problem(ProblemKind.EMPTY, path, number, f"the {name} text is empty"),)
