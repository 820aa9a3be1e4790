"""Pairs of texts in JSON lines: `{"de": "Ja.", "en": "Yes."}`, or the same object in a field `translation`."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Any

from regard.corpora.records import NESTED, only_two, pair_of_contents
from regard.corpora.rows import Problem, ProblemKind, ScannedPair
from regard.corpora.text_lines import MAX_BYTES, open_text, split_lines
from regard.errors import UserError

JSON_SUFFIXES = (".jsonl", ".jsonl.gz")
MAX_LINE = 10 * MAX_BYTES  # bytes: two texts, each character of which may be escaped, and other fields


def find_keys(path: Path) -> tuple[str, str]:
    """The keys of source and target in a file whose first object has two texts, the source first.

    Args:
        path: The file, plain or gzip.

    Raises:
        UserError: The file cannot be read, or does not begin with such an object.
    """
    with open_text(path) as file, closing(split_lines(file, path, max_bytes=MAX_LINE)) as lines:
        content, _ = next(lines, (None, True))
    if content is None:
        raise UserError(f"{path}: this file is empty; it should have an object with two texts in each line")
    try:
        record = _parse_record(content)
    except ValueError as error:
        raise UserError(f"{path}, line 1: {error}") from None
    return only_two([key for key, value in record.items() if isinstance(value, str)], path)


def scan_json_lines(path: Path, columns: tuple[str, str], max_lines: int | None = None) -> Generator[ScannedPair]:
    """Iterate over the pairs of a file with an object in each line.

    Args:
        path: The file, plain or gzip.
        columns: The keys of source and target.
        max_lines: Most lines of a compressed file; see `read_lines`.

    Raises:
        UserError: The file cannot be read.
    """
    with open_text(path, max_lines) as file:
        for number, (content, whole) in enumerate(split_lines(file, path, max_bytes=MAX_LINE), start=1):
            if not whole:
                long = f"more than {MAX_LINE:,} bytes; split the texts or leave them out"
                yield ScannedPair(number, "", "", (Problem(ProblemKind.TOO_LONG, path, number, long),))
                continue
            try:
                record = _parse_record(content)
                pair = pair_of_contents([_content_of(record, key) for key in columns], path, number)
            except ValueError as error:
                pair = ScannedPair(number, "", "", (Problem(ProblemKind.RECORD, path, number, str(error)),))
            yield pair


def _parse_record(content: bytes) -> dict[str, Any]:
    """The fields of a line; a ValueError says what is wrong."""
    try:
        record = json.loads(content.decode("utf-8-sig", "surrogateescape"))
    except RecursionError:
        raise ValueError("this object is nested too deeply") from None
    except ValueError as error:
        problem = error.msg if isinstance(error, json.JSONDecodeError) else "a number has too many digits"
        raise ValueError(f"this is not JSON: {problem}") from None
    if not isinstance(record, dict):
        raise ValueError('a line is an object with two texts, such as {"de": "Ja.", "en": "Yes."}')
    nested = record.get(NESTED)
    return nested if isinstance(nested, dict) else record


def _content_of(record: dict[str, Any], key: str) -> bytes | None:
    """A text in UTF-8. Invalid bytes and escapes, such as \\ud800, are surrogates here: their code is not UTF-8."""
    if key not in record:
        raise ValueError(f"this object has no {key!r}; it has {', '.join(map(repr, list(record)[:10])) or 'no fields'}")
    text = record[key]
    if text is None:
        return None
    if not isinstance(text, str):
        raise ValueError(f"{key!r} is {text!r:.80}, which should be a text")
    return text.encode(errors="surrogatepass")
