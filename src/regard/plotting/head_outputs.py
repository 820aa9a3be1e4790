"""What attention heads put out from draw to draw, where keys have random lengths.

Values are one-hot, so that an output shows what it is made of: shares [draws] of v_a and of v_b, each from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from regard.errors import printable
from regard.plotting.figures import fonts
from regard.plotting.palette import GRAY, VERMILION, line_style
from regard.plotting.panels import TYPE
from regard.plotting.symbols import Formula, figure_text

MAX_DRAWS_IN_ORDER = 60  # more could not be distinguished
MAX_POINTS = 2000  # of a scatter plot
HISTOGRAM_EDGES = np.linspace(0, 1, 22)  # one of the bins is around 1/2


@dataclass(frozen=True)
class HeadOutputs:
    """The outputs of one kind of heads, draw by draw.

    Args:
        label: The name of the heads, for the legend.
        share_a: The share of v_a in each output, [draws].
        share_b: The share of v_b in each output, [draws].
    """

    label: str
    share_a: ArrayLike
    share_b: ArrayLike


def draw_swing(
    share_a: ArrayLike,
    length_differences: ArrayLike,
    sigmoid: tuple[Sequence[float], Sequence[float]],
    sigmoid_label: str,
) -> Figure:
    """How the output of one head swings between v_a and v_b: draw after draw, and over the difference of key lengths.

    Args:
        share_a: The share of v_a in each output, [draws].
        length_differences: λ_a − λ_b of each draw, [draws].
        sigmoid: x and y of the closed form without other keys.
        sigmoid_label: The formula of that curve, typeset.
    """
    figure = Figure(figsize=(10.0, 4.4))
    figure.subplots_adjust(left=0.09, right=0.985, bottom=0.16, top=0.86, wspace=0.08)
    order, closed_form = figure.subplots(1, 2, sharey=True, width_ratios=(1.5, 1))
    share_a, differences = np.asarray(share_a, dtype=float), np.asarray(length_differences, dtype=float)
    style = line_style(0)
    first = share_a[:MAX_DRAWS_IN_ORDER]
    order.plot(range(1, len(first) + 1), first, color=style["color"], marker="o", markersize=4.5, linewidth=1.2)
    order.set_xlim(0, 1.13 * len(first) + 1)
    order.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    dots: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 6, "markerfacecolor": "white"}
    closed_form.plot(differences[:MAX_POINTS], share_a[:MAX_POINTS], color=style["color"], label="measured", **dots)
    closed_form.plot(*sigmoid, color=VERMILION, linewidth=1.8, label=figure_text(Formula(sigmoid_label))[0])
    closed_form.legend(
        loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=2, frameon=False, fontsize=TYPE - 2, borderaxespad=0.2,
        handlelength=1.2, columnspacing=1.0,
    )  # fmt: skip
    _name_axes(order, f"the first {len(first)} draws", "draw", Formula("share of v_a in the output"))
    _name_axes(closed_form, "", Formula("length difference λ_a − λ_b"))
    for y, value in ((1, "v_a"), (0, "v_b")):
        text, literally = figure_text(Formula(f"all {value}"))
        order.axhline(y, color=GRAY, linewidth=0.8, linestyle=":")
        room = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
        at = 1.13 * len(first) + 0.9
        order.text(at, y, text, ha="right", va="center", fontsize=TYPE - 1, color=GRAY, bbox=room, **literally)
    return figure


def draw_head_contrast(kinds: Sequence[HeadOutputs]) -> Figure:
    """How much the outputs of several kinds of heads spread: in the plane of v_a and v_b, and as distributions.

    Args:
        kinds: The kinds of heads to compare, such as one head and two.
    """
    figure = Figure(figsize=(10.0, 4.8))
    figure.subplots_adjust(left=0.08, right=0.985, bottom=0.15, top=0.82, wspace=0.25)
    plane, distribution = figure.subplots(1, 2, width_ratios=(1, 1.35))
    for index, heads in enumerate(kinds):
        share_a, share_b = np.asarray(heads.share_a, dtype=float), np.asarray(heads.share_b, dtype=float)
        style, label = line_style(index), printable(heads.label)
        dots: dict[str, Any] = {"linestyle": "none", "marker": style["marker"], "markersize": 5 + 6 * index}
        plane.plot(share_a[:MAX_POINTS], share_b[:MAX_POINTS], color=style["color"], **dots)  # all kinds are visible
        bars: dict[str, Any] = {"edges": HISTOGRAM_EDGES, "color": style["color"]}
        percent = share_histogram(share_a)
        spread = f"{label}: {share_a.mean():.2f} ± {share_a.std():.2f}"
        distribution.stairs(percent, **bars, fill=True, alpha=0.25)
        distribution.stairs(percent, **bars, linewidth=2, linestyle=style["linestyle"], label=spread)
    _draw_corners(plane)
    _name_axes(plane, "each output", Formula("share of v_a"), Formula("share of v_b"))
    _name_axes(distribution, Formula("share of v_a: mean ± standard deviation"), Formula("share of v_a"), "draws (%)")
    distribution.set(xlim=(-0.03, 1.03), ylim=(0, None))
    figure.legend(
        *distribution.get_legend_handles_labels(), loc="upper right", bbox_to_anchor=(0.985, 1.0), ncols=len(kinds),
        frameon=False, prop={"family": fonts(), "size": TYPE},
    )  # fmt: skip
    return figure


def share_histogram(shares: ArrayLike) -> NDArray[np.float64]:
    """The percentage of the shares in each bin of `HISTOGRAM_EDGES`.

    Args:
        shares: Numbers from 0 to 1; rounding may put one beyond by a last bit.
    """
    values = np.clip(np.asarray(shares, dtype=float), 0, 1)
    return 100 * np.histogram(values, HISTOGRAM_EDGES)[0] / len(values)


def _draw_corners(axes: Axes) -> None:
    """The line from v_a to v_b, where all outputs without a third value are, and labels at its ends and middle."""
    axes.plot([1, 0], [0, 1], color="0.8", linewidth=1, zorder=0)
    for x, y, value in ((1, 0, "v_a"), (0, 1, "v_b"), (0.5, 0.5, "(v_a + v_b)/2")):
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
