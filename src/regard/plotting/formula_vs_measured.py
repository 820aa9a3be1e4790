"""What was measured: points on the line that a formula draws, and draws in their order with their distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

from regard.plotting.palette import GRAY, line_style
from regard.plotting.panels import TYPE, PanelLayout
from regard.plotting.symbols import figure_text


@dataclass(frozen=True)
class Curve:
    """A formula and measurements of the same quantity.

    Args:
        label: Its name in the legend.
        formula: x and y of the line; None if there is no formula.
        measured: x and y of the points.
    """

    label: str
    formula: tuple[Sequence[float], Sequence[float]] | None
    measured: tuple[Sequence[float], Sequence[float]]


def draw_formula_curves(
    curves: Sequence[Curve], x_label: str, y_label: str, marks: Sequence[tuple[float, str]] = ()
) -> Figure:
    """Formulas as lines and what was measured as points: parts of one over a logarithmic axis.

    Args:
        curves: Drawn in this order.
        x_label: The name of the x axis.
        y_label: The name of the y axis.
        marks: Positions on the x axis with their names.
    """
    layout = PanelLayout([""], 5.6, 3.8, left=0.85, right=0.25)
    figure, grid = layout.start()
    (axes,) = grid.values()
    keys = []
    for number, curve in enumerate(curves):
        style, size = line_style(number), max(5, 11 - 3 * number)  # where two are the same, both can be seen
        line = {"color": style["color"], "linestyle": style["linestyle"], "linewidth": size / 3}
        dots = {"color": style["color"], "marker": style["marker"], "markersize": size}
        if curve.formula is not None:
            axes.plot(*curve.formula, **line)
        else:
            line["linestyle"] = "none"
        axes.plot(*curve.measured, **dots, linestyle="none")
        keys.append((Line2D([], [], **line | dots), curve.label))
    if any(curve.formula is not None for curve in curves):
        keys.append((Line2D([], [], color=GRAY, linewidth=2), "lines: closed form"))
    keys.append((Line2D([], [], color=GRAY, linestyle="none", marker="o", markersize=7), "points: measured"))
    for x, name in marks:
        axes.axvline(x, color=GRAY, linewidth=1, linestyle=":")
        above = axes.get_xaxis_transform()  # x in data coordinates, y as a fraction of the panel
        text, literally = figure_text(name)
        axes.text(x, 1.02, text, transform=above, ha="center", color=GRAY, fontsize=TYPE - 1, **literally)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    _style_shares(axes)
    layout.name_axes(figure, x_label, y_label)
    layout.add_legend_beside(figure, keys)
    return figure


def _style_shares(axes: Axes) -> None:
    """Parts of one, on a quiet grid without a box."""
    axes.set_ylim(-0.03, 1.03)
    axes.grid(color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
