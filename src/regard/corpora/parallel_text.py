"""Reading pairs of texts from files: two files line by line, or one with two columns; plain or gzip, also in shards.

`scan_pairs` continues after a problem and reports it; `read_pairs` stops there. `regard data check` and training read
files with the same code, so that they agree about the content.
"""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from regard.corpora.shards import find_shards
from regard.errors import UserError
from regard.files import open_regular

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

TSV_SUFFIXES = (".tsv", ".tsv.gz")  # of files with two columns
MAX_CHARACTERS = 10_000  # of a line; a longer one is more likely a damaged file than a sentence
# A character has at most 4 bytes; the rest is for a byte-order mark, the line end and a split character.
MAX_BYTES = 4 * (MAX_CHARACTERS + 4)
MAX_SKIPPED_BYTES = 100_000_000  # of the rest of an over-long line
# A gzip file may expand a thousandfold. It may have as many lines as it has bytes, which is the most that a plain file
# can have, but always this many, and this many bytes for each of them: text expands by a factor of 3 to 10.
MIN_LIMIT = 200_000
BYTES_PER_LINE = 100


class ProblemKind(StrEnum):
    """Kinds of problems of a line."""

    NOT_UTF8 = "not UTF-8"
    NUL = "NUL character"
    COLUMNS = "not two columns"
    LINES_DIFFER = "line counts differ"
    EMPTY = "empty text"
    TOO_LONG = "over-long line"
    # These two are corrected while reading.
    WINDOWS = "Windows line end"
    BYTE_ORDER_MARK = "byte-order mark"


SKIPPABLE = (ProblemKind.EMPTY, ProblemKind.TOO_LONG)  # the pair is useless, but the pairs around it are reliable


@dataclass(frozen=True)
class Problem:
    """A problem of a line, refused or corrected.

    Args:
        kind: The kind of problem.
        path: The file.
        line: The line, counted from 1.
        text: A description.
    """

    kind: ProblemKind
    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}, line {self.line}: {self.text}"


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


def read_pairs(source: Path, target: Path | None, *, skip: bool = False) -> Generator[tuple[str, str]]:
    """Iterate over the pairs of texts in files.

    Args:
        source: The file of the sources, or one with two columns, or a pattern of shards.
        target: The file of the targets, or a pattern; None if `source` has both.
        skip: Whether to leave out pairs with an empty text or an over-long line. Other problems make the whole file
            unreliable and are always an error.

    Raises:
        UserError: At the first problem, if there is no pair, or if a shard is missing.
    """
    found_any = False
    with closing(scan_pairs(source, target)) as rows:
        for row in rows:
            for problem in row.problems:
                if not (skip and problem.kind in SKIPPABLE):
                    raise UserError(str(problem))
            if not row.problems:
                found_any = True
                yield row.source, row.target
    if not found_any:
        raise UserError(f"{source}: has no pair of texts; at least one is needed")


def scan_pairs(source: Path, target: Path | None, max_lines: int | None = None) -> Generator[ScannedPair]:
    """Iterate over all pairs of texts in files, with their problems. The line numbers are those of each file.

    Args:
        source: The file of the sources, or one with two columns and a tab between them, or a pattern of shards.
        target: The file of the targets, or a pattern; None if `source` has both.
        max_lines: Most lines of a compressed file; see `read_lines`.

    Raises:
        UserError: A file cannot be read, or a shard is missing; see `find_shards`.
    """
    for one, other in find_shards(source, target):
        rows = _columns(one, max_lines) if other is None else _side_by_side(one, other, max_lines)
        with closing(rows):
            yield from rows


def _side_by_side(source: Path, target: Path, max_lines: int | None) -> Generator[ScannedPair]:
    with closing(read_lines(source, max_lines)) as sources, closing(read_lines(target, max_lines)) as targets:
        for one, other in zip_longest(sources, targets):
            if one is None:
                yield _without_partner(other, target, targets, source)
            elif other is None:
                yield _without_partner(one, source, sources, target)
            else:
                texts = (one.text.strip(), other.text.strip())
                problems = one.problems + other.problems + _empty(texts, one.number, (source, target))
                yield ScannedPair(one.number, *texts, problems, one.handled + other.handled)


