"""HTML pages from Jinja templates with autoescape: every text that is put in is escaped."""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from regard.images import is_picture
from regard.plotting.symbols import typeset_html

TEMPLATES = Path(__file__).with_name("templates")


@dataclass(frozen=True)
class Image:
    """An SVG picture of a page.

    Args:
        address: Its URL, relative to the page or a `data:` URL.
        width: In CSS pixels, so that nothing moves when the picture is loaded.
        height: The same.
    """

    address: str
    width: int
    height: int

    @classmethod
    def at(cls, address: str, svg: bytes) -> Image:
        """The picture at `address`, with the size that its `viewBox` gives."""
        size = re.search(rb'viewBox="0 0 ([0-9.]+) ([0-9.]+)"', svg)
        width, height = (round(float(side)) for side in size.groups()) if size else (0, 0)
        return cls(address, width, height)

    @classmethod
    def embedded(cls, svg: bytes) -> Image:
        """The picture as a `data:` URL."""
        return cls.at(f"data:image/svg+xml;base64,{b64encode(svg).decode('ascii')}", svg)


@cache
def environment() -> Environment:
    """The Jinja environment of all templates in `templates/`."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["typeset"] = typeset_html
    made.filters["is_picture"] = is_picture
    return made


def render_page(template: str, **values: object) -> str:
    """The text of a page.

    Args:
        template: The name of a file in `templates/`.
        values: The variables of the template. Strings are escaped, except `markupsafe.Markup`.
    """
    text = environment().get_template(template).render(values)
    # A lone surrogate cannot be encoded; it becomes a character reference, which browsers show as �.
    return text.encode("utf-8", "xmlcharrefreplace").decode("utf-8")
