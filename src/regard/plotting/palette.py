"""The colors of all figures and pages: one color map for attention, one for signed numbers, one palette for lines."""

from __future__ import annotations

from typing import Any

from matplotlib.colors import LinearSegmentedColormap

# Attention weights from 0 (white, the color of paper) to 1, in steps of equal lightness in OKLab. `view.css` has the
# same colors as `--attention-0` to `--attention-8`; between two anchors both interpolate linearly in sRGB.
ATTENTION_COLORS = (
    "#ffffff", "#d0e4f8", "#a6c8ec", "#80acdb", "#5e90c7", "#4274af", "#2b5895", "#1a3d78", "#102459",
)  # fmt: skip
ATTENTION_COLORMAP = LinearSegmentedColormap.from_list("attention", ATTENTION_COLORS)

# Okabe and Ito (2008): distinguishable with every common color vision deficiency. Their eighth color, yellow,
# has too little contrast with white.
BLACK, BLUE, VERMILION, GREEN, PURPLE = "#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY = "#E69F00", "#56B4E9"
LINE_COLORS = (BLUE, VERMILION, GREEN, PURPLE, BLACK, ORANGE, SKY)
LINE_STYLES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
GRAY = "0.35"  # of text and lines that are not data

# Signed numbers from −1 to 1: the further from zero, the deeper; orange below, blue above. Black text is legible on
# all of it, in print too.
SIGNED_COLORMAP = LinearSegmentedColormap.from_list("signed", (ORANGE, "white", SKY))


def line_style(index: int) -> dict[str, Any]:
    """Color, line style and marker of the line with this index, as keyword arguments of `Axes.plot`.

    No two of the first 28 lines have the same color and style, and neighbors differ in color, style and marker.

    Args:
        index: Which line of the figure, from 0.
    """
    return {
        "color": LINE_COLORS[index % len(LINE_COLORS)],
        "linestyle": LINE_STYLES[index % len(LINE_STYLES)],
        "marker": MARKERS[index % len(MARKERS)],
    }
