"""The axes of a figure: ticks and their labels."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import floor, log10

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, Locator, LogLocator, MaxNLocator, NullLocator

from regard.plotting.panels import text_width

MOST_TICKS = 20  # of values that were chosen, such as widths of a beam; more are learning curves
ROUND = (1, 2, 2.5, 5, 10)  # ticks are these, times a power of ten
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def scale_x(axes: Axes, values: Sequence[float], log: bool, panel_width: float) -> None:
    """Set scale, limits and ticks of the x axis.

    Args:
        axes: The panel.
        values: The values, in ascending order.
        log: Whether the axis is logarithmic.
        panel_width: Width of the panel, in inches.
    """
    axes.set_xscale("log" if log else "linear")
    axes.xaxis.set_major_formatter(FuncFormatter(format_plain))
    if not log:
        counted = all(float(value).is_integer() for value in values)  # counts have no halves
        ticks = max(2, round(panel_width / 0.9))
        axes.xaxis.set_major_locator(MaxNLocator(ticks, steps=ROUND, integer=counted))
        if values[0] >= 0:
            axes.set_xlim(left=max(0, axes.get_xlim()[0]))
        return
    few = len(values) <= MOST_TICKS
    axes.xaxis.set_major_locator(FixedLocator(_apart(values, panel_width)) if few else _log_locator(values))
    axes.xaxis.set_minor_locator(NullLocator())


def _apart(values: Sequence[float], panel_width: float) -> list[float]:
    """Those of the values whose labels do not overlap on a logarithmic axis of that width."""
    kept = [values[0]]
    inch = log10(values[-1] / values[0]) / panel_width
    for value in values[1:]:
        if log10(value / kept[-1]) >= inch * (0.15 + text_width([format_plain(value)])):
            kept.append(value)
    return kept


def scale_y(axes: Axes, low: float, high: float, percent: bool, log: bool) -> None:
    """Set scale, limits and ticks of the y axis.

    Args:
        axes: The panel.
        low: The smallest value.
        high: The largest value.
        percent: Whether values are percentages.
        log: Whether the axis is logarithmic.
    """
    if log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(_log_locator((low, high)))
        axes.yaxis.set_major_formatter(FuncFormatter(format_power))
        axes.yaxis.set_minor_locator(NullLocator())
        return
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=ROUND))
    axes.yaxis.set_major_formatter(FuncFormatter(format_plain))
    if percent:
        margin = 0.05 * (high - low) or 1
        axes.set_ylim(max(low - margin, -2), min(high + margin, max(high, 102)))


def _log_locator(values: Collection[float]) -> Locator:
    """Powers of ten would be too few for values that are less than some decades apart."""
    decades = log10(max(values) / min(values))
    if decades < 1:
        return MaxNLocator(5, steps=ROUND)
    return LogLocator(subs=(1, 2, 5) if decades < 2.5 else (1,))


def format_plain(value: float, position: object = None) -> str:
    """A number with thousands separators and a typographic minus.

    Args:
        value: The number.
        position: Unused; `FuncFormatter` passes it.
    """
    return f"{value:,.10g}".replace("-", "−")


def format_power(value: float, position: object = None) -> str:
    """A number, very small and very large ones with a power of ten: 2·10⁻⁵.

    Args:
        value: The number.
        position: Unused; `FuncFormatter` passes it.
    """
    if value < 1e-300 or 0.9e-3 < value < 1e5:  # an axis also requests ticks beyond its end, such as 0
        return format_plain(value)
    exponent = floor(log10(value) + 1e-9)
    factor = f"{value / 10.0**exponent:.3g}"
    return f"{'' if factor == '1' else factor + '·'}10{str(exponent).translate(SUPERSCRIPT)}"


def measure_label(measure: str, percent: bool) -> str:
    """The label of an axis.

    Args:
        measure: What is measured.
        percent: Whether values are drawn as percentages.
    """
    return f"{measure} (%)" if percent else measure
