"""Bands: the mean of the runs of each setting along an axis, on an area from the least to the greatest value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from regard.errors import UserError
from regard.plotting.palette import line_style
from regard.plotting.panels import PanelLayout, distinct
from regard.plotting.scales import measure_label, scale_x, scale_y


@dataclass(frozen=True)
class Band:
    """The values of the runs of one setting along an axis.

    Args:
        label: The setting, which names the line.
        x: Positions on the axis.
        runs: For each run, a value for each `x`; None if unknown.
        panel: The panel that it is in.
    """

    label: str
    x: tuple[float, ...]
    runs: tuple[tuple[float | None, ...], ...]
    panel: str = ""


def draw_bands(
    bands: Sequence[Band],
    x_label: str,
    y_label: str,
    percent: bool = False,
    log_x: bool = False,
    log_y: bool = False,
) -> Figure:
    """A line for the mean of each band's runs, on a light area from the least to the greatest of them.

    Values that are None or not finite are left out, and on a logarithmic scale those that are not positive: a mean is
    that of the known values.

    Args:
        bands: The values.
        x_label: Label of the x axis.
        y_label: Label of the y axis.
        percent: Whether values are fractions, which are drawn as percentages.
        log_x: Whether the x axis is logarithmic.
        log_y: Whether the y axis is logarithmic.
    """
    paths = [BandSummary.of(band, 100 if percent else 1, log_x, log_y) for band in bands]
    drawn = [path for path in paths if path.x]
    if not drawn:
        raise UserError("no run has been measured yet, so there is no line to draw")
    labels, panels = distinct(band.label for band in bands), distinct(band.panel for band in bands)
    panel_width, panel_height = {1: (5.6, 3.8), 2: (4.2, 3.4)}.get(len(panels), (3.4, 2.8))
    left, right = 1.1 if log_y else 1.0, 0.4 if len(panels) > 1 else 0.25
    layout = PanelLayout(panels, panel_width, panel_height, left, right)
    figure, grid = layout.start()
    for axes in grid.values():
        axes.grid(color="0.9", linewidth=0.8)
    for band, path in zip(bands, paths, strict=True):
        # Many areas, one over the other, would hide the lines.
        _draw_path(grid[band.panel], path, labels.index(band.label), 0.16 if len(labels) <= 4 else 0.08)
    scale_x(axes, sorted({x for path in drawn for x in path.x}), log_x, panel_width)
    low, high = min(min(path.least) for path in drawn), max(max(path.greatest) for path in drawn)
    scale_y(axes, low, high, percent, log_y)
    layout.name_axes(figure, x_label, measure_label(y_label, percent))
    if any(labels):
        lines = [Line2D([], [], **line_style(number), linewidth=2, markersize=6) for number in range(len(labels))]
        add_legend = layout.add_legend if len(panels) > 1 else layout.add_legend_beside
        add_legend(figure, list(zip(lines, labels, strict=True)))
    return figure


@dataclass(frozen=True)
class BandSummary:
    """Statistics of the known values at each x that has any.

    Args:
        x: Positions on the axis.
        mean: Means.
        least: Smallest values.
        greatest: Largest values.
        runs: Number of runs.
    """

    x: list[float]
    mean: list[float]
    least: list[float]
    greatest: list[float]
    runs: int

    @classmethod
    def of(cls, band: Band, scale: float, log_x: bool, log_y: bool) -> BandSummary:
        """The statistics of a band.

        Args:
            band: The values.
            scale: Factor of the values.
            log_x: Whether the x axis is logarithmic.
            log_y: Whether the y axis is logarithmic.
        """
        columns = zip(band.x, zip(*band.runs, strict=True), strict=True) if band.runs else []
        known = sorted(
            (x, [scale * value for value in values if value is not None and _is_drawable(value, log_y)])
            for x, values in columns
            if _is_drawable(x, log_x)
        )
        known = [(x, values) for x, values in known if values]
        return cls(
            x=[x for x, _ in known],
            mean=[fmean(values) for _, values in known],
            least=[min(values) for _, values in known],
            greatest=[max(values) for _, values in known],
            runs=len(band.runs),
        )


def _is_drawable(value: float, log: bool) -> bool:
    """True if a value can be drawn on an axis, which may be logarithmic."""
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
