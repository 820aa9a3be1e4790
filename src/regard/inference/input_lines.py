"""Input texts from arguments, standard input or files, one a line, each with its origin."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BufferedReader
from itertools import islice
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

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
PAUSE = 0.01  # seconds without a new line after which those that have arrived are translated
POLL_INTERVAL = 1.0  # seconds: on Windows, Ctrl-C does not interrupt a longer wait
Line = TypeVar("Line")


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
    """`texts` if there are any, else a file or standard input, in chunks. Of standard input, a chunk has what is there.

    Args:
        texts: Texts, or none.
        path: A file; None: standard input.
    """
    if texts:
        yield [InputLine(text, f"text {number}") for number, text in enumerate(texts, start=1)]
        return
    if path is None:
        # With a buffer of its own: the waiting thread would hold the lock of that of `sys.stdin` when the program ends.
        raw: Any = getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
        lines = parse_lines(BufferedReader(raw), STANDARD_INPUT)
        yield from available_chunks(input_lines(lines, STANDARD_INPUT))
        return
    inputs = input_lines(read_lines(path), path)
    while chunk := list(islice(inputs, CHUNK_LINES)):
        yield chunk


def available_chunks(lines: Iterator[Line], size: int = CHUNK_LINES) -> Iterator[list[Line]]:
    """Lines in chunks of those that have arrived: it waits for the first one of each, and not for more.

    Args:
        lines: Waits for each line. It is iterated over in another thread.
        size: The most lines of a chunk.
    """
    arrived: Queue[Line | Exception | None] = Queue(maxsize=2 * size)  # None: the end

    def read() -> None:
        try:
            for line in lines:
                arrived.put(line)
            arrived.put(None)
        except Exception as error:
            arrived.put(error)

    Thread(target=read, daemon=True).start()
    while chunk := list(islice(_arrived_lines(arrived), size)):
        yield chunk


def _arrived_lines(arrived: Queue[Line | Exception | None]) -> Iterator[Line]:
    """A first line, however long it takes, and those after it that arrive without a pause."""
    line = _wait_for_line(arrived)
    if isinstance(line, Exception):
        raise line
    with suppress(Empty):
        while line is not None and not isinstance(line, Exception):
            yield line
            line = arrived.get(timeout=PAUSE)
        arrived.put(line)  # for the next chunk: the lines before an invalid one are translated


def _wait_for_line(arrived: Queue[Line | Exception | None]) -> Line | Exception | None:
    while True:
        with suppress(Empty):
            return arrived.get(timeout=POLL_INTERVAL)


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
