"""Escaped text, rendered by markdown-it: nothing but text results, and it is the text that was escaped."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from regard.errors import printable
from regard.reports.report_page import Table
from regard.studies import markdown

RENDERER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</td><script>alert(1)</script>",
    "<!-- hidden -->",
    "<https://example.org>",
    "[x](javascript:alert(1))",
    "![x](y)",
    "[x]: y",
    "`code` ``x``",
    "a|b\\|c\\",
    "# heading ##",
    "first\n# second\n\n---\n- third",
    "*a* **b** _c_ __d__ ~~e~~",
    "&lt;b&gt; &amp; &#42;x&#42;",
    "1. one",
    "12) twelve",
    "- one",
    "+",
    "---",
    "===",
    "> quoted",
    "    code",
    "```\nfence",
    "~~~",
    "\\*not\\*",
    "a  \nb",
)
fragments = st.sampled_from([*r"\`*_{}[]()#+-.!|<>&~$:=/;?", "\n", " ", "\t", "a", "B", "7", "lt", "http", "é", "\x1b"])
texts = st.lists(fragments, max_size=12).map("".join) | st.text(max_size=20)


def shown(text: str) -> str:
    return printable(" ".join(text.split()))


def rendered_lines(source: str, allowed: set[str]) -> list[str]:
    """The text of each inline token; any other token than those allowed is an error."""
    lines = []
    for token in RENDERER.parse(source):
        assert token.type.removesuffix("_open").removesuffix("_close") in {*allowed, "inline"}, (source, token)
        if token.type == "inline":
            lines.append("".join(map(plain_text, token.children or ())))
    return lines


def plain_text(token: Token) -> str:
    assert token.type in ("text", "text_special"), token
    return token.content


def examples(test: Callable[..., None]) -> Callable[..., None]:
    for text in HOSTILE:
        test = example(text)(test)
    return settings(max_examples=300)(given(texts)(test))


@examples
def test_a_paragraph_shows_its_text(text: str):
    assert rendered_lines(markdown.paragraph(text), {"paragraph"}) == ([shown(text)] if shown(text) else [])


@examples
def test_a_heading_shows_its_text(text: str):
    assert rendered_lines(markdown.heading(text, 2), {"heading"}) == [shown(text)]


@examples
def test_a_table_shows_its_cells(text: str):
    source = markdown.table(Table(("name", text), (("first", "1"), (text, text))))
    tokens = {"table", "thead", "tbody", "tr", "th", "td"}
    assert rendered_lines(source, tokens) == ["name", shown(text), "first", "1", shown(text), shown(text)]


@pytest.mark.parametrize(
    "text",
    [
        *("model.attention.kind", "exact_match", "none < dot", "p, seeds", "+60.0", "-1.5", "95 % interval"),
        *("a & b", "x<3", "dot (additive)", "C#", "seed 3: done!", "– (2 runs)", "a]"),
    ],
)
def test_names_and_numbers_are_not_escaped(text: str):
    assert markdown.escape(text) == text


@pytest.mark.parametrize(
    ("text", "escaped"), [("https://example.org", r"https\://example.org"), ("www.example.org", r"www\.example.org")]
)
def test_bare_urls_are_no_links(text: str, escaped: str):
    """On GitHub; markdown-it does not link them."""
    assert markdown.escape(text) == escaped


def test_a_table_keeps_its_columns():
    lines = markdown.table(Table(("a|b", "c"), (("x\ny", "|"),))).splitlines()
    assert lines == ["| a\\|b | c |", "| --- | --- |", "| x y | \\| |"]
