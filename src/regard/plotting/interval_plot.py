"""Estimates with their confidence intervals on logarithmic axes, one panel per measure. Lengths are in inches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from regard.plotting.figures import literal
from regard.plotting.palette import line_style
from regard.plotting.panels import TYPE, PanelLayout, distinct, fold, text_width, truncate
from regard.plotting.scales import format_power

ROW = 0.45
PANEL_WIDTH = 4.2
TICKS = 6


@dataclass(frozen=True)
class IntervalRow:
    """An estimate with its confidence interval; all are above 0.

    Args:
        label: What is estimated, the name of the row.
        value: The estimate.
        low: Lower end of the interval.
        high: Upper end of the interval.
        panel: The panel that it is in, such as a measure.
    """

    label: str
    value: float
    low: float
    high: float
    panel: str


def draw_intervals(
    rows: Sequence[IntervalRow], measure: str, notes: Mapping[str, str] | None = None, title: str = ""
) -> Figure:
    """A row for each label and a panel for each measure: the estimate as a dot, its interval as a bar.

    Each panel has its own axis, as measures have different units.

    Args:
        rows: The estimates.
        measure: What is estimated, the label of the axes.
        notes: A result for each panel, after its name.
        title: The result of all panels, drawn above.
    """
    labels, panels = distinct(row.label for row in rows), distinct(row.panel for row in rows)
    names = fold(labels, 1)
    layout = PanelLayout(panels, PANEL_WIDTH, max(1.0, ROW * len(labels)), text_width(names) + 0.2, 0.4)
    figure, grid = layout.start(share_x=False)
    for row in rows:
        axes, y = grid[row.panel], labels.index(row.label)
        style = line_style(panels.index(row.panel))
        axes.hlines(y, row.low, row.high, color=style["color"], linewidth=2.5)
        axes.plot(row.value, y, color=style["color"], marker="o", markersize=8)
    for panel, axes in grid.items():
        if notes:
            name = truncate(panel, int(9 * PANEL_WIDTH) - len(notes[panel]) - 2)
            axes.set_title(f"{name}: {notes[panel]}", loc="left", fontsize=TYPE, **literal())
        axes.set_yticks(range(len(labels)), names, fontsize=TYPE, **literal())
        axes.grid(axis="x", color="0.9", linewidth=0.8)
        axes.set_ylim(len(labels) - 0.5, -0.5)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(numticks=TICKS))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(format_power))
    layout.name_axes(figure, measure)
    if title:
        figure.text(*layout.fraction(layout.left, -0.1), title, va="bottom", fontsize=TYPE + 1, **literal())
    return figure
