"""Figures that compare settings: the scores of their runs, and their values along an axis."""

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
from regard.plotting.panels import TYPE, PanelLayout, distinct, fold, width
from regard.plotting.scales import ROUND, plain, scale_x, scale_y

MOST_TALL_ROWS = 12  # more rows than these have labels of one line, not two
LARGEST_LANE = 0.36  # a lane is the part of a row that one group has
SMALLEST_LANE = 0.12
SMALLEST_NOTED_LANE = 0.15  # in smaller ones no number could be read
USUAL_HEIGHT = 10.0  # lanes shrink to keep the rows this high
SWARM = 20  # so many dots or more are spread, so that none covers another
DOT = 6 / 72  # how far apart these are
HIGHEST_SWARM = 0.8


@dataclass(frozen=True)
class DotRow:
    """What the runs of one setting scored; `group` tells apart what is measured, and `panel` a second setting."""

    label: str
    values: tuple[float, ...]
    interval: tuple[float, float] | None
    panel: str = ""
    group: str = ""


@dataclass(frozen=True)
class Band:
    """How the runs of one setting went: each run has a value, or None, for each `x`."""

    label: str
    x: tuple[float, ...]
    runs: tuple[tuple[float | None, ...], ...]
    panel: str = ""


def draw_dots(dots: Sequence[DotRow], measure: str, percent: bool = False, each: str = "one run") -> Figure:
    """A row for each label: every run as a small hollow dot, their mean as a filled one, the interval as a bar.

    With `percent`, values are parts of one and drawn as per cent. An interval that goes beyond the axis is cut there.
    `each` names what a hollow dot represents, if not a run.
    """
    dots = [_clean(row, 100 if percent else 1) for row in dots]
    drawn = [row for row in dots if row.values]
    if not drawn:
        raise UserError("no run has been measured yet, so there is nothing to compare")
    panels = distinct(row.panel for row in dots)
    panel_width = {1: 4.4, 2: 3.3}.get(len(panels), 2.6)
    low, high = _limits(drawn, percent)
    rows = Rows.fit(dots, drawn, percent, apart=DOT * (high - low) / panel_width)
    names = fold(rows.labels, rows.lines)
    notes = [rows.note(row) for row in drawn]
    sheet = PanelLayout(panels, panel_width, rows.height, width(names) + 0.2, width(notes) + 0.3)
    figure, grid = sheet.start()
    for axes in grid.values():
        _set_rows(axes, names)
    for row in drawn:
        _draw_row(grid[row.panel], row, rows)
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(MaxNLocator(max(2, round(panel_width / 0.8)), steps=ROUND))
    axes.xaxis.set_major_formatter(FuncFormatter(plain))
    sheet.name_axes(figure, _measured(measure, percent))
    _add_keys(figure, rows, sheet, each, intervals=any(row.interval for row in drawn))
    return figure


def draw_bands(
    bands: Sequence[Band],
    x_label: str,
    y_label: str,
    percent: bool = False,
    log_x: bool = False,
    log_y: bool = False,
) -> Figure:
    """A line for the mean of each band's runs, on a light area from the least to the greatest of them.

    With `percent`, values are parts of one and drawn as per cent. What is None or not finite is left out, and on a
    logarithmic scale what is not above zero: a mean is that of the runs which are known there.
    """
    paths = [BandSummary.of(band, 100 if percent else 1, log_x, log_y) for band in bands]
    drawn = [path for path in paths if path.x]
    if not drawn:
        raise UserError("no run has been measured yet, so there is no line to draw")
    labels, panels = distinct(band.label for band in bands), distinct(band.panel for band in bands)
    panel_width, panel_height = {1: (5.6, 3.8), 2: (4.2, 3.4)}.get(len(panels), (3.4, 2.8))
    left, right = 1.1 if log_y else 1.0, 0.4 if len(panels) > 1 else 0.25
    sheet = PanelLayout(panels, panel_width, panel_height, left, right)
    figure, grid = sheet.start()
    for axes in grid.values():
        axes.grid(color="0.9", linewidth=0.8)
    for band, path in zip(bands, paths, strict=True):
        # Many areas, one over the other, would hide the lines.
        _draw_path(grid[band.panel], path, labels.index(band.label), 0.16 if len(labels) <= 4 else 0.08)
    scale_x(axes, sorted({x for path in drawn for x in path.x}), log_x, panel_width)
    low, high = min(min(path.least) for path in drawn), max(max(path.greatest) for path in drawn)
    scale_y(axes, low, high, percent, log_y)
    sheet.name_axes(figure, x_label, _measured(y_label, percent))
    if any(labels):
        lines = [Line2D([], [], **line_style(number), linewidth=2, markersize=6) for number in range(len(labels))]
        add_legend = sheet.add_legend if len(panels) > 1 else sheet.add_legend_beside
        add_legend(figure, list(zip(lines, labels, strict=True)))
    return figure


