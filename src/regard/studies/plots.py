"""The results of a study as figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from statistics import fmean

from matplotlib.figure import Figure

from regard.evaluation.metrics import Metric
from regard.plotting.band_plot import Band, draw_bands
from regard.plotting.dot_plot import DotRow, draw_dots
from regard.reports.report_page import Picture
from regard.studies.axes import Axis, is_number
from regard.studies.definition import Condition
from regard.studies.results import StudyResults
from regard.studies.run_results import ConditionResults

MAX_BINS = 8
MIN_SENTENCES = 20  # in a bin


def score_plots(results: StudyResults) -> Iterator[Picture]:
    """Every metric of the study: each run as a dot, the mean, and its 95 % interval.

    Args:
        results: The results of the study.
    """
    for metric in results.study.metrics:
        if picture := score_plot(results, metric):
            yield picture


def score_plot(results: StudyResults, metric: Metric) -> Picture | None:
    """A metric: each run as a dot, the mean, and its 95 % interval; None if no run has it.

    Args:
        results: The results of the study.
        metric: The metric.
    """
    dots = []
    for cell in results.cells:
        if summary := cell.summary(metric):
            interval = None if summary.low is None or summary.high is None else (summary.low, summary.high)
            row, group = _dot_row_and_group(results, cell.condition)
            dots.append(DotRow(row, tuple(cell.values(metric)), interval, group=group))
    if not dots:
        return None
    caption = f"{metric.title}: every run, their mean, and the 95 % interval of the mean."
    return Picture(draw_dots(dots, metric.title, metric.percent), f"{metric.title} of each run", caption)


def trend_plots(results: StudyResults) -> Iterator[Picture]:
    """Every metric as a line along each numeric axis, such as the beam width.

    Args:
        results: The results of the study.
    """
    for axis in results.study.axes:
        if len(axis.labels) < 3 or not all(map(is_number, axis.labels)):
            continue
        for metric in results.study.metrics:
            bands = list(_trend(results, axis, metric))
            if bands:
                log_x = _needs_log_scale(bands[0].x)
                figure = draw_bands(bands, axis.title, metric.title, metric.percent, log_x=log_x)
                yield Picture(
                    figure,
                    f"{metric.title} against {axis.title}",
                    "Lines are means over seeds; bands are the range over seeds.",
                )


def _trend(results: StudyResults, axis: Axis, metric: Metric) -> Iterator[Band]:
    index = results.study.axes.index(axis)
    lines: dict[str, list[ConditionResults]] = {}
    for cell in results.cells:
        if cell.values(metric):
            rest = [each for each in results.study.options(cell.condition) if each[0] is not axis]
            lines.setdefault(" · ".join(label for _, label in rest), []).append(cell)
    for label, along in lines.items():
        along.sort(key=lambda cell: float(cell.condition.labels[index]))
        seeds = sorted({result.seed for cell in along for result in cell.results})
        runs = tuple(tuple(_of_seed(cell, seed, metric) for cell in along) for seed in seeds)
        yield Band(label, tuple(float(cell.condition.labels[index]) for cell in along), runs)


def _of_seed(cell: ConditionResults, seed: int, metric: Metric) -> float | None:
    return next((result.value(metric) for result in cell.results if result.seed == seed), None)


def learning_curve_plots(results: StudyResults) -> Iterator[Picture]:
    """Learning curves: validation loss, and the metrics of translated validation sentences.

    Args:
        results: The results of the study.
    """
    cells = {cell.condition.run_name(1): cell for cell in reversed(results.cells) if cell.results}
    trained = [(results.study.training_label(cell.condition), cell) for cell in reversed(cells.values())]
    losses = [band for label, cell in trained for band in _curve(label, cell, "validation_loss")]
    if losses:
        picture = draw_bands(losses, "step", "validation loss")
        yield Picture(picture, "learning curves: loss", "Teacher-forced loss of the validation sentences.")
    for metric in results.study.metrics:
        if not metric.by_sentence:
            continue
        curves = [band for label, cell in trained for band in _curve(label, cell, f"validation_{metric.name}")]
        if any(value for band in curves for run in band.runs for value in run):
            picture = draw_bands(curves, "step", metric.title, percent=metric.percent)
            caption = f"{metric.title} of the greedy translations of validation sentences."
            yield Picture(picture, f"learning curves: {metric.title}", caption)


def _curve(label: str, cell: ConditionResults, key: str) -> Iterator[Band]:
    runs = [{row["step"]: row.get(key) for row in result.validations} for result in cell.results]
    steps = sorted({step for run in runs for step in run})
    if steps:
        yield Band(label, tuple(map(float, steps)), tuple(tuple(run.get(step) for step in steps) for run in runs))


def length_plots(results: StudyResults) -> Iterator[Picture]:
    """The main metric against source length, for each run.

    Args:
        results: The results of the study.
    """
    metric = results.main_metric
    if not metric.by_sentence:
        return
    bands = [band for cells in _length_series(results) if len((band := _length_band(results, cells, metric)).x) > 1]
    if bands:
        figure: Figure = draw_bands(bands, "source length, in tokens", metric.title, metric.percent)
        yield Picture(
            figure, f"{metric.title} against source length", "Sentences of similar length are scored together."
        )


def _length_series(results: StudyResults) -> list[list[ConditionResults]]:
    """Cells that form one line: other test sentences extend it, unless their lengths overlap."""
    lines: dict[tuple[str, ...], list[ConditionResults]] = {}
    for cell in results.cells:
        rest = tuple(name for axis, name in results.study.options(cell.condition) if not axis.changes_only_data)
        if cell.results:
            lines.setdefault(rest, []).append(cell)
    return [
        part
        for cells in lines.values()
        for part in ([cells] if _lengths_are_disjoint(cells) else [[cell] for cell in cells])
    ]


def _lengths_are_disjoint(cells: Sequence[ConditionResults]) -> bool:
    ranges = sorted((min(cell.results[0].lengths), max(cell.results[0].lengths)) for cell in cells)
    return all(before[1] < after[0] for before, after in pairwise(ranges))


def _length_band(results: StudyResults, cells: Sequence[ConditionResults], metric: Metric) -> Band:
    seeds = sorted({result.seed for cell in cells for result in cell.results})
    points: dict[float, tuple[float | None, ...]] = {}
    for cell in cells:
        known = {result.seed: result.statistics(metric) for result in cell.results}
        lengths = _common_lengths(results, cell)
        for indices in length_bins(lengths):
            mean = fmean(lengths[index] for index in indices)
            points[mean] = tuple(known[seed].of(indices) if seed in known else None for seed in seeds)
    x = tuple(sorted(points))
    panel, label = _panel_and_line(results, cells)
    return Band(label, x, tuple(zip(*(points[length] for length in x), strict=True)), panel)


def _common_lengths(results: StudyResults, cell: ConditionResults) -> tuple[int, ...]:
    """The lengths in the first cell with the same sentences: other tokenizations would give other bins."""
    firsts = (other.results[0] for other in results.cells if other.results)
    return next(first.lengths for first in firsts if first.sources == cell.results[0].sources)


def length_bins(lengths: Sequence[int]) -> list[list[int]]:
    """The indices of sentences of similar length, about as many in each bin. Equal lengths are in one bin.

    Args:
        lengths: That of each sentence.
    """
    most = max(1, min(MAX_BINS, len(lengths) // MIN_SENTENCES))
    by_length = groupby(sorted(range(len(lengths)), key=lengths.__getitem__), lengths.__getitem__)
    bins: list[list[int]] = [[]]
    for indices in (list(group) for _, group in by_length):
        if len(bins[-1]) >= len(lengths) / most:
            bins.append([])
        bins[-1] += indices
    return bins


def _panel_and_line(results: StudyResults, cells: Sequence[ConditionResults]) -> tuple[str, str]:
    """With several axes, each option of the first has a panel."""
    options = results.study.options(cells[0].condition)
    names = [name for axis, name in options if len(cells) == 1 or not axis.changes_only_data]
    if len(names) > 1:
        return names[0], " · ".join(names[1:])
    return "", results.study.training_label(cells[0].condition)


def _dot_row_and_group(results: StudyResults, condition: Condition) -> tuple[str, str]:
    """A row for each training and a group for each evaluation; if there is one training, a row for each evaluation."""
    trained = results.study.training_label(condition)
    tested = " · ".join(label for axis, label in results.study.options(condition) if not axis.trains)
    return (trained, tested) if any(axis.trains for axis in results.study.axes) else (tested or trained, "")


def _needs_log_scale(values: Sequence[float]) -> bool:
    """True if most values would crowd at one end of a linear scale."""
    return min(values) > 0 and max(values) / min(values) >= 8
