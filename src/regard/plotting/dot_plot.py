"""Dot plots: the scores of the runs of each setting, with mean and confidence interval. Lengths are in inches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import floor, isfinite, log10
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from regard.errors import UserError
from regard.plotting.figures import literal
from regard.plotting.palette import GRAY, line_style
from regard.plotting.panels import TYPE, PanelLayout, distinct, fold, text_width
from regard.plotting.scales import ROUND, format_plain, measure_label

MOST_TALL_ROWS = 12  # more rows than these have labels of one line, not two
LARGEST_LANE = 0.36  # a lane is the part of a row that one group has
SMALLEST_LANE = 0.12
SMALLEST_NOTED_LANE = 0.15  # smaller ones have no note
USUAL_HEIGHT = 10.0  # lanes shrink to keep the rows this high
SWARM = 20  # from this number on, dots are spread so that they do not overlap
DOT = 6 / 72  # distance between spread dots
HIGHEST_SWARM = 0.8


@dataclass(frozen=True)
class DotRow:
    """The scores of the runs of one setting.

    Args:
        label: The setting, which names the row.
        values: One score per run.
        interval: The 95 % confidence interval; None if there is none.
        panel: The panel that it is in, such as a second setting.
        group: What is measured; each group has its color.
    """

    label: str
    values: tuple[float, ...]
    interval: tuple[float, float] | None
    panel: str = ""
    group: str = ""


def draw_dots(dots: Sequence[DotRow], measure: str, percent: bool = False, each: str = "one run") -> Figure:
    """A row for each label: every run as a small hollow dot, their mean as a filled one, the interval as a bar.

    An interval that exceeds the axis is cut.

    Args:
        dots: The scores.
        measure: What is measured, the label of the axis.
        percent: Whether values are fractions, which are drawn as percentages.
        each: What a hollow dot represents.
    """
    dots = [_clean(row, 100 if percent else 1) for row in dots]
    drawn = [row for row in dots if row.values]
    if not drawn:
        raise UserError("no run has been measured yet, so there is nothing to compare")
    panels = distinct(row.panel for row in dots)
    panel_width = {1: 4.4, 2: 3.3}.get(len(panels), 2.6)
    low, high = _limits(drawn, percent)
    rows = DotLayout.fit(dots, drawn, percent, apart=DOT * (high - low) / panel_width)
    names = fold(rows.labels, rows.lines)
    notes = [rows.note(row) for row in drawn]
    layout = PanelLayout(panels, panel_width, rows.height, text_width(names) + 0.2, text_width(notes) + 0.3)
    figure, grid = layout.start()
    for axes in grid.values():
        _set_rows(axes, names)
    for row in drawn:
        _draw_row(grid[row.panel], row, rows)
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(MaxNLocator(max(2, round(panel_width / 0.8)), steps=ROUND))
    axes.xaxis.set_major_formatter(FuncFormatter(format_plain))
    layout.name_axes(figure, measure_label(measure, percent))
    _add_keys(figure, rows, layout, each, intervals=any(row.interval for row in drawn))
    return figure


@dataclass(frozen=True)
class DotLayout:
    """Positions in the rows: a row has one lane for each group.

    Args:
        labels: The label of each row.
        groups: The groups.
        lines: Lines of a label.
        lane: Height of a lane, in inches.
        decimals: Decimals of the notes.
        several: Whether any setting has more than one run.
        apart: Distance at which dots do not overlap, in units of the axis.
        crowd: Largest number of dots above one another.
    """

    labels: Sequence[str]
    groups: Sequence[str]
    lines: int
    lane: float
    decimals: int
    several: bool
    apart: float
    crowd: int

    @classmethod
    def fit(cls, dots: Sequence[DotRow], drawn: Sequence[DotRow], percent: bool, apart: float) -> DotLayout:
        """The layout for these scores.

        Args:
            dots: All rows.
            drawn: The rows that have scores.
            percent: Whether values are percentages.
            apart: Distance at which dots do not overlap.
        """
        labels, groups = distinct(row.label for row in dots), distinct(row.group for row in dots)
        lines = 2 if len(labels) <= MOST_TALL_ROWS else 1
        lane = min(LARGEST_LANE, max(SMALLEST_LANE, USUAL_HEIGHT / len(labels) / len(groups)))
        lane = max(lane, lines * 1.25 * TYPE / 72 / len(groups))  # the label needs its lines
        largest = max(abs(value) for each in drawn for value in each.values)
        decimals = max(1 if percent else 0, 2 - floor(log10(largest or 1)))  # three significant digits
        several = any(len(each.values) > 1 for each in drawn)
        crowd = 1 + max(max(_levels(each.values, apart)) for each in drawn)
        if crowd > 1:
            lane = LARGEST_LANE + min(HIGHEST_SWARM, DOT * (crowd - 1))
        return cls(labels, groups, lines, lane, decimals, several, apart, crowd)

    @property
    def height(self) -> float:
        return len(self.labels) * self.row

    @property
    def row(self) -> float:
        return self.lane * len(self.groups) + (0.12 if len(self.groups) > 1 else 0)

    def middle(self, dots: DotRow, down: float = 0) -> float:
        """The vertical position of a lane, in rows from the top.

        Args:
            dots: The row and its group.
            down: Distance below the middle of the lane, in lanes.
        """
        lanes = self.groups.index(dots.group) - (len(self.groups) - 1) / 2 + down
        return self.labels.index(dots.label) + lanes * self.lane / self.row

    @property
    def mean_down(self) -> float:
        """The position of the mean, in lanes below the middle: above the runs if there are several."""
        return 0 if not self.several else -0.14 if self.crowd == 1 else 0.36 * LARGEST_LANE / self.lane - 0.5

    def runs_down(self, dots: DotRow) -> list[float]:
        """The position of each run, in lanes below the middle. Spread dots alternate around their line: 0, 1, −1, 2, …

        Args:
            dots: The row.
        """
        line = 0.25 if self.crowd == 1 else 0.25 * LARGEST_LANE / self.lane
        step = (self.lane - LARGEST_LANE) / self.lane / max(self.crowd - 1, 1)
        levels = _levels(dots.values, self.apart)
        return [line + step * ((level + 1) // 2) * (1 if level % 2 else -1) for level in levels]

    def note(self, dots: DotRow) -> str:
        return f"{fmean(dots.values):,.{self.decimals}f}" if self.lane >= SMALLEST_NOTED_LANE else ""


def _levels(values: Sequence[float], apart: float) -> list[int]:
    """For each value, the first level on which it is `apart` from all others; 0 if there are fewer than `SWARM`."""
    levels, ends = [0] * len(values), list[float]()
    for index in sorted(range(len(values)), key=lambda index: values[index]) if len(values) >= SWARM else ():
        level = next((level for level, end in enumerate(ends) if values[index] - end >= apart), len(ends))
        ends[level : level + 1] = [values[index]]
        levels[index] = level
    return levels


def _clean(dots: DotRow, scale: float) -> DotRow:
    values = tuple(scale * value for value in dots.values if isfinite(value))
    interval = dots.interval
    if interval and all(map(isfinite, interval)):
        return replace(dots, values=values, interval=(scale * interval[0], scale * interval[1]))
    return replace(dots, values=values, interval=None)


def _set_rows(axes: Axes, names: Sequence[str]) -> None:
    """Labels, and a gray background for every second row, from its label to its number."""
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), names, fontsize=TYPE, linespacing=1.1, **literal())
    for number in range(1, len(names), 2):
        axes.axhspan(number - 0.5, number + 0.5, color="0.955", linewidth=0, zorder=0)
    axes.grid(axis="x", color="0.86", linewidth=0.8)
    axes.spines["left"].set_visible(False)


def _draw_row(axes: Axes, dots: DotRow, rows: DotLayout) -> None:
    """The mean and its bar in the upper part of the lane, the runs in the lower, so that neither hides the other."""
    style = line_style(rows.groups.index(dots.group)) | {"linestyle": "none"}
    size = min(9.0, 72 * 0.36 * rows.lane)
    mean, upper = fmean(dots.values), rows.middle(dots, rows.mean_down)
    if dots.interval:
        axes.hlines(upper, *dots.interval, color=style["color"], linewidth=0.28 * size)
    # Dots are not clipped: one at 100 % is drawn whole.
    axes.plot([mean], [upper], **style, markersize=size, clip_on=False, zorder=4)
    if rows.several:
        lower = [rows.middle(dots, down) for down in rows.runs_down(dots)]
        hollow: dict[str, Any] = {"markersize": 0.6 * size, "markeredgewidth": 0.13 * size, "markerfacecolor": "white"}
        axes.plot(dots.values, lower, **style, **hollow, clip_on=False, zorder=3)
    axes.annotate(
        rows.note(dots),
        (1, rows.middle(dots)),
        (10, 0),  # room for half a dot
        xycoords=axes.get_yaxis_transform(),
        textcoords="offset points",
        va="center_baseline",
        color=style["color"] if len(rows.groups) > 1 else "black",
        fontsize=min(TYPE, 72 * 0.8 * rows.lane),
    )


def _limits(drawn: Sequence[DotRow], percent: bool) -> tuple[float, float]:
    """All dots, and as much of the intervals as leaves the dots at least a third: two runs can give an immense one."""
    values = [value for each in drawn for value in each.values]
    ends = [end for each in drawn if each.interval for end in each.interval]
    low, high = min(values), max(values)
    spread = (high - low) or max(map(abs, [*ends, low]), default=0) or 1
    low, high = max(min([low, *ends]), low - spread), min(max([high, *ends]), high + spread)
    margin = 0.04 * ((high - low) or spread)
    low, high = low - margin, high + margin
    return (max(low, 0), min(high, max([*values, 100]))) if percent else (low, high)  # errors can be above 100 %


def _add_keys(figure: Figure, rows: DotLayout, layout: PanelLayout, each: str, intervals: bool) -> None:
    """The meaning of the colors and, below, of the dots and the bar."""
    dot: dict[str, Any] = {"linestyle": "none", "markersize": 9}
    groups = [(Line2D([], [], **line_style(number) | dot), group) for number, group in enumerate(rows.groups) if group]
    height = layout.add_legend(figure, groups, handle=1.4) if groups else 0
    color = GRAY if groups else line_style(0)["color"]
    keys = [
        (rows.several, "mean", {"marker": "o"} | dot),
        (rows.several, each, {"marker": "o", "markerfacecolor": "white"} | dot | {"markersize": 5.5}),
        (intervals, "95 % interval", {"linewidth": 2.5}),
    ]
    shown = [(Line2D([], [], color=color, **style), label) for wanted, label, style in keys if wanted]
    if shown:
        layout.add_legend(figure, shown, down=height, handle=1.4)
