"""What a study has found as pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from statistics import fmean

from matplotlib.figure import Figure

from regard.evaluation.metrics import METRICS
from regard.plotting.comparison import Band, DotRow, draw_bands, draw_dots
from regard.reports.report_page import Picture
from regard.studies.definition import Axis, Condition, is_number
from regard.studies.results import ConditionResults, StudyResults

MOST_BINS = 8
FEWEST_SENTENCES = 20  # in a bin: a score of fewer says little


def scores(findings: StudyResults) -> Iterator[Picture]:
    """Every measure of the study: each run as a dot, the mean, and its 95 % interval."""
    for name in findings.study.measures:
        measure = METRICS[name]
        dots = []
        for cell in findings.cells:
            if summary := cell.summary(name):
                interval = None if summary.low is None or summary.high is None else (summary.low, summary.high)
                row, group = _row_and_group(findings, cell.condition)
                dots.append(DotRow(row, tuple(cell.values(name)), interval, group=group))
        if dots:
            caption = f"{measure.title}: every run, their mean, and the 95 % interval of the mean."
            yield Picture(draw_dots(dots, measure.title, measure.percent), f"{measure.title} of each run", caption)


def trends(findings: StudyResults) -> Iterator[Picture]:
    """Along an axis of numbers, such as the width of a beam: each measure as a line."""
    for axis in findings.study.axes:
        if len(axis.labels) < 3 or not all(map(is_number, axis.labels)):
            continue
        for name in findings.study.measures:
            bands = list(_trend(findings, axis, name))
            if bands:
                measure = METRICS[name]
                figure = draw_bands(bands, axis.title, measure.title, measure.percent, log_x=_spread_out(bands[0].x))
                yield Picture(
                    figure,
                    f"{measure.title} against {axis.title}",
                    "Lines are means over seeds; bands reach from the least to the greatest.",
                )


def _trend(findings: StudyResults, axis: Axis, name: str) -> Iterator[Band]:
    place = findings.study.axes.index(axis)
    lines: dict[str, list[ConditionResults]] = {}
    for cell in findings.cells:
        if cell.values(name):
            rest = [each for each in findings.study.options(cell.condition) if each[0] is not axis]
            lines.setdefault(" · ".join(label for _, label in rest), []).append(cell)
    for label, along in lines.items():
        along.sort(key=lambda cell: float(cell.condition.labels[place]))
        seeds = sorted({result.seed for cell in along for result in cell.results})
        runs = tuple(tuple(_of_seed(cell, seed, name) for cell in along) for seed in seeds)
        yield Band(label, tuple(float(cell.condition.labels[place]) for cell in along), runs)


def _of_seed(cell: ConditionResults, seed: int, name: str) -> float | None:
    return next((result.value(name) for result in cell.results if result.seed == seed), None)


def curves(findings: StudyResults) -> Iterator[Picture]:
    """How training went: losses with a teacher and without, and how much came out right without."""
    cells = {cell.condition.run_name(1): cell for cell in reversed(findings.cells) if cell.results}
    trained = [(findings.study.training_label(cell.condition), cell) for cell in reversed(cells.values())]
    ways = {"validation_loss": "teacher-forced", "free_running_loss": "free-running"}
    losses = [
        band for key, panel in ways.items() for label, cell in trained for band in _curve(label, cell, key, panel)
    ]
    if losses:
        caption = "Loss on the validation set, reading the true tokens (teacher-forced) or its own (free-running)."
        yield Picture(draw_bands(losses, "step", "validation loss"), "learning curves: loss", caption)
    exact = [band for label, cell in trained for band in _curve(label, cell, "free_running_exact_match", "")]
    if any(value for band in exact for run in band.runs for value in run):
        picture = draw_bands(exact, "step", "exact match", percent=True)
        yield Picture(
            picture, "learning curves: exact match", "Sentences of the validation set that are right as a whole."
        )


def _curve(label: str, cell: ConditionResults, key: str, panel: str) -> Iterator[Band]:
    runs = [{row["step"]: row.get(key) for row in result.metrics} for result in cell.results]
    steps = sorted({step for run in runs for step in run})
    if steps:
        yield Band(
            label, tuple(map(float, steps)), tuple(tuple(run.get(step) for step in steps) for run in runs), panel
        )


def lengths(findings: StudyResults) -> Iterator[Picture]:
    """The score of sentences of like length, for each run."""
    name = findings.measure
    if not METRICS[name].by_sentence:
        return
    bands = [band for cells in _lines(findings) if len((band := _length_band(findings, cells, name)).x) > 1]
    if bands:
        measure = METRICS[name]
        figure: Figure = draw_bands(bands, "source length, in tokens", measure.title, measure.percent)
        yield Picture(figure, f"{measure.title} against source length", "Sentences of like length are scored together.")


def _lines(findings: StudyResults) -> list[list[ConditionResults]]:
    """Cells that are one line: exams of other texts only add lengths to it, unless they are of the same lengths."""
    lines: dict[tuple[str, ...], list[ConditionResults]] = {}
    for cell in findings.cells:
        rest = tuple(name for axis, name in findings.study.options(cell.condition) if not axis.is_about_texts)
        if cell.results:
            lines.setdefault(rest, []).append(cell)
    return [part for cells in lines.values() for part in ([cells] if _are_apart(cells) else [[cell] for cell in cells])]


def _are_apart(cells: Sequence[ConditionResults]) -> bool:
    ranges = sorted((min(cell.results[0].lengths), max(cell.results[0].lengths)) for cell in cells)
    return all(before[1] < after[0] for before, after in pairwise(ranges))


def _length_band(findings: StudyResults, cells: Sequence[ConditionResults], name: str) -> Band:
    seeds = sorted({result.seed for cell in cells for result in cell.results})
    points: dict[float, tuple[float | None, ...]] = {}
    for cell in cells:
        known = {result.seed: result.counts(name) for result in cell.results}
        lengths = _common_lengths(findings, cell)
        for places in bins_of(lengths):
            mean = fmean(lengths[place] for place in places)
            points[mean] = tuple(known[seed].of(places) if seed in known else None for seed in seeds)
    x = tuple(sorted(points))
    panel, label = _panel_and_line(findings, cells)
    return Band(label, x, tuple(zip(*(points[length] for length in x), strict=True)), panel)


def _common_lengths(findings: StudyResults, cell: ConditionResults) -> tuple[int, ...]:
    """Of the same sentences, the first cell's: others may read them in other tokens, and would be in other bins."""
    firsts = (other.results[0] for other in findings.cells if other.results)
    return next(first.lengths for first in firsts if first.sources == cell.results[0].sources)


