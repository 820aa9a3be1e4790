"""Input texts from the command line, standard input or files, one a line, each with its origin."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.corpora.parallel_text import parse_lines, read_texts, valid_text
from regard.errors import UserError, error_location
from regard.files import parse_path
from regard.images import is_picture
from regard.images.pictures import SUFFIXES
from regard.terminal.output import note

if TYPE_CHECKING:
    from regard.data import EncodedSource
    from regard.inference.translator import Translator

STANDARD_INPUT = Path("standard input")
CHUNK_LINES = 512  # enough to fill batches, and few enough for early output and little memory


@dataclass(frozen=True)
class InputLine:
    """A text and where it came from, as messages name it."""

    text: str
    origin: str


def read_chunks(texts: Sequence[str] | None) -> Iterator[list[InputLine]]:
    """`texts` if there are any, else standard input: line by line from a terminal, in chunks from a file."""
    if texts:
        yield [InputLine(text, f"text {number}") for number, text in enumerate(texts, start=1)]
        return
    size = 1 if sys.stdin.isatty() else CHUNK_LINES
    chunk: list[InputLine] = []
    for line in parse_lines(sys.stdin.buffer, STANDARD_INPUT):
        chunk.append(InputLine(valid_text(line), f"{STANDARD_INPUT}, line {line.number}"))
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def read_input(path: Path) -> list[InputLine]:
    """All lines of a file."""
    return [InputLine(text, f"{path}, line {number}") for number, text in enumerate(read_texts(path), start=1)]


def encode_input(lines: Sequence[InputLine], translator: Translator) -> list[EncodedSource]:
    """The lines as token ids, all of them before any is translated; errors and warnings name the line.

    Args:
        lines: The input.
        translator: Whose tokenization and limits apply.

    Raises:
        UserError: If the model cannot process a line.
    """
    sources = []
    for line in lines:
        with error_location(line.origin):
            sources.append(translator.encode(source_input(line.text, translator)))
        length, longest = len(sources[-1].ids), translator.codec.longest_source
        if length > longest:
            unit = "patches" if translator.reads_pictures else "tokens"
            note(f"{line.origin}: {length} {unit}, but the longest in training had {longest}; expect mistakes")
    return sources


def source_input(text: str, translator: Translator) -> str | Path:
    """A text; where a model reads pictures, the path of a file unless it is a data URI.

    Args:
        text: An argument or a line.
        translator: The model.

    Raises:
        UserError: If it is the path of a picture, and the model reads texts.
    """
    if translator.reads_pictures:
        return text if not text or is_picture(text) else parse_path(text, "picture")
    if text.lower().endswith(SUFFIXES) and os.path.isfile(text):
        raise UserError(f"{text} is a picture, and this model reads texts; choose a run of the task text-line")
    return text