def _without_partner(line: TextLine, path: Path, rest: Generator[TextLine], shorter: Path) -> ScannedPair:
    """The first line without a partner; the others are only counted, because their number helps to find the cause."""
    last = line.number + sum(1 for _ in rest)
    end = f"ends after line {line.number - 1}" if line.number > 1 else "has no lines"
    text = f"{shorter} {end}, this file after line {last}; each pair needs a line in both"
    return ScannedPair(line.number, "", "", (Problem(ProblemKind.LINES_DIFFER, path, line.number, text),))


def _columns(path: Path, max_lines: int | None) -> Generator[ScannedPair]:
    with closing(read_lines(path, max_lines)) as lines:
        for line in lines:
            columns = line.text.split("\t") if line.text.strip(" ") else ["", ""]  # a blank line is an empty pair
            if len(columns) == 2:
                texts = (columns[0].strip(), columns[1].strip())
                problems = _empty(texts, line.number, (path, path))
            else:
                texts = (line.text.strip(), "")
                text = f"a line has two texts with a tab between them, but here {_tabs(len(columns) - 1)}"
                problems = (Problem(ProblemKind.COLUMNS, path, line.number, text),)
            if any(problem.kind is ProblemKind.TOO_LONG for problem in line.problems):
                problems = ()  # the rest of the line, with its columns, is unknown
            yield ScannedPair(line.number, *texts, line.problems + problems, line.handled)


def _tabs(count: int) -> str:
    return "is no tab" if count == 0 else f"are {count} tabs"


def _empty(texts: tuple[str, str], number: int, paths: tuple[Path, Path]) -> tuple[Problem, ...]:
    """At most one problem, even if both texts are empty."""
    if all(texts):
        return ()
    if not any(texts):
        return (Problem(ProblemKind.EMPTY, paths[0], number, "the source and the target text are empty"),)
    name, path = ("target", paths[1]) if texts[0] else ("source", paths[0])
    return (Problem(ProblemKind.EMPTY, path, number, f"the {name} text is empty"),)


def read_texts(path: Path) -> list[str]:
    """All lines of a file, each of which is a text; it may be empty.

    Args:
        path: The file.

    Raises:
        UserError: At the first line that training would refuse for another reason, or if the file cannot be read.
    """
    return [valid_text(line) for line in read_lines(path)]


def valid_text(line: TextLine) -> str:
    """The text of a line.

    Args:
        line: A line, which may be empty.

    Raises:
        UserError: If it has a problem.
    """
    for problem in line.problems:
        raise UserError(str(problem))
    return line.text


def read_lines(path: Path, max_lines: int | None = None) -> Generator[TextLine]:
    """Iterate over the lines of a file, plain or, if its name ends in .gz, gzip; one line at a time is in memory.

    A line ends at a line feed only: text may contain the other characters that Unicode considers line breaks.

    Args:
        path: The file.
        max_lines: Most lines of a compressed file, of 100 bytes on average; by default as many as the file has bytes,
            or `MIN_LIMIT` if that is more.

    Raises:
        UserError: If it cannot be read, or if its content is too large.
    """
    with open_text(path, max_lines) as file:
        yield from parse_lines(file, path)


@contextmanager
def open_text(path: Path, max_lines: int | None = None) -> Generator[BinaryIO]:
    """Open a text file, plain or, if its name ends in .gz, gzip. Any `OSError` within is taken for one of reading it.

    Args:
        path: The file.
        max_lines: Most lines of a compressed file; see `read_lines`.

    Raises:
        UserError: If it cannot be read, or if its content is too large.
    """
    try:
        with _open(path, max_lines) as file:
            yield file
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise UserError(f"{path}: is damaged, truncated or not a gzip file; get it again") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None


