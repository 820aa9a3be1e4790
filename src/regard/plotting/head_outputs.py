"""The outputs of attention heads from draw to draw, where keys are noisy.

Values are one-hot, so an output shows its composition: shares [draws, values] of some of the values, each from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from regard.errors import printable
from regard.plotting.figures import fonts
from regard.plotting.palette import GRAY, LINE_COLORS, VERMILION, line_style
from regard.plotting.panels import TYPE
from regard.plotting.symbols import Formula, figure_text

MAX_DRAWS_IN_ORDER = 60  # more could not be distinguished
MAX_BARS = 30
OTHER_COLOR = to_rgba("0.85")  # of values that are not named
MAX_LEGEND = 6  # values in a legend
MAX_POINTS = 2000  # of a scatter plot
HISTOGRAM_EDGES = np.linspace(0, 1, 22)  # one of the bins is around 1/2


@dataclass(frozen=True)
class HeadOutputs:
    """The outputs of one kind of heads, draw by draw.

    Args:
        label: The name of the heads, for the legend.
        shares: The shares of the values in each output, [draws, values].
    """

    label: str
    shares: ArrayLike


def draw_swing(
    shares: ArrayLike,
    differences: ArrayLike,
    sigmoid: tuple[Sequence[float], Sequence[float]],
    sigmoid_label: str,
    values: tuple[str, str],
    difference_label: str,
) -> Figure:
    """How the output of one head alternates between two values: draw by draw, and over the difference of key lengths.

    Args:
        shares: The share of the first value in each output, [draws].
        differences: The difference of the key lengths, or of their squares, in each draw, [draws].
        sigmoid: x and y of the closed form without other keys.
        sigmoid_label: The formula of that curve, typeset.
        values: The names of both values, typeset.
        difference_label: The name of the difference, typeset.
    """
    figure = Figure(figsize=(10.0, 4.4))
    figure.subplots_adjust(left=0.09, right=0.985, bottom=0.16, top=0.86, wspace=0.08)
    order, closed_form = figure.subplots(1, 2, sharey=True, width_ratios=(1.5, 1))
    shares, differences = np.asarray(shares, dtype=float), np.asarray(differences, dtype=float)
    style = line_style(0)
    first = shares[:MAX_DRAWS_IN_ORDER]
    order.plot(range(1, len(first) + 1), first, color=style["color"], marker="o", markersize=4.5, linewidth=1.2)
    order.set_xlim(0, 1.13 * len(first) + 1)
    order.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    dots: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 6, "markerfacecolor": "white"}
    closed_form.plot(differences[:MAX_POINTS], shares[:MAX_POINTS], color=style["color"], label="measured", **dots)
    closed_form.plot(*sigmoid, color=VERMILION, linewidth=1.8, label=figure_text(Formula(sigmoid_label))[0])
    closed_form.legend(
        loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=2, frameon=False, fontsize=TYPE - 2, borderaxespad=0.2,
        handlelength=1.2, columnspacing=1.0,
    )  # fmt: skip
    _name_axes(order, f"the first {len(first)} draws", "draw", Formula(f"share of {values[0]} in the output"))
    _name_axes(closed_form, "", Formula(difference_label))
    for y, value in zip((1, 0), values, strict=True):
        text, literally = figure_text(Formula(f"all {value}"))
        order.axhline(y, color=GRAY, linewidth=0.8, linestyle=":")
        room = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
        at = 1.13 * len(first) + 0.9
        order.text(at, y, text, ha="right", va="center", fontsize=TYPE - 1, color=GRAY, bbox=room, **literally)
    return figure


def draw_head_contrast(kinds: Sequence[HeadOutputs], values: tuple[str, str]) -> Figure:
    """How much the outputs of several kinds of heads spread: in the plane of two values, and as distributions.

    Args:
        kinds: The kinds of heads to compare, such as one head and two.
        values: The names of both values, typeset.
    """
    figure = Figure(figsize=(10.0, 4.8))
    figure.subplots_adjust(left=0.08, right=0.985, bottom=0.15, top=0.82, wspace=0.25)
    plane, distribution = figure.subplots(1, 2, width_ratios=(1, 1.35))
    for index, heads in enumerate(kinds):
        first, second = np.asarray(heads.shares, dtype=float).T
        style, label = line_style(index), printable(heads.label)
        dots: dict[str, Any] = {"linestyle": "none", "marker": style["marker"], "markersize": 5 + 6 * index}
        plane.plot(first[:MAX_POINTS], second[:MAX_POINTS], color=style["color"], **dots)  # all kinds are visible
        bars: dict[str, Any] = {"edges": HISTOGRAM_EDGES, "color": style["color"]}
        percent = share_histogram(first)
        spread = f"{label}: {first.mean():.2f} ± {first.std():.2f}"
        distribution.stairs(percent, **bars, fill=True, alpha=0.25)
        distribution.stairs(percent, **bars, linewidth=2, linestyle=style["linestyle"], label=spread)
    _draw_corners(plane, values)
    share = Formula(f"share of {values[0]}")
    _name_axes(plane, "each output", share, Formula(f"share of {values[1]}"))
    _name_axes(distribution, Formula(f"{share}: mean ± standard deviation"), share, "draws (%)")
    distribution.set(xlim=(-0.03, 1.03), ylim=(0, None))
    figure.legend(
        *distribution.get_legend_handles_labels(), loc="upper right", bbox_to_anchor=(0.985, 1.0), ncols=len(kinds),
        frameon=False, prop={"family": fonts(), "size": TYPE},
    )  # fmt: skip
    return figure


def draw_head_shares(kinds: Sequence[HeadOutputs], values: Sequence[str]) -> Figure:
    """The composition of the first outputs as stacked bars, one panel for each kind of heads.

    Args:
        kinds: The kinds of heads to compare, such as one head and three.
        values: The names of the values, typeset, from bottom to top.
    """
    figure = Figure(figsize=(10.0, 4.6))
    figure.subplots_adjust(left=0.08, right=0.985, bottom=0.15, top=0.8, wspace=0.08)
    panels = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
    count = len(LINE_COLORS)  # repeated in lighter shades
    colors = [to_rgba(LINE_COLORS[index % count], 0.5 ** (index // count)) for index in range(len(values))]
    for axes, heads in zip(panels, kinds, strict=True):
        shares = np.asarray(heads.shares, dtype=float)[:MAX_BARS]
        shares = np.column_stack([shares, 1 - shares.sum(1)])
        below = np.cumsum(shares, 1) - shares
        draws = np.arange(1, len(shares) + 1)
        for share, bottom, color in zip(shares.T, below.T, [*colors, OTHER_COLOR], strict=True):
            axes.bar(draws, share, 0.82, bottom, color=color)
        _name_axes(axes, printable(heads.label), "draw", "share in the output" if axes is panels[0] else "")
        axes.set(xlim=(0.2, len(shares) + 0.8), ylim=(0, 1.0))
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.grid(visible=False)
    shown = list(zip(colors, (figure_text(Formula(value))[0] for value in values), strict=True))
    if len(shown) > MAX_LEGEND:
        shown = [*shown[: MAX_LEGEND - 1], (to_rgba("none"), "…"), shown[-1]]
    shown.append((OTHER_COLOR, "other values"))
    figure.legend(
        [Patch(facecolor=color) for color, _ in shown], [name for _, name in shown], loc="upper right", frameon=False,
        bbox_to_anchor=(0.985, 1.0), ncols=len(shown), fontsize=TYPE, handlelength=1.0, handleheight=1.0,
        columnspacing=1.2,
    )  # fmt: skip
    return figure


def share_histogram(shares: ArrayLike) -> NDArray[np.float64]:
    """The percentage of the shares in each bin of `HISTOGRAM_EDGES`.

    Args:
        shares: Numbers from 0 to 1; rounding may put one beyond by a last bit.
    """
    values = np.clip(np.asarray(shares, dtype=float), 0, 1)
    return 100 * np.histogram(values, HISTOGRAM_EDGES)[0] / len(values)


def _draw_corners(axes: Axes, values: tuple[str, str]) -> None:
    """The line from one value to the other, where all outputs without a third are, with labels at ends and middle."""
    axes.plot([1, 0], [0, 1], color="0.8", linewidth=1, zorder=0)
    for x, y, value in ((1, 0, values[0]), (0, 1, values[1]), (0.5, 0.5, f"({values[0]} + {values[1]})/2")):
        text, style = figure_text(Formula(value))
        axes.annotate(text, (x, y), (9, 9), textcoords="offset points", fontsize=TYPE, **style)
    axes.set(xlim=(-0.08, 1.22), ylim=(-0.08, 1.22), aspect="equal")


def _name_axes(axes: Axes, title: str, x_label: str, y_label: str = "") -> None:
    for setter, text in ((axes.set_xlabel, x_label), (axes.set_ylabel, y_label)):
        content, style = figure_text(text)
        setter(content, fontsize=TYPE, **style)
    content, style = figure_text(title)
    axes.set_title(content, loc="left", fontsize=TYPE, **style)
    axes.grid(color="0.92", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=TYPE - 2, length=0, pad=5)
    axes.spines[["top", "right"]].set_visible(False)
