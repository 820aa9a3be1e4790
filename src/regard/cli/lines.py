"""Texts from the command line or from standard input, a line each, with where each came from."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regard.errors import UserError

if TYPE_CHECKING:
    from regard.translator import Translator

AT_ONCE = 512  # lines; enough to fill batches, and few enough to answer soon and to hold in memory


@dataclass(frozen=True)
class Line:
    text: str
    origin: str


def chunks(texts: Sequence[str] | None) -> Iterator[list[Line]]:
    """`texts` if there are any, else standard input: line by line from a person, many at once from a file."""
    if texts:
        yield [Line(text, f"text {number}") for number, text in enumerate(texts, start=1)]
        return
    size = 1 if sys.stdin.isatty() else AT_ONCE
    chunk: list[Line] = []
    for number, content in enumerate(sys.stdin.buffer, start=1):
        chunk.append(_decode(content, f"standard input, line {number}"))
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def check(lines: Sequence[Line], translator: Translator) -> None:
    """Check all these lines before any is worked on; a mistake or a doubt is told with its place."""
    for line in lines:
        try:
            length = len(translator.check(line.text)) if line.text else 0
        except UserError as error:
            raise UserError(f"{line.origin}: {error}") from None
        longest = translator.codec.longest_source
        if length > longest:
            note(f"{line.origin}: {length} tokens, but the longest in training had {longest}; expect mistakes")


def note(text: str) -> None:
    """Something that a user should know, and that stops nothing."""
    print(f"regard: note: {text}", file=sys.stderr)


def _decode(content: bytes, origin: str) -> Line:
    try:
        text = content.removesuffix(b"\n").removesuffix(b"\r").decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{origin}: byte {error.start + 1} is not UTF-8") from None
    return Line(text, origin)
