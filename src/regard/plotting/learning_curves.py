"""Learning curves: losses, scores of translations, accuracies, error rates and schedules at each validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from operator import mul

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from regard.errors import UserError, printable
from regard.plotting.figures import literal
from regard.plotting.palette import BLACK, BLUE, GREEN, ORANGE, PURPLE, VERMILION

Metrics = Sequence[Mapping[str, object]]
Points = tuple[list[float], list[float]]  # steps, values


@dataclass(frozen=True)
class Series:
    """One line. Style and marker differ, too, for print and for color vision deficiencies.

    Args:
        key: The metric.
        label: Its name in the legend.
        color: Color.
        style: Line style.
        marker: Marker.
    """

    key: str
    label: str
    color: str
    style: str
    marker: str


LOSSES = (
    Series("validation_loss", "validation", BLUE, "-", "o"),
    Series("train_loss", "training", BLACK, ":", "x"),
)
SCORES = (
    Series("validation_bleu_lc", "BLEU, lowercased", VERMILION, "-", "s"),
    Series("validation_bleu", "BLEU", ORANGE, "--", "v"),
    Series("validation_chrf", "chrF2", PURPLE, "-.", "D"),
)
ACCURACIES = (
    Series("validation_token_accuracy", "tokens, teacher-forced", BLUE, "-", "o"),
    Series("validation_exact_match", "exact match", GREEN, "-.", "^"),
)
ERRORS = (
    Series("validation_word_error", "word error rate", VERMILION, "-", "s"),
    Series("validation_phoneme_error", "phoneme error rate", ORANGE, "--", "v"),
    Series("validation_character_error", "character error rate", PURPLE, "-.", "D"),
)
RATE = Series("rate", "learning rate", BLACK, "-", ".")
TEACHER_FORCING = Series("teacher_forcing", "teacher forcing", PURPLE, "--", "D")


def draw_learning_curves(metrics: Metrics, title: str | None = None) -> Figure:
    """The curves of a run from the rows of its `metrics.jsonl`, one for each validation.

    A value that is missing, None or not finite is left out. A panel without any value is left out too.

    Args:
        metrics: The rows, one for each validation.
        title: Drawn above, literally.
    """
    if not metrics:
        raise UserError("no validation has been recorded yet, so there is no curve to draw")
    panels = [
        (height, paint)
        for height, paint, keys in (
            (3.2, _draw_losses, [series.key for series in LOSSES]),
            (2.6, _draw_scores, [series.key for series in SCORES]),
            (2.6, _draw_errors, [series.key for series in ERRORS]),
            (2.6, _draw_accuracies, [series.key for series in ACCURACIES]),
            (1.2, _draw_schedules, [RATE.key, TEACHER_FORCING.key]),
        )
        if any(metric_points(metrics, key)[0] for key in keys)
    ]
    if not panels:
        raise UserError("the recorded validations hold no step with a value to draw")
    heights = [height for height, _ in panels]
    height = sum(heights) + 1.4
    figure = Figure(figsize=(9, height))
    # Fixed margins, not a layout engine: those move things a little each time that a figure is drawn.
    figure.subplots_adjust(left=0.08, right=0.72, top=1 - 0.9 / height, bottom=0.5 / height, hspace=0.07)
    grid = figure.subplots(len(panels), sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (_, paint) in zip(grid, panels, strict=True):
        paint(axes, metrics)
        _style_curve_panel(axes)
    grid[-1].set_xlabel("step")
    grid[-1].set_xlim(left=0)
    grid[-1].xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    _add_epochs(grid[0], metrics)
    figure.align_ylabels()
    if title:
        figure.suptitle(printable(title), x=0.08, ha="left", fontsize=14, **literal())
    return figure


def metric_points(metrics: Metrics, key: str) -> Points:
    """The steps at which a metric has a finite value, and the values.

    Args:
        metrics: The rows, one for each validation.
        key: The metric.
    """
    rows = [(_finite_float(row.get("step")), _finite_float(row.get(key))) for row in metrics]
    known = [(step, value) for step, value in rows if step is not None and value is not None]
    return [step for step, _ in known], [value for _, value in known]


def _finite_float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and isfinite(value) else None


def _draw_losses(axes: Axes, metrics: Metrics) -> None:
    for series in LOSSES:
        _draw_line(axes, series, metric_points(metrics, series.key))
    steps, losses = metric_points(metrics, "validation_loss")
    if losses:
        best, step = min(zip(losses, steps, strict=True))
        text = f"lowest: {best:.3g} at step {step:,.0f}"
        axes.plot(step, best, "o", markersize=13, fillstyle="none", color=BLACK, label=text)
    drawn = [value for series in LOSSES for value in metric_points(metrics, series.key)[1]]
    if 0 < 100 * min(drawn) < max(drawn):  # the end of the run would lie flat on the axis
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.set_ylabel("loss")


def _draw_scores(axes: Axes, metrics: Metrics) -> None:
    for series in SCORES:
        _draw_line(axes, series, metric_points(metrics, series.key))
    axes.set_ylim(bottom=0)
    axes.set_ylabel("score")


def _draw_errors(axes: Axes, metrics: Metrics) -> None:
    _draw_percentages(axes, ERRORS, metrics)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("error rate (%)")


def _draw_accuracies(axes: Axes, metrics: Metrics) -> None:
    _draw_percentages(axes, ACCURACIES, metrics)
    axes.set_ylim(-3, 103)
    axes.set_ylabel("accuracy (%)")


def _draw_percentages(axes: Axes, shares: Sequence[Series], metrics: Metrics) -> None:
    for series in shares:
        steps, values = metric_points(metrics, series.key)
        _draw_line(axes, series, (steps, [100 * value for value in values]))


def _draw_schedules(axes: Axes, metrics: Metrics) -> None:
    """Learning rate and teacher forcing, both as percentages: two scales on one panel would mislead."""
    steps, rates = metric_points(metrics, RATE.key)
    peak = max(rates, default=0)
    if peak > 0:
        _draw_line(axes, RATE, (steps, [100 * rate / peak for rate in rates]), f"\n(100 % = {peak:.3g})")
    steps, ratios = metric_points(metrics, TEACHER_FORCING.key)
    if min(ratios, default=1) < 1:
        _draw_line(axes, TEACHER_FORCING, (steps, [100 * ratio for ratio in ratios]))
    axes.set_ylim(-8, 108)
    axes.set_ylabel("schedule (%)")


def _draw_line(axes: Axes, series: Series, where: Points, note: str = "") -> None:
    steps, values = where
    if steps:
        axes.plot(
            steps,
            values,
            color=series.color,
            linestyle=series.style,
            marker=series.marker,
            markersize=5,
            markevery=max(1, len(steps) // 12),  # hundreds of markers would hide the line
            linewidth=1.8,
            label=series.label + note,
        )


def _style_curve_panel(axes: Axes) -> None:
    """A quiet grid, no box, and the legend beside the panel, where it covers no line."""
    axes.grid(color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, borderaxespad=0)


def _add_epochs(axes: Axes, metrics: Metrics) -> None:
    """A second scale, above: epochs are proportional to steps."""
    steps, epochs = metric_points(metrics, "epoch")
    if steps and steps[-1] > 0 and epochs[-1] > 0:
        ratio = epochs[-1] / steps[-1]
        scale = axes.secondary_xaxis("top", functions=(partial(mul, ratio), partial(mul, 1 / ratio)))
        scale.set_xlabel("epoch")
        scale.spines[:].set_visible(False)
