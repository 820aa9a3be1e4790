"""Symbols such as W_q and e_ti, typeset: as mathtext in figures and as HTML in pages.

A program writes them as plain text, which a terminal shows as it is. `Formula` marks the text whose symbols figures and
pages typeset; any other text, such as a token, is drawn literally.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from markupsafe import Markup, escape

from regard.errors import printable
from regard.plotting.figures import literal


class Formula(str):
    """Text with symbols: `W_q`, `α_ti`, `x_{t+n}`, `10000^(2k/d)`, or prose that mentions them."""

    __slots__ = ()


def mathtext(symbol: str) -> str:
    r"""The text with its symbols as matplotlib mathtext: `e_ti` becomes `$e_{ti}$`.

    Args:
        symbol: A symbol, a formula, or prose with symbols. A literal `$` is escaped.
    """
    return "".join(
        text.replace("$", r"\$") + (f"${_math(*parts)}$" if any(parts) else "") for text, parts in _cut(symbol)
    )


def html(symbol: str) -> Markup:
    """The text with its symbols as HTML: `e_ti` becomes `<var>e</var><sub>ti</sub>`.

    Args:
        symbol: A symbol, a formula, or prose with symbols. Everything is escaped.
    """
    pieces: list[Markup] = []
    for text, parts in _cut(symbol):
        pieces.append(escape(text))
        tagged = zip(("var", "sub", "sup"), parts, strict=True)
        pieces += [Markup("<{0}>{1}</{0}>").format(tag, part) for tag, part in tagged if part]
    return Markup("").join(pieces)


def typeset_html(text: str) -> Markup:
    """The text as HTML, with symbols if it is a `Formula`.

    Args:
        text: The text.
    """
    return html(text) if isinstance(text, Formula) else escape(text)


def figure_text(text: str) -> tuple[str, dict[str, Any]]:
    """The text to draw, as mathtext if it is a `Formula`, and keyword arguments for matplotlib.

    Args:
        text: The text.
    """
    if isinstance(text, Formula):
        return mathtext(printable(text)), literal() | {"parse_math": True}
    return printable(text), literal()


Parts = tuple[str, str, str]  # a letter, its subscript and its superscript

# What may be a script: 1 to 3 letters and digits, or more in braces or parentheses.
_SHORT, _LONG = r"<?[^\W_]{1,3}(?!\w)", r"[\w+−·/<>=,. -]*"
# A letter that is not part of a word, and does not follow an apostrophe; or what a superscript can follow.
_SYMBOL = re.compile(
    rf"(?:(?<![\w'’])(?P<letter>[^\W\d_])(?:_(?:\{{(?P<sub_group>{_LONG})\}}|(?P<sub>{_SHORT})))?|(?<=[\d)])(?=\^))"
    rf"(?:\^(?:\((?P<sup_group>{_LONG})\)|(?P<sup>{_SHORT})))?(?!\w)"
)
_ENGLISH_WORDS = frozenset("aAI")
_OPERATORS = frozenset("ΣΠ")  # upright


def _cut(text: str) -> Iterator[tuple[str, Parts]]:
    """Pairs of what is before a symbol and the symbol; the last pair has no symbol."""
    end = 0
    for match in _SYMBOL.finditer(text):
        group = {name: part or "" for name, part in match.groupdict().items()}
        letter, sub, sup = group["letter"], group["sub"] + group["sub_group"], group["sup"] + group["sup_group"]
        if letter in _ENGLISH_WORDS and not sub and not sup and text != letter:
            continue
        before = text[end : match.start()]
        yield (before + letter, ("", sub, sup)) if letter in _OPERATORS else (before, (letter, sub, sup))
        end = match.end()
    yield text[end:], ("", "", "")


def _math(letter: str, sub: str, sup: str) -> str:
    """A symbol in mathtext; words in its scripts are upright."""
    scripts = (f"{sign}{{{_upright_words(part)}}}" for sign, part in (("_", sub), ("^", sup)) if part)
    return letter + "".join(scripts)


def _upright_words(script: str) -> str:
    return re.sub(r"([^\W\d_]{3,})", r"\\mathrm{\1}", script.replace("_", r"\_"))
