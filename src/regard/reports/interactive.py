"""Translations as an interactive page: one file that loads nothing, for slides, mail and notebooks.

The page consists of the modules of `view/`, which `regard serve` uses, too. They are concatenated into one script
without `import` and `export`. So an import is one line, and no top-level name is used by two modules.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from regard.reports.pages import render_page

VIEW = Path(__file__).with_name("view")
MODULES = (  # each after those that it imports
    "elements",
    "tokens",
    "weights",
    "attentions",
    "wording",
    "cells",
    "map",
    "lines",
    "heads",
    "attention_choice",
    "alternatives",
    "source_image",
    "output",
    "result",
    "stage",
    "tree",
    "steps",
    "table",
    "tabs",
    "downloads",
    "download_row",
    "panel",
    "saved_page",
)
DATA = "REGARD_DATA"  # the placeholder for the data in the template
FRAME_HEIGHT, ROW_HEIGHT, MAX_FRAME_HEIGHT = 540, 40, 1000  # of a notebook's frame, in pixels


@cache
def template() -> str:
    """The saved page with the placeholder `DATA` for its data.

    Its content security policy allows nothing but the script and the style that are in it, by their hashes.
    """
    style, script = (VIEW / "view.css").read_text(encoding="utf-8"), bundle()
    return render_page(
        "saved_page.html",
        style=Markup(style),
        script=Markup(script),
        style_hash=Markup(_content_hash(style)),
        script_hash=Markup(_content_hash(script)),
        data=DATA,
    )


def bundle() -> str:
    """All modules of the view as one script, without `import` and `export`."""
    modules = [(VIEW / f"{name}.js").read_text(encoding="utf-8") for name in MODULES]
    return "\n".join(re.sub(r"^(import .*\n|export )", "", module, flags=re.MULTILINE) for module in modules)


def saved_page(data: Mapping[str, Any]) -> str:
    """A self-contained page that shows translations.

    Args:
        data: {"title", "views": [{"name", "about", "translation"}, …], "state"}; translations are those of the API.

    Raises:
        ValueError: If the data contains NaN or infinity, which JSON does not have.
    """
    # In ASCII, without <, >, & and ': no text can end the script element that contains it.
    return template().replace(DATA, htmlsafe_json_dumps(data, allow_nan=False))


def notebook(data: Mapping[str, Any]) -> str:
    """The saved page in a sandboxed frame, after the output as text for notebooks that remove frames.

    Args:
        data: As for `saved_page`.
    """
    translations = [view["translation"] for view in data["views"]]
    longest = max((len(translation["n_best"][0]["tokens"]) for translation in translations), default=0)
    height = min(FRAME_HEIGHT + ROW_HEIGHT * longest, MAX_FRAME_HEIGHT)
    return render_page("notebook.html", translations=translations, height=height, page=saved_page(data))


def _content_hash(content: str) -> str:
    """The hash by which a content security policy allows an inline script or style."""
    return f"'sha256-{b64encode(sha256(content.encode('utf-8')).digest()).decode('ascii')}'"
