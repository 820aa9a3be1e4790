"""Figures that compare settings: what each of their runs scored, and how they went along an axis."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import floor, isfinite, log10
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, Locator, LogLocator, MaxNLocator, NullLocator

from regard.errors import UserError
from regard.inspection.figures import literal
from regard.inspection.panels import TYPE, Sheet, distinct, fold, look, width

MOST_TALL_ROWS = 12  # more rows than these have labels of one line, not two
LARGEST_LANE = 0.36  # a lane is the part of a row that one group has
SMALLEST_LANE = 0.12
SMALLEST_NOTED_LANE = 0.15  # in smaller ones no number could be read
USUAL_HEIGHT = 10.0  # lanes shrink to keep the rows this high
MOST_TICKS = 20  # of values that were chosen, such as widths of a beam; more are learning curves
ROUND = (1, 2, 2.5, 5, 10)  # ticks are these, times a power of ten
QUIET = "0.35"


@dataclass(frozen=True)
class Dots:
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


def draw_dots(dots: Sequence[Dots], measure: str, percent: bool = False) -> Figure:
    """A row for each label: every run as a small hollow dot, their mean as a filled one, the interval as a bar.

    With `percent`, values are parts of one and drawn as per cent. An interval that goes beyond the axis is cut there.
    """
    dots = [_clean(each, 100 if percent else 1) for each in dots]
    drawn = [each for each in dots if each.values]
    if not drawn:
        raise UserError("no run has been measured yet, so there is nothing to compare")
    rows = Rows.fit(distinct(each.label for each in dots), distinct(each.group for each in dots), drawn, percent)
    panels = distinct(each.panel for each in dots)
    names = fold(rows.labels, rows.lines)
    notes = [rows.note(each) for each in drawn]
    panel_width = {1: 4.4, 2: 3.3}.get(len(panels), 2.6)
    sheet = Sheet(panels, panel_width, rows.height, width(names) + 0.2, width(notes) + 0.3)
    figure, grid = sheet.start()
    for axes in grid.values():
        _set_rows(axes, names)
    for each in drawn:
        _draw_row(grid[each.panel], each, rows)
    axes.set_xlim(_limits(drawn, percent))
    axes.xaxis.set_major_locator(MaxNLocator(max(2, round(panel_width / 0.8)), steps=ROUND))
    axes.xaxis.set_major_formatter(FuncFormatter(_plain))
    sheet.name_axes(figure, _measured(measure, percent))
    _add_keys(figure, rows, sheet, intervals=any(each.interval for each in drawn))
    return figure


def draw_bands(
    bands: Sequence[Band],
    x_label: str,
    y_label: str,
    percent: bool = False,
    log_x: bool = False,
) -> Figure:
    """A line for the mean of each band's runs, on a light area from the least to the greatest of them.

    With `percent`, values are parts of one and drawn as per cent. What is None or not finite is left out, and on a
    logarithmic scale what is not above zero: a mean is that of the runs which are known there.
    """
    paths = [Path.through(band, 100 if percent else 1, log_x) for band in bands]
    drawn = [path for path in paths if path.x]
    if not drawn:
        raise UserError("no run has been measured yet, so there is no line to draw")
    labels, panels = distinct(band.label for band in bands), distinct(band.panel for band in bands)
    panel_width, panel_height = {1: (5.6, 3.8), 2: (4.2, 3.4)}.get(len(panels), (3.4, 2.8))
    sheet = Sheet(panels, panel_width, panel_height, left=1.0, right=0.4 if len(panels) > 1 else 0.25)
    figure, grid = sheet.start()
    for axes in grid.values():
        axes.grid(color="0.9", linewidth=0.8)
    for band, path in zip(bands, paths, strict=True):
        # Many areas, one over the other, would hide the lines.
        _draw_path(grid[band.panel], path, labels.index(band.label), 0.16 if len(labels) <= 4 else 0.08)
    _scale_x(axes, drawn, log_x, panel_width)
    _scale_y(axes, drawn, percent)
    sheet.name_axes(figure, x_label, _measured(y_label, percent))
    if any(labels):
        lines = [Line2D([], [], **look(number), linewidth=2, markersize=6) for number in range(len(labels))]
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

    @classmethod
    def fit(cls, labels: Sequence[str], groups: Sequence[str], drawn: Sequence[Dots], percent: bool) -> Rows:
        lines = 2 if len(labels) <= MOST_TALL_ROWS else 1
        lane = min(LARGEST_LANE, max(SMALLEST_LANE, USUAL_HEIGHT / len(labels) / len(groups)))
        lane = max(lane, lines * 1.25 * TYPE / 72 / len(groups))  # the label needs its lines
        largest = max(abs(value) for each in drawn for value in each.values)
        decimals = max(1 if percent else 0, 2 - floor(log10(largest or 1)))  # three digits that count
        return cls(labels, groups, lines, lane, decimals, any(len(each.values) > 1 for each in drawn))

    @property
    def height(self) -> float:
        return len(self.labels) * self.row

    @property
    def row(self) -> float:
        return self.lane * len(self.groups) + (0.12 if len(self.groups) > 1 else 0)

    def middle(self, dots: Dots, down: float = 0) -> float:
        """Where the middle of a lane is, or that many lanes below it, counted in rows from the top."""
        lanes = self.groups.index(dots.group) - (len(self.groups) - 1) / 2 + down
        return self.labels.index(dots.label) + lanes * self.lane / self.row

    def note(self, dots: Dots) -> str:
        return f"{fmean(dots.values):,.{self.decimals}f}" if self.lane >= SMALLEST_NOTED_LANE else ""


def _clean(dots: Dots, scale: float) -> Dots:
    values = tuple(scale * value for value in dots.values if isfinite(value))
    interval = dots.interval
    if interval and all(map(isfinite, interval)):
        return replace(dots, values=values, interval=(scale * interval[0], scale * interval[1]))
    return replace(dots, values=values, interval=None)


def _set_rows(axes: Axes, names: Sequence[str]) -> None:
    """Labels, and a grey ground for every second row, which leads the eye from its label to its number."""
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), names, fontsize=TYPE, linespacing=1.1, **literal())
    for number in range(1, len(names), 2):
        axes.axhspan(number - 0.5, number + 0.5, color="0.955", linewidth=0, zorder=0)
    axes.grid(axis="x", color="0.86", linewidth=0.8)
    axes.spines["left"].set_visible(False)


def _draw_row(axes: Axes, dots: Dots, rows: Rows) -> None:
    """The mean and its bar in the upper part of the lane, the runs in the lower, so that neither hides the other."""
    style = look(rows.groups.index(dots.group)) | {"linestyle": "none"}
    size = min(9.0, 72 * 0.36 * rows.lane)
    mean, upper = fmean(dots.values), rows.middle(dots, down=-0.14 if rows.several else 0)
    if dots.interval:
        axes.hlines(upper, *dots.interval, color=style["color"], linewidth=0.28 * size)
    # Dots are not clipped: one at 100 % is drawn whole.
    axes.plot([mean], [upper], **style, markersize=size, clip_on=False, zorder=4)
    if rows.several:
        lower = [rows.middle(dots, down=0.25)] * len(dots.values)
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


def _limits(drawn: Sequence[Dots], percent: bool) -> tuple[float, float]:
    """All dots, and as much of the intervals as leaves the dots at least a third: two runs can give an immense one."""
    values = [value for each in drawn for value in each.values]
    ends = [end for each in drawn if each.interval for end in each.interval]
    low, high = min(values), max(values)
    spread = (high - low) or max(map(abs, [*ends, low]), default=0) or 1
    low, high = max(min([low, *ends]), low - spread), min(max([high, *ends]), high + spread)
    margin = 0.04 * ((high - low) or spread)
    low, high = low - margin, high + margin
    return (max(low, 0), min(high, max([*values, 100]))) if percent else (low, high)  # errors can be above 100 %


def _add_keys(figure: Figure, rows: Rows, sheet: Sheet, intervals: bool) -> None:
    """What the colours stand for and, below, what the dots and the bar do."""
    dot: dict[str, Any] = {"linestyle": "none", "markersize": 9}
    groups = [(Line2D([], [], **look(number) | dot), group) for number, group in enumerate(rows.groups) if group]
    height = sheet.add_legend(figure, groups, handle=1.4) if groups else 0
    colour = QUIET if groups else look(0)["color"]
    keys = [
        (rows.several, "mean", {"marker": "o"} | dot),
        (rows.several, "one run", {"marker": "o", "markerfacecolor": "white"} | dot | {"markersize": 5.5}),
        (intervals, "95 % interval", {"linewidth": 2.5}),
    ]
    shown = [(Line2D([], [], color=colour, **style), label) for wanted, label, style in keys if wanted]
    if shown:
        sheet.add_legend(figure, shown, down=height, handle=1.4)


@dataclass(frozen=True)
class Path:
    """The mean, the least and the greatest of the known values, wherever there is one."""

    x: list[float]
    mean: list[float]
    least: list[float]
    greatest: list[float]
    runs: int

    @classmethod
    def through(cls, band: Band, scale: float, log_x: bool) -> Path:
        columns = zip(band.x, zip(*band.runs, strict=True), strict=True) if band.runs else []
        known = sorted(
            (x, [scale * value for value in values if value is not None and isfinite(value)])
            for x, values in columns
            if isfinite(x) and (x > 0 or not log_x)
        )
        known = [(x, values) for x, values in known if values]
        return cls(
            x=[x for x, _ in known],
            mean=[fmean(values) for _, values in known],
            least=[min(values) for _, values in known],
            greatest=[max(values) for _, values in known],
            runs=len(band.runs),
        )


def _draw_path(axes: Axes, path: Path, number: int, faint: float) -> None:
    if not path.x:
        return
    style = look(number)
    if path.runs > 1:
        axes.fill_between(path.x, path.least, path.greatest, color=style["color"], alpha=faint, linewidth=0)
    each = max(1, len(path.x) // 8)  # hundreds of markers would hide the line
    # Lines that begin at different markers do not cover each other's.
    axes.plot(path.x, path.mean, **style, markersize=6, markevery=(number % each, each), linewidth=2)


def _scale_x(axes: Axes, drawn: Sequence[Path], log: bool, panel_width: float) -> None:
    values = sorted({x for path in drawn for x in path.x})
    axes.set_xscale("log" if log else "linear")
    axes.xaxis.set_major_formatter(FuncFormatter(_plain))
    if not log:
        axes.xaxis.set_major_locator(MaxNLocator(max(2, round(panel_width / 0.9)), steps=ROUND))
        if values[0] >= 0:
            axes.set_xlim(left=max(0, axes.get_xlim()[0]))
        return
    few = len(values) <= MOST_TICKS
    axes.xaxis.set_major_locator(FixedLocator(_apart(values, panel_width)) if few else _log_locator(values))
    axes.xaxis.set_minor_locator(NullLocator())


def _apart(values: Sequence[float], panel_width: float) -> list[float]:
    """Those of the values whose numbers do not run into each other on a logarithmic axis of that width."""
    kept = [values[0]]
    inch = log10(values[-1] / values[0]) / panel_width
    for value in values[1:]:
        if log10(value / kept[-1]) >= inch * (0.15 + width([_plain(value)])):
            kept.append(value)
    return kept


def _scale_y(axes: Axes, drawn: Sequence[Path], percent: bool) -> None:
    low, high = min(min(path.least) for path in drawn), max(max(path.greatest) for path in drawn)
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=ROUND))
    axes.yaxis.set_major_formatter(FuncFormatter(_plain))
    if percent:
        margin = 0.05 * (high - low) or 1
        axes.set_ylim(max(low - margin, -2), min(high + margin, max(high, 102)))


def _log_locator(values: Collection[float]) -> Locator:
    """Powers of ten would be too few for values that are less than some decades apart."""
    decades = log10(max(values) / min(values))
    if decades < 1:
        return MaxNLocator(5, steps=ROUND)
    return LogLocator(subs=(1, 2, 5) if decades < 2.5 else (1,))


def _plain(value: float, _: object = None) -> str:
    return f"{value:,.10g}".replace("-", "−")


def _measured(measure: str, percent: bool) -> str:
    return f"{measure} (%)" if percent else measure
