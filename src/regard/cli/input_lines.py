"""Texts from the command line, from standard input or from files, a line each, with where each came from."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.corpora import parallel_text
from regard.corpora.parallel_text import parse_lines, read_lines
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.inference.translator import Translator

STANDARD_INPUT = Path("standard input")
AT_ONCE = 512  # lines; enough to fill batches, and few enough to answer soon and to hold in memory


@dataclass(frozen=True)
class InputLine:
    text: str
    origin: str


def chunks(texts: Sequence[str] | None) -> Iterator[list[InputLine]]:
    """`texts` if there are any, else standard input: line by line from a person, many at once from a file."""
    if texts:
        yield [InputLine(text, f"text {number}") for number, text in enumerate(texts, start=1)]
        return
    size = 1 if sys.stdin.isatty() else AT_ONCE
    chunk: list[InputLine] = []
    for line in parse_lines(sys.stdin.buffer, STANDARD_INPUT):
        chunk.append(_sound(line, STANDARD_INPUT))
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def read_input(path: Path) -> list[InputLine]:
    """All lines of a file."""
    return [_sound(line, path) for line in read_lines(path)]


def check_input(lines: Sequence[InputLine], translator: Translator) -> None:
    """Check all these lines before any is worked on; a mistake or a doubt is told with its place."""
    for line in lines:
        with told_at(line.origin):
            length = len(translator.check(line.text))
        longest = translator.codec.longest_source
        if length > longest:
            note(f"{line.origin}: {length} tokens, but the longest in training had {longest}; expect mistakes")


@contextmanager
def told_at(origin: str) -> Iterator[None]:
    """A mistake in here is told with its place."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{origin}: {error}") from None


def note(text: str) -> None:
    """Something that a user should know, and that stops nothing."""
    print(f"regard: note: {text}", file=sys.stderr)


def _sound(line: parallel_text.TextLine, path: Path) -> InputLine:
    """A line that training would read as well; empty ones are fine."""
    for problem in line.problems:
        raise UserError(str(problem))
    return InputLine(line.text, f"{path}, line {line.number}")
