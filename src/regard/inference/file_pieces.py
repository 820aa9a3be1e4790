"""Pieces of a file of texts. Each is translated on its own, and knows what it contains.

The translation of a piece is a file in a folder next to the output. Its name has the number of the first line and a
digest of the texts and of how they are translated. Which pieces are done is seen from the names alone: where the input
has changed, the pieces of other lines stay valid, and what processes of an earlier command still write is not taken.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from regard.corpora.text_lines import open_text, parse_lines, valid_text
from regard.errors import UserError
from regard.inference.input_lines import CHUNK_LINES, InputLine, input_lines

OWN_FILES = re.compile(r"/dev/(stdin$|fd/)|/proc/")
# Whole chunks: the batches are those of a file that is translated in one piece. To flush a piece to the disk takes
# about 10 ms, and a tiny model translates a chunk in 100 ms.
PIECE_LINES = 2 * CHUNK_LINES


@dataclass(frozen=True)
class Piece:
    """Some lines of a file.

    Args:
        offset: Where its first line begins, in bytes of the (decompressed) file.
        first: The number of its first line, from 1.
        lines: Number of lines.
        digest: Of its texts, and of how they are translated.
    """

    offset: int
    first: int
    lines: int
    digest: str

    @property
    def last(self) -> int:
        """The number of its last line."""
        return self.first + self.lines - 1

    def output(self, folder: Path) -> Path:
        """The file of its translation.

        Args:
            folder: The folder of all pieces.
        """
        return folder / f"{self.first}-{self.digest}"

    def is_done(self, folder: Path) -> bool:
        """True if its translation exists. A link is none: it could add any file of the user to the output.

        Args:
            folder: The folder of all pieces.
        """
        path = self.output(folder)
        return path.is_file() and not path.is_symlink()


def shared_path(path: Path) -> Path:
    """The path of a file for other processes, each of which has its own `/dev/stdin` and `/dev/fd/5`.

    Args:
        path: The absolute path for this process.

    Raises:
        UserError: If it has no other one, as a pipe.
    """
    if not OWN_FILES.match(str(path)):
        return path
    shared = Path(os.path.realpath(path))
    if OWN_FILES.match(str(shared)) or not shared.is_file():
        raise UserError(f"{path}: other processes cannot read this; give the path of a regular file")
    return shared


def cut_file(path: Path, how: str) -> list[Piece]:
    """All pieces of a file, in order. Every line is read and checked, and one at a time is in memory.

    Args:
        path: A file with a text on each line, plain or gzip.
        how: How they are translated: runs and options.

    Raises:
        UserError: At a line that is not a text, or if the file cannot be read.
    """
    pieces: list[Piece] = []
    with open_text(path) as file:
        texts = map(valid_text, parse_lines(file, path))
        offset, first = 0, 1
        while (digested := _digest_texts(islice(texts, PIECE_LINES), how))[0]:
            pieces.append(Piece(offset, first, *digested))
            offset, first = file.tell(), first + pieces[-1].lines
    return pieces


def read_pieces(path: Path, pieces: Iterable[Piece], how: str) -> Iterator[tuple[Piece, list[InputLine]]]:
    """Some pieces with their lines.

    Args:
        path: The file.
        pieces: Its pieces, in order.
        how: As it was cut.

    Raises:
        UserError: If the file has changed since it was cut.
    """
    with open_text(path) as file:
        for piece in pieces:
            file.seek(piece.offset)
            lines = list(islice(input_lines(parse_lines(file, path, piece.first), path), piece.lines))
            if _digest_texts((line.text for line in lines), how) != (piece.lines, piece.digest):
                raise UserError(f"{path}: has changed since the translation began; start the translation again")
            yield piece, lines


def unfinished(pieces: Sequence[Piece], folder: Path) -> list[Piece]:
    """The pieces that have no translation yet.

    Args:
        pieces: Some pieces.
        folder: The folder of their translations.
    """
    return [piece for piece in pieces if not piece.is_done(folder)]


def count_lines(pieces: Sequence[Piece]) -> int:
    """Number of lines.

    Args:
        pieces: Some pieces.
    """
    return sum(piece.lines for piece in pieces)


def _digest_texts(texts: Iterable[str], how: str) -> tuple[int, str]:
    """The number of texts, and a digest of them and of how they are translated."""
    count, digest = 0, hashlib.sha256(how.encode() + b"\n")
    for text in texts:
        digest.update(text.encode() + b"\n")
        count += 1
    return count, digest.hexdigest()[:32]