@dataclass(frozen=True)
class Rows:
    """Which rows there are, how high, and what goes where in them: a row has one lane for each group."""

    labels: Sequence[str]
    groups: Sequence[str]
    lines: int  # of a label
    lane: float  # in inches
    decimals: int
    several: bool  # some setting has more than one run
    apart: float  # dots this far from each other do not overlap
    crowd: int  # how many dots stand one above the other, at most

    @classmethod
    def fit(cls, dots: Sequence[DotRow], drawn: Sequence[DotRow], percent: bool, apart: float) -> Rows:
        labels, groups = distinct(row.label for row in dots), distinct(row.group for row in dots)
        lines = 2 if len(labels) <= MOST_TALL_ROWS else 1
        lane = min(LARGEST_LANE, max(SMALLEST_LANE, USUAL_HEIGHT / len(labels) / len(groups)))
        lane = max(lane, lines * 1.25 * TYPE / 72 / len(groups))  # the label needs its lines
        largest = max(abs(value) for each in drawn for value in each.values)
        decimals = max(1 if percent else 0, 2 - floor(log10(largest or 1)))  # three digits that count
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
        """Where the middle of a lane is, or that many lanes below it, counted in rows from the top."""
        lanes = self.groups.index(dots.group) - (len(self.groups) - 1) / 2 + down
        return self.labels.index(dots.label) + lanes * self.lane / self.row

    @property
    def mean_down(self) -> float:
        """Where the mean is, in lanes below the middle: above the runs, where there are several."""
        return 0 if not self.several else -0.14 if self.crowd == 1 else 0.36 * LARGEST_LANE / self.lane - 0.5

    def runs_down(self, dots: DotRow) -> list[float]:
        """The same for each run. Dots that are spread go down and up from their line in turn: 0, 1, −1, 2, −2, …"""
        line = 0.25 if self.crowd == 1 else 0.25 * LARGEST_LANE / self.lane
        step = (self.lane - LARGEST_LANE) / self.lane / max(self.crowd - 1, 1)
        levels = _levels(dots.values, self.apart)
        return [line + step * ((level + 1) // 2) * (1 if level % 2 else -1) for level in levels]

    def note(self, dots: DotRow) -> str:
        return f"{fmean(dots.values):,.{self.decimals}f}" if self.lane >= SMALLEST_NOTED_LANE else ""


def _levels(values: Sequence[float], apart: float) -> list[int]:
    """For each value the first level on which it is `apart` from all others; a few all are on level 0."""
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


def _draw_row(axes: Axes, dots: DotRow, rows: Rows) -> None:
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


def _add_keys(figure: Figure, rows: Rows, sheet: PanelLayout, each: str, intervals: bool) -> None:
    """The meaning of the colors and, below, of the dots and the bar."""
    dot: dict[str, Any] = {"linestyle": "none", "markersize": 9}
    groups = [(Line2D([], [], **line_style(number) | dot), group) for number, group in enumerate(rows.groups) if group]
    height = sheet.add_legend(figure, groups, handle=1.4) if groups else 0
    color = GRAY if groups else line_style(0)["color"]
    keys = [
        (rows.several, "mean", {"marker": "o"} | dot),
        (rows.several, each, {"marker": "o", "markerfacecolor": "white"} | dot | {"markersize": 5.5}),
        (intervals, "95 % interval", {"linewidth": 2.5}),
    ]
    shown = [(Line2D([], [], color=color, **style), label) for wanted, label, style in keys if wanted]
    if shown:
        sheet.add_legend(figure, shown, down=height, handle=1.4)


@dataclass(frozen=True)
class BandSummary:
    """The mean, the least and the greatest of the known values, wherever there is one."""

    x: list[float]
    mean: list[float]
    least: list[float]
    greatest: list[float]
    runs: int

    @classmethod
    def of(cls, band: Band, scale: float, log_x: bool, log_y: bool) -> BandSummary:
        columns = zip(band.x, zip(*band.runs, strict=True), strict=True) if band.runs else []
        known = sorted(
            (x, [scale * value for value in values if value is not None and _has_place(value, log_y)])
            for x, values in columns
            if _has_place(x, log_x)
        )
        known = [(x, values) for x, values in known if values]
        return cls(
            x=[x for x, _ in known],
            mean=[fmean(values) for _, values in known],
            least=[min(values) for _, values in known],
            greatest=[max(values) for _, values in known],
            runs=len(band.runs),
        )


def _has_place(value: float, log: bool) -> bool:
    """On an axis, which may be logarithmic."""
    return isfinite(value) and (value > 0 or not log)


def _draw_path(axes: Axes, path: BandSummary, number: int, faint: float) -> None:
    if not path.x:
        return
    style = line_style(number)
    if path.runs > 1:
        axes.fill_between(path.x, path.least, path.greatest, color=style["color"], alpha=faint, linewidth=0)
    each = max(1, len(path.x) // 8)  # hundreds of markers would hide the line
    # Lines that begin at different markers do not cover each other's.
    axes.plot(path.x, path.mean, **style, markersize=6, markevery=(number % each, each), linewidth=2)


def _measured(measure: str, percent: bool) -> str:
    return f"{measure} (%)" if percent else measure
