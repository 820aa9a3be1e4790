"""Escaping of text that is written to a terminal or a log."""

from __future__ import annotations

import unicodedata

import pytest

from regard.errors import escape_controls


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("a\u202eb\u2069c", r"a\u202eb\u2069c"),
        ("a\u2028b\u2029c", r"a\u2028b\u2029c"),
        ("\ud800", r"\ud800"),
        ("\x00\x7f\x9b", r"\x00\x7f\x9b"),
        ("one\rtwo", r"one\rtwo"),
        ("line\n\tline\n", "line\n\tline\n"),
        ("Grüße, 世界 \u200d🙂 \\x1b", "Grüße, 世界 \u200d🙂 \\x1b"),
    ],
    ids=ascii,
)
def test_control_characters_are_escaped(text: str, expected: str):
    assert escape_controls(text) == expected


def test_exactly_the_characters_that_control_a_terminal_are_escaped():
    bidirectional = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}
    escaped = {code for code in range(0x110000) if escape_controls(chr(code)) != chr(code)}
    controls = {code for code in range(0x110000) if unicodedata.category(chr(code)) in ("Cc", "Cs")}
    assert escaped == controls - {ord("\t"), ord("\n")} | bidirectional | {0x2028, 0x2029}