def bins_of(lengths: Sequence[int]) -> list[list[int]]:
    """The places of sentences of like length, about as many in each bin. Equal lengths are in one bin."""
    most = max(1, min(MOST_BINS, len(lengths) // FEWEST_SENTENCES))
    by_length = groupby(sorted(range(len(lengths)), key=lengths.__getitem__), lengths.__getitem__)
    bins: list[list[int]] = [[]]
    for places in (list(group) for _, group in by_length):
        if len(bins[-1]) >= len(lengths) / most:
            bins.append([])
        bins[-1] += places
    return bins


def _panel_and_line(findings: StudyResults, cells: Sequence[ConditionResults]) -> tuple[str, str]:
    """With several axes, the first has a panel for each option."""
    options = findings.study.options(cells[0].condition)
    names = [name for axis, name in options if len(cells) == 1 or not axis.is_about_texts]
    if len(names) > 1:
        return names[0], " · ".join(names[1:])
    return "", findings.study.training_label(cells[0].condition)


def _row_and_group(findings: StudyResults, condition: Condition) -> tuple[str, str]:
    """A row for each way of training and a group for each way of testing, which are the rows if all train alike."""
    trained = findings.study.training_label(condition)
    tested = " · ".join(label for axis, label in findings.study.options(condition) if not axis.trains)
    return (trained, tested) if any(axis.trains for axis in findings.study.axes) else (tested or trained, "")


def _spread_out(values: Sequence[float]) -> bool:
    """Would most of them crowd at one end of an even scale?"""
    return min(values) > 0 and max(values) / min(values) >= 8
