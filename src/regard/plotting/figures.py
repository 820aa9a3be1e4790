"""Literal text, fonts, and saving of figures."""

from __future__ import annotations

import warnings
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any
from unicodedata import east_asian_width

import matplotlib
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager

from regard import files
from regard.errors import UserError, printable, suggest

DOTS_PER_INCH = 200


def check_suffix(path: Path | str) -> str:
    """The suffix of a figure's file, in lower case. Call it before a long computation, not after.

    Args:
        path: The file.
    """
    suffix = Path(path).suffix.lower()
    if suffix in METADATA:
        return suffix
    problem = f"cannot save a figure as '{suffix}'" if suffix else "cannot save a figure without a suffix"
    raise UserError(f"{path}: {problem}; {suggest(suffix, METADATA)}")


def save_figure(figure: Figure, path: Path | str) -> None:
    """Write the figure as .png, .svg or .pdf, atomically. The same figure gives the same bytes.

    Args:
        figure: The figure.
        path: The file; its suffix determines the format.
    """
    files.write_output(Path(path), render_figure(figure, check_suffix(path)), "the figure")


def render_figure(figure: Figure, suffix: str) -> bytes:
    """The bytes of the figure.

    Args:
        figure: The figure.
        suffix: The format, such as ".svg".
    """
    settings: dict[Any, Any] = {
        "svg.hashsalt": "regard",  # otherwise the ids in the file are random
        "svg.fonttype": "none",  # text stays text, for search and screen readers
        "pdf.fonttype": 42,  # the same, by embedding the font as it is
    }
    buffer = BytesIO()
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        # A token may be in any script. One that no installed font can draw becomes a box, without a warning.
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .*missing from")
        warnings.filterwarnings("ignore", message=r"Matplotlib currently does not support .* natively")
        figure.savefig(
            buffer,
            format=suffix.removeprefix("."),
            dpi=DOTS_PER_INCH,
            bbox_inches="tight",
            pad_inches=0.12,
            metadata=METADATA[suffix],
        )
    return buffer.getvalue()


def literal() -> dict[str, Any]:
    """Keyword arguments for text that comes from data: `$x$` and `\\alpha` are drawn, not typeset."""
    return {"parse_math": False, "usetex": False, "fontfamily": fonts()}


@cache
def fonts() -> list[str]:
    """The font that comes with matplotlib, then those that fill its gaps, where they are installed.

    The last is for viewers of an .svg file that lack them.
    """
    # A font that is not installed would log a warning for each text.
    installed = {font.name for font in fontManager.ttflist}
    return ["DejaVu Sans", *(name for name in WIDER_FONTS if name in installed), "sans-serif"]


def ems(text: str) -> float:
    """The approximate width of a text, in ems.

    Args:
        text: The text.
    """
    return sum(1.0 if east_asian_width(c) in "WF" else 0.65 for c in text)


def message_figure(message: str, title: str | None) -> Figure:
    """A figure that contains only a message, where there is nothing to draw.

    Args:
        message: The message.
        title: Drawn above, literally.
    """
    figure = Figure(figsize=(4, 1.2))
    figure.text(0.5, 0.4, message, ha="center", va="center", fontsize=13, style="italic", color="dimgray")
    if title:
        figure.text(0.5, 0.85, printable(title), ha="center", va="center", fontsize=13, **literal())
    return figure


# Fonts with the scripts that DejaVu Sans lacks: on Linux, Windows and macOS.
WIDER_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "WenQuanYi Micro Hei",
    "Microsoft YaHei",
    "Malgun Gothic",
    "Arial Unicode MS",
    "Noto Sans Devanagari",
    "Nirmala UI",
    "Noto Emoji",
)

# The formats, each with what keeps the time of day out of the file.
METADATA: dict[str, dict[str, None]] = {
    ".png": {},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}
