"""Input texts from arguments, standard input or files, one a line, each with its origin."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from regard.corpora.rows import TextLine
from regard.corpora.text_lines import parse_lines, read_lines, read_texts, valid_text
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
    """A text and where it came from, as messages name it.

    Args:
        text: The text.
        origin: Such as a file and a line.
    """

    text: str
    origin: str


def read_chunks(texts: Sequence[str], path: Path | None = None) -> Iterator[list[InputLine]]:
    """`texts` if there are any, else a file or standard input, in chunks; line by line from a terminal.

    Args:
        texts: Texts, or none.
        path: A file; None: standard input.
    """
    if texts:
        yield [InputLine(text, f"text {number}") for number, text in enumerate(texts, start=1)]
        return
    size = 1 if path is None and sys.stdin.isatty() else CHUNK_LINES
    lines = parse_lines(sys.stdin.buffer, STANDARD_INPUT) if path is None else read_lines(path)
    inputs = input_lines(lines, path or STANDARD_INPUT)
    while chunk := list(islice(inputs, size)):
        yield chunk


def input_lines(lines: Iterable[TextLine], path: Path) -> Iterator[InputLine]:
    """Lines of a file as input.

    Args:
        lines: The lines.
        path: The file, for messages.

    Raises:
        UserError: At a line that has a problem.
    """
    return (InputLine(valid_text(line), f"{path}, line {line.number}") for line in lines)


def read_input(path: Path) -> list[InputLine]:
    """All lines of a file.

    Args:
        path: The file.
    """
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
