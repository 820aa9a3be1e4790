"""Translations as a page that can be played with: one file that loads nothing, for slides, mail and notebooks.

The page is made of the modules of `view/`, which `regard serve` uses, too. They become one script by the plainest of
means: one after the other, without `import` and `export`. So an import is one line, and no name is used by two modules.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path
from string import Template
from typing import Any

VIEW = Path(__file__).with_name("view")
MODULES = (  # each after those that it imports
    "elements",
    "tokens",
    "weights",
    "wording",
    "cells",
    "map",
    "lines",
    "heads",
    "alternatives",
    "output",
    "result",
    "stage",
    "tree",
    "steps",
    "table",
    "tabs",
    "downloads",
    "takeaway",
    "panel",
    "frozen",
)
DATA = "REGARD_DATA"  # stands in the template where the data goes
AROUND, CELL, HIGHEST = 540, 40, 1000  # the height of a notebook's frame: around a map, of its rows, of all; in pixels


@cache
def template() -> str:
    """The page without its data. Its own policy lets nothing run but the script that is in it."""
    style = (VIEW / "view.css").read_text(encoding="utf-8")
    script = bundle()
    page = Template((VIEW / "frozen.html").read_text(encoding="utf-8"))
    return page.substitute(style=style, script=script, style_hash=_hash(style), script_hash=_hash(script))


def bundle() -> str:
    """All modules as one."""
    modules = [(VIEW / f"{name}.js").read_text(encoding="utf-8") for name in MODULES]
    return "\n".join(re.sub(r"^(import .*\n|export )", "", module, flags=re.MULTILINE) for module in modules)


def saved_page(data: Mapping[str, Any]) -> str:
    """The page of {"title", "views": [{"name", "about", "answer"}, …], "state"}; an answer is one of the API."""
    text = json.dumps(data, allow_nan=False)  # in ASCII: half a surrogate pair, too, is an escape
    for sign in "<>&":  # no text can end the script that it stands in
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return template().replace(DATA, text)


def notebook(data: Mapping[str, Any]) -> str:
    """The page in a frame that can reach nothing around it, and the output as text where frames are taken out."""
    answers = [view["answer"] for view in data["views"]]
    outputs = "".join(f'<p dir="auto">{escape(answer["text"])}</p>' for answer in answers)
    longest = max((len(answer["n_best"][0]["tokens"]) for answer in answers), default=0)
    height = min(AROUND + CELL * longest, HIGHEST)
    frame = (
        f'<iframe sandbox="allow-scripts allow-downloads" title="attention of the translation" '
        f'style="width: 100%; height: {height}px; border: 0; resize: vertical" '
        f'srcdoc="{escape(saved_page(data))}"></iframe>'
    )
    # Half a surrogate pair cannot be encoded; it becomes a reference, which browsers show as �.
    return (outputs + frame).encode("utf-8", "xmlcharrefreplace").decode("utf-8")


def _hash(content: str) -> str:
    """How a content security policy names a script or a style that stands in the page."""
    return f"'sha256-{b64encode(sha256(content.encode('utf-8')).digest()).decode('ascii')}'"
