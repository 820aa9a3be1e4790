"""Reading text files, plain or gzip, line by line, with the problems of each line."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from regard.corpora.rows import Problem, ProblemKind, TextLine
from regard.errors import UserError
from regard.files import open_regular

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MAX_CHARACTERS = 10_000  # of a line; a longer one is more likely a damaged file than a sentence
# A character has at most 4 bytes; the rest is for a byte-order mark, the line end and a split character.
MAX_BYTES = 4 * (MAX_CHARACTERS + 4)
MAX_SKIPPED_BYTES = 100_000_000  # of the rest of an over-long line
# A gzip file may expand a thousandfold. It may have as many lines as it has bytes, which is the most that a plain file
# can have, but always this many, and this many bytes for each of them: text expands by a factor of 3 to 10.
MIN_LIMIT = 200_000
BYTES_PER_LINE = 100


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
    for number, (content, whole) in enumerate(split_lines(file, path, first), start=first):
        yield parse_text(content, path, number, whole)


def split_lines(
    file: BinaryIO, path: Path, first: int = 1, max_bytes: int = MAX_BYTES
) -> Generator[tuple[bytes, bool]]:
    """Iterate over the lines of an open file as bytes; True with each that is whole, False for a beginning.

    Args:
        file: A binary file.
        path: Its name in messages.
        first: The number of the line at which it is positioned.
        max_bytes: Most bytes of a line; the rest of a longer one is skipped.
    """
    number = first - 1
    while content := file.readline(max_bytes):
        number += 1
        whole = len(content) < max_bytes or content.endswith(b"\n")
        yield content.removesuffix(b"\n"), whole
        skipped = 0
        while not whole:  # the rest of an over-long line
            rest = file.readline(max_bytes)
            whole = len(rest) < max_bytes or rest.endswith(b"\n")
            skipped += len(rest)
            if skipped > MAX_SKIPPED_BYTES:
                limit = f"more than {MAX_SKIPPED_BYTES:,} bytes without a line end"
                raise UserError(f"{path}, line {number}: {limit}; this is not a text file with a sentence per line")


def _open(path: Path, max_lines: int | None) -> BinaryIO:
    file = open_regular(path)
    if path.suffix != ".gz":
        return file
    return io.BufferedReader(_GzipContent(file, ContentLimit(path, max_lines)))


class ContentLimit:
    """A limit on the content of a compressed file; exceeding it raises a `UserError`.

    Args:
        path: The file.
        max_lines: Most lines, of 100 bytes on average; None: as many as the file has bytes, or `MIN_LIMIT`.
    """

    def __init__(self, path: Path, max_lines: int | None) -> None:
        self.path, self.max_lines = path, max_lines or max(MIN_LIMIT, path.stat().st_size)
        self.lines = self.size = 0

    def add(self, lines: int, size: int) -> None:
        """Count what has been read.

        Args:
            lines: The number of lines.
            size: The number of bytes.
        """
        self.lines += lines
        self.size += size
        if self.lines > self.max_lines or self.size > BYTES_PER_LINE * self.max_lines:
            raise UserError(
                f"{self.path}: more than {self.max_lines:,} lines or {BYTES_PER_LINE * self.max_lines:,} bytes in a "
                f"compressed file of {self.path.stat().st_size:,} bytes; decompress it if it is intact "
                "(regard data check has --max-lines to raise the limit)"
            )


class _GzipContent(io.RawIOBase):
    """The content of a gzip file, up to a limit."""

    def __init__(self, file: BinaryIO, limit: ContentLimit) -> None:
        self.file, self.content = file, gzip.GzipFile(fileobj=file, mode="rb")
        self.limit = limit

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
        self.limit.add(content.count(b"\n"), len(content))
        return len(content)

    def close(self) -> None:
        self.content.close()
        self.file.close()  # which a GzipFile leaves open
        super().close()


def parse_text(content: bytes, path: Path, number: int, whole: bool = True) -> TextLine:
    """The text of a line, with its problems and those that were corrected.

    Args:
        content: The line without its line feed, or the beginning of an over-long one.
        path: The file.
        number: The number of the line.
        whole: False if this is the beginning.
    """
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
