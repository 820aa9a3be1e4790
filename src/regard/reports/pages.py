"""What all pages share: their look, and texts that are shown as they are written, whatever they hold."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from pathlib import Path
from string import Template

STYLE = Path(__file__).with_name("page.css")


def fill(template: Path, **parts: str) -> bytes:
    """The page of a template, whose `$style` is that of all pages. The parts are put in as they are: escape them."""
    style = STYLE.read_text(encoding="utf-8").rstrip()
    page = Template(template.read_text(encoding="utf-8")).substitute(parts, style=style)
    # A lone half of a surrogate pair cannot be encoded; it becomes a reference, which browsers show as �.
    return page.encode("utf-8", "xmlcharrefreplace")


def describe(facts: Mapping[str, str]) -> str:
    """The items of a list of facts, each with its name."""
    return "\n".join(
        f'<dt dir="auto">{escape(name)}</dt><dd dir="auto">{escape(fact)}</dd>' for name, fact in facts.items()
    )


def quote(name: str, text: str, note: str = "", tag: str = "dd") -> str:
    """A text in a language that nobody told, in whichever direction it is written."""
    if not text.strip():
        note = f"(nothing) {note}".strip()
    noted = f' <span class="note" lang="en" dir="ltr">{escape(note)}</span>' if note else ""
    return f'<{tag} class="{name}" lang="" dir="auto" translate="no">{escape(text)}{noted}</{tag}>'


def quote_named(name: str, text: str, note: str = "") -> str:
    """The same as an item of a list, with its name."""
    return f"<dt>{name}</dt>{quote(name, text, note)}"


def show(address: str, picture: bytes, alt: str, lazy: bool = False) -> str:
    """An SVG picture that is found at `address`. Its size is told so that nothing moves when it is loaded."""
    size = re.search(rb'viewBox="0 0 ([0-9.]+) ([0-9.]+)"', picture)
    width, height = (round(float(side)) for side in size.groups()) if size else (0, 0)
    later = ' loading="lazy"' if lazy else ""
    return f'<img src="{address}" alt="{escape(alt)}" width="{width}" height="{height}"{later}>'
