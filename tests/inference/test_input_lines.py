"""Lines of standard input are answered as they arrive, and in batches if many are there."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from queue import Queue

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import UserError
from regard.inference.input_lines import CHUNK_LINES, available_chunks, read_chunks


@given(st.lists(st.integers()), st.integers(1, 7))
def test_all_lines_arrive_in_order_and_chunks_are_limited(lines: list[int], size: int):
    chunks = [*available_chunks(iter(lines), size)]
    assert [line for chunk in chunks for line in chunk] == lines
    assert all(1 <= len(chunk) <= size for chunk in chunks)


def test_lines_that_are_there_fill_whole_chunks():
    sizes = [len(chunk) for chunk in available_chunks(iter(range(3 * CHUNK_LINES + 17)))]
    assert sum(sizes) == 3 * CHUNK_LINES + 17
    assert max(sizes) == CHUNK_LINES
    assert len(sizes) < 20, "far fewer than lines, even on a machine that is busy"


def test_a_line_is_passed_on_before_the_next_one_is_there():
    sent: Queue[str | None] = Queue()
    chunks = available_chunks(iter(sent.get, None))
    for line in ("one", "two", "three"):
        sent.put(line)
        assert next(chunks) == [line]
    sent.put(None)
    assert [*chunks] == []


def test_an_error_of_a_line_is_raised_where_the_lines_are_used():
    def lines() -> Iterator[str]:
        yield "one"
        raise UserError("line 2 is wrong")

    with pytest.raises(UserError, match="line 2 is wrong"):
        list(available_chunks(lines()))


def test_standard_input_without_a_descriptor_is_read(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\n\ntwo")))
    (chunk,) = read_chunks([])
    assert [(line.text, line.origin) for line in chunk] == [
        ("one", "standard input, line 1"),
        ("", "standard input, line 2"),
        ("two", "standard input, line 3"),
    ]


def test_the_lines_before_an_invalid_one_are_a_chunk():
    def lines() -> Iterator[str]:
        yield from ("a", "b")
        raise UserError("line 3")

    chunks = available_chunks(lines())
    assert next(chunks) == ["a", "b"]
    with pytest.raises(UserError, match="line 3"):
        next(chunks)
