"""The axes of a figure: ticks and their labels."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import floor, log10

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, Locator, LogLocator, MaxNLocator, NullLocator

from regard.plotting.panels import width

MOST_TICKS = 20  # of values that were chosen, such as widths of a beam; more are learning curves
ROUND = (1, 2, 2.5, 5, 10)  # ticks are these, times a power of ten
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def scale_x(axes: Axes, values: Sequence[float], log: bool, panel_width: float) -> None:
    """For these values, in ascending order."""
    axes.set_xscale("log" if log else "linear")
    axes.xaxis.set_major_formatter(FuncFormatter(plain))
    if not log:
        counted = all(float(value).is_integer() for value in values)  # there is no step two and a half
        ticks = max(2, round(panel_width / 0.9))
        axes.xaxis.set_major_locator(MaxNLocator(ticks, steps=ROUND, integer=counted))
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
        if log10(value / kept[-1]) >= inch * (0.15 + width([plain(value)])):
            kept.append(value)
    return kept


def scale_y(axes: Axes, low: float, high: float, percent: bool, log: bool) -> None:
    """For values from `low` to `high`."""
    if log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(_log_locator((low, high)))
        axes.yaxis.set_major_formatter(FuncFormatter(power))
        axes.yaxis.set_minor_locator(NullLocator())
        return
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=ROUND))
    axes.yaxis.set_major_formatter(FuncFormatter(plain))
    if percent:
        margin = 0.05 * (high - low) or 1
        axes.set_ylim(max(low - margin, -2), min(high + margin, max(high, 102)))


def _log_locator(values: Collection[float]) -> Locator:
    """Powers of ten would be too few for values that are less than some decades apart."""
    decades = log10(max(values) / min(values))
    if decades < 1:
        return MaxNLocator(5, steps=ROUND)
    return LogLocator(subs=(1, 2, 5) if decades < 2.5 else (1,))


def plain(value: float, _: object = None) -> str:
    return f"{value:,.10g}".replace("-", "−")


def power(value: float, _: object = None) -> str:
    """Plain, but for what is so small or large that its noughts would have to be counted: 2·10⁻⁵."""
    if value < 1e-300 or 0.9e-3 < value < 1e5:  # an axis asks for ticks beyond its end as well, such as 0
        return plain(value)
    exponent = floor(log10(value) + 1e-9)
    factor = f"{value / 10.0**exponent:.3g}"
    return f"{'' if factor == '1' else factor + '·'}10{str(exponent).translate(SUPERSCRIPT)}"
