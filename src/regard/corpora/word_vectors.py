"""Word vectors in the text format of word2vec, plain or gzip; one line at a time is in memory.

20000 300                      the number of words, and of the numbers of each
the 0.0142 -0.0931 0.2117 …    a word and its numbers, separated by single spaces
"""

from __future__ import annotations

import math
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from regard.corpora.text_lines import open_text, split_lines
from regard.errors import UserError

HEADER = re.compile(rb"(?:\xef\xbb\xbf)?([0-9]{1,12}) ([0-9]{1,6})\s*")
MAX_HEADER, MAX_WORD, MAX_NUMBER = 100, 4_000, 32  # bytes; those of a number include its space
MAX_VALUE = 1e30  # the squares of a whole table can be added


@dataclass(frozen=True)
class WordVector:
    """A word with its numbers, which are parsed when they are needed.

    Args:
        word: The word.
        content: The numbers as text.
        origin: The file and the line, for messages.
    """

    word: str
    content: bytes
    origin: str

    def numbers(self) -> list[float]:
        """The numbers.

        Raises:
            UserError: One of them is not a finite number.
        """
        return [self._parse(text) for text in self.content.split(b" ")]

    def _parse(self, text: bytes) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not abs(value) <= MAX_VALUE:
            shown = text.decode(errors="replace")
            raise UserError(f"{self.origin}: {shown!r:.40} should be a number between -{MAX_VALUE:g} and {MAX_VALUE:g}")
        return value


class WordVectors:
    """An open file of word vectors, which can be iterated over once.

    Args:
        file: A binary file, at its beginning.
        path: Its name in messages.

    Attributes:
        count: The number of words, according to the first line.
        size: The number of numbers of each word, according to the first line.

    Raises:
        UserError: The first line does not have these two numbers.
    """

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self.file, self.path = file, path
        header = HEADER.fullmatch(file.readline(MAX_HEADER))
        if header is None:
            raise UserError(
                f"{path}, line 1: this should be the number of words and the size of a vector, such as '20000 300', as "
                "in the text format of word2vec; files of GloVe need this line added"
            )
        self.count, self.size = int(header[1]), int(header[2])

    def __iter__(self) -> Iterator[WordVector]:
        """Iterate over the words.

        Raises:
            UserError: A line is not a word with its numbers, or the number of lines is another one.
        """
        number = 1
        max_bytes = MAX_WORD + MAX_NUMBER * self.size
        for number, (content, whole) in enumerate(split_lines(self.file, self.path, 2, max_bytes), start=2):
            origin = f"{self.path}, line {number}"
            if number - 1 > self.count:
                raise UserError(f"{origin}: there are more words than the {self.count:,} that line 1 announces")
            if not whole:
                raise UserError(f"{origin}: more than {max_bytes:,} bytes; this is not the text format of word2vec")
            yield self._parse(content.rstrip(b" \r"), origin)
        if number - 1 < self.count:
            raise UserError(
                f"{self.path}, line {number}: the file ends after {number - 1:,} of the {self.count:,} words that line "
                "1 announces"
            )

    def _parse(self, content: bytes, origin: str) -> WordVector:
        word, _, numbers = content.partition(b" ")
        count = content.count(b" ")
        if not word or count != self.size:
            raise UserError(
                f"{origin}: this should be a word and {self.size} numbers, separated by single spaces; it has {count} "
                f"numbers{'' if word else ' and no word'}"
            )
        try:
            return WordVector(word.decode(), numbers, origin)
        except UnicodeDecodeError as error:
            byte = f"byte {error.start + 1} (0x{word[error.start]:02X})"
            raise UserError(f"{origin}: {byte} is not UTF-8; save the file as UTF-8") from None


@contextmanager
def open_word_vectors(path: Path) -> Generator[WordVectors]:
    """Open a file of word vectors, plain or, if its name ends in .gz, gzip.

    Args:
        path: The file.

    Raises:
        UserError: It cannot be read, or its first line is not valid.
    """
    with open_text(path) as file:
        yield WordVectors(file, path)
