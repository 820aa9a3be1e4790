"""Pairs of texts from files: two files with a line each, or one with two columns; plain or gzip, a line at a time.

`scan` goes on past whatever is wrong and says what it was; `read_pairs` stops there. A check of the files and training
read them by the same code, so they cannot disagree about what is in them.
"""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from regard.errors import UserError

TSV_SUFFIXES = (".tsv", ".tsv.gz")  # how files with two columns are called
LONGEST = 10_000  # characters of a line; beyond, it is more likely a damaged file than a sentence
# A character has at most 4 bytes; some more for a byte-order mark, the line's end and a character that is cut in two.
MOST_BYTES = 4 * (LONGEST + 4)


class Kind(StrEnum):
    """What can be wrong with a line."""

    NOT_UTF8 = "not UTF-8"
    NUL = "NUL character"
    COLUMNS = "not two columns"
    LINES_DIFFER = "line counts differ"
    EMPTY = "empty text"
    TOO_LONG = "over-long line"
    # These two are put right while reading.
    WINDOWS = "Windows line end"
    BYTE_ORDER_MARK = "byte-order mark"


CAN_BE_LEFT_OUT = (Kind.EMPTY, Kind.TOO_LONG)  # the pair is of no use, but its neighbours are not in doubt


@dataclass(frozen=True)
class Problem:
    """Something wrong in a line, or that had to be put right."""

    kind: Kind
    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}, line {self.line}: {self.text}"


class TextLine(NamedTuple):
    """A line of one file, without its end."""

    number: int
    text: str
    problems: tuple[Problem, ...] = ()
    handled: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class Row:
    """A pair of texts, its line number, what is wrong with it, and what was put right."""

    number: int
    source: str
    target: str
    problems: tuple[Problem, ...] = ()
    handled: tuple[Problem, ...] = ()


def read_pairs(source: Path, target: Path | None, *, skip: bool = False) -> Generator[tuple[str, str]]:
    """The pairs of texts; the first problem is a `UserError`.

    With `skip`, pairs with an empty text or an over-long line are left out. Everything else that can be wrong puts
    the whole file in doubt and is refused all the same.
    """
    found_any = False
    with closing(scan(source, target)) as rows:
        for row in rows:
            for problem in row.problems:
                if not (skip and problem.kind in CAN_BE_LEFT_OUT):
                    raise UserError(str(problem))
            if not row.problems:
                found_any = True
                yield row.source, row.target
    if not found_any:
        raise UserError(f"{source}: no pair of texts is in here; there has to be one at least")


def scan(source: Path, target: Path | None) -> Generator[Row]:
    """Every pair of texts, good or not. Without `target`, `source` has two columns with a tab between them."""
    return _columns(source) if target is None else _side_by_side(source, target)


def _side_by_side(source: Path, target: Path) -> Generator[Row]:
    with closing(read_lines(source)) as sources, closing(read_lines(target)) as targets:
        for one, other in zip_longest(sources, targets):
            if one is None:
                yield _without_partner(other, target, targets, source)
            elif other is None:
                yield _without_partner(one, source, sources, target)
            else:
                texts = (one.text.strip(), other.text.strip())
                problems = one.problems + other.problems + _empty(texts, one.number, (source, target))
                yield Row(one.number, *texts, problems, one.handled + other.handled)


def _without_partner(line: TextLine, path: Path, rest: Generator[TextLine], shorter: Path) -> Row:
    """The end of what can be paired: the rest is counted, because its number is a hint at what went wrong."""
    last = line.number + sum(1 for _ in rest)
    end = f"ends after line {line.number - 1}" if line.number > 1 else "has no lines"
    text = f"{shorter} {end}, this file only after line {last}; each pair needs a line in both"
    return Row(line.number, "", "", (Problem(Kind.LINES_DIFFER, path, line.number, text),))


def _columns(path: Path) -> Generator[Row]:
    with closing(read_lines(path)) as lines:
        for line in lines:
            columns = line.text.split("\t") if line.text.strip(" ") else ["", ""]  # a blank line is an empty pair
            if len(columns) == 2:
                texts = (columns[0].strip(), columns[1].strip())
                problems = _empty(texts, line.number, (path, path))
            else:
                texts = (line.text.strip(), "")
                text = f"a text, a tab and a text make a line, but here {_tabs(len(columns) - 1)}"
                problems = (Problem(Kind.COLUMNS, path, line.number, text),)
            if any(problem.kind is Kind.TOO_LONG for problem in line.problems):
                problems = ()  # what was left of the line says nothing about its columns
            yield Row(line.number, *texts, line.problems + problems, line.handled)


def _tabs(count: int) -> str:
    return "is no tab" if count == 0 else f"are {count} tabs"


def _empty(texts: tuple[str, str], number: int, paths: tuple[Path, Path]) -> tuple[Problem, ...]:
    """At most one problem: a pair with both texts empty is one pair."""
    if all(texts):
        return ()
    if not any(texts):
        return (Problem(Kind.EMPTY, paths[0], number, "the source and the target text are empty"),)
    name, path = ("target", paths[1]) if texts[0] else ("source", paths[0])
    return (Problem(Kind.EMPTY, path, number, f"the {name} text is empty"),)


def read_lines(path: Path) -> Generator[TextLine]:
    """The lines of a file, plain or (by its name) gzip, never more than one of them in memory.

    A line ends at a line feed and nowhere else: text may contain the other characters that Unicode calls line breaks.
    """
    try:
        with _open(path) as file:
            yield from parse_lines(file, path)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise UserError(f"{path}: is damaged or cut off, or not a gzip file; get it again") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None


def parse_lines(file: BinaryIO, path: Path) -> Generator[TextLine]:
    """The lines of an open file; `path` is what it is called where something is wrong."""
    number = 0
    while content := file.readline(MOST_BYTES):
        number += 1
        whole = len(content) < MOST_BYTES or content.endswith(b"\n")
        yield _parse(content.removesuffix(b"\n"), path, number, whole)
        while not whole:  # the rest of an over-long line
            rest = file.readline(MOST_BYTES)
            whole = len(rest) < MOST_BYTES or rest.endswith(b"\n")


def _open(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


def _parse(content: bytes, path: Path, number: int, whole: bool) -> TextLine:
    """A line's text, with what is wrong in it and what had to be put right."""
    problems, handled = [], []
    try:
        text, _ = codecs.utf_8_decode(content, "strict", whole)
    except UnicodeDecodeError as error:
        text = content.decode(errors="replace")
        byte = f"byte {error.start + 1} (0x{content[error.start]:02X})"
        problems.append(Problem(Kind.NOT_UTF8, path, number, f"{byte} is not UTF-8; save the file as UTF-8"))
    if text.endswith("\r"):
        text = text[:-1]
        handled.append(Problem(Kind.WINDOWS, path, number, "the line ends as on Windows"))
    if number == 1 and text.startswith("\ufeff"):
        text = text[1:]
        handled.append(Problem(Kind.BYTE_ORDER_MARK, path, number, "the file begins with a byte-order mark"))
    if "\0" in text:
        place = f"character {text.index(chr(0)) + 1}"
        problems.append(Problem(Kind.NUL, path, number, f"{place} is NUL, which no text contains; remove it"))
    if len(text) > LONGEST:
        text = text[:LONGEST]
        long = f"more than {LONGEST:,} characters; split the line or leave it out"
        problems.append(Problem(Kind.TOO_LONG, path, number, long))
    return TextLine(number, text, tuple(problems), tuple(handled))