def parse_lines(file: BinaryIO, path: Path, first: int = 1) -> Generator[TextLine]:
    """Iterate over the lines of an open file.

    Args:
        file: A binary file.
        path: Its name in messages.
        first: The number of the line at which it is positioned.
    """
    number = first - 1
    while content := file.readline(MAX_BYTES):
        number += 1
        whole = len(content) < MAX_BYTES or content.endswith(b"\n")
        yield _parse_line(content.removesuffix(b"\n"), path, number, whole)
        skipped = 0
        while not whole:  # the rest of an over-long line
            rest = file.readline(MAX_BYTES)
            whole = len(rest) < MAX_BYTES or rest.endswith(b"\n")
            skipped += len(rest)
            if skipped > MAX_SKIPPED_BYTES:
                limit = f"more than {MAX_SKIPPED_BYTES:,} bytes without a line end"
                raise UserError(f"{path}, line {number}: {limit}; this is not a text file with a sentence per line")


def _open(path: Path, max_lines: int | None) -> BinaryIO:
    file = open_regular(path)
    if path.suffix != ".gz":
        return file
    limit = max_lines or max(MIN_LIMIT, path.stat().st_size)
    return io.BufferedReader(_GzipContent(file, path, limit))


class _GzipContent(io.RawIOBase):
    """The content of a gzip file; reading more than the limit raises a `UserError`."""

    def __init__(self, file: BinaryIO, path: Path, max_lines: int) -> None:
        self.file, self.content = file, gzip.GzipFile(fileobj=file, mode="rb")
        self.path, self.max_lines = path, max_lines
        self.lines = self.size = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self.content.seek(offset, whence)

    def tell(self) -> int:
        return self.content.tell()

    def readinto(self, buffer: WriteableBuffer) -> int:
        content = self.content.read1(memoryview(buffer).nbytes)
        memoryview(buffer)[: len(content)] = content
        self.lines += content.count(b"\n")
        self.size += len(content)
        if self.lines > self.max_lines or self.size > BYTES_PER_LINE * self.max_lines:
            raise UserError(
                f"{self.path}: more than {self.max_lines:,} lines or {BYTES_PER_LINE * self.max_lines:,} bytes in a "
                f"compressed file of {self.path.stat().st_size:,} bytes; decompress it if it is intact "
                "(regard data check has --max-lines to raise the limit)"
            )
        return len(content)

    def close(self) -> None:
        self.content.close()
        self.file.close()  # which a GzipFile leaves open
        super().close()


def _parse_line(content: bytes, path: Path, number: int, whole: bool) -> TextLine:
    """The text of a line, with its problems and those that were corrected."""
    problems, handled = [], []
    try:
        text, _ = codecs.utf_8_decode(content, "strict", whole)
    except UnicodeDecodeError as error:
        text = content.decode(errors="replace")
        byte = f"byte {error.start + 1} (0x{content[error.start]:02X})"
        problems.append(Problem(ProblemKind.NOT_UTF8, path, number, f"{byte} is not UTF-8; save the file as UTF-8"))
    if text.endswith("\r"):
        text = text[:-1]
        handled.append(Problem(ProblemKind.WINDOWS, path, number, "the line ends as on Windows"))
    if number == 1 and text.startswith("\ufeff"):
        text = text[1:]
        handled.append(Problem(ProblemKind.BYTE_ORDER_MARK, path, number, "the file begins with a byte-order mark"))
    if "\0" in text:
        position = f"character {text.index(chr(0)) + 1}"
        problems.append(Problem(ProblemKind.NUL, path, number, f"{position} is NUL, which no text contains; remove it"))
    if len(text) > MAX_CHARACTERS:
        text = text[:MAX_CHARACTERS]
        long = f"more than {MAX_CHARACTERS:,} characters; split the line or leave it out"
        problems.append(Problem(ProblemKind.TOO_LONG, path, number, long))
    return TextLine(number, text, tuple(problems), tuple(handled))
