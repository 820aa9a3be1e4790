"""The results of a study as tables, for people."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

from regard.errors import printable
from regard.evaluation.metrics import Metric
from regard.reports.report_page import Table
from regard.studies.comparison import Comparison
from regard.studies.results import StudyResults
from regard.studies.run_results import ConditionResults

UNKNOWN = "–"


def main_table(results: StudyResults) -> Table:
    """The main metric: means with their spread over seeds, and the significance of differences.

    Args:
        results: The results of the study.
    """
    metric = results.main_metric
    compared = {id(comparison.cell): comparison for comparison in results.comparisons}
    unit = " (%)" if metric.percent else ""
    head = ["runs", f"{metric.title}{unit}", "variance", "std. dev.", "95 % interval"]
    baselines = [results.study.baseline_of(cell.condition) is None for cell in results.cells]
    if not all(baselines):
        head += ["difference", "p, sentences", "p, seeds", "significant"]
    rows = []
    for cell, is_baseline in zip(results.cells, baselines, strict=True):
        row = [*option_labels(results, cell), *_spread_columns(cell, metric)]
        if not all(baselines):
            row += ["baseline", "", "", ""] if is_baseline else _difference_columns(compared.get(id(cell)), metric)
        rows.append(tuple(row))
    return Table((*_axis_titles(results), *head), tuple(rows), caption=f"{metric.title}, over seeds")


def _spread_columns(cell: ConditionResults, metric: Metric) -> list[str]:
    summary = cell.summary(metric)
    if summary is None:
        return [str(len(cell.results)), *[UNKNOWN] * 4]
    scale = 100 if metric.percent else 1
    spread = [str(summary.count), format_metric(summary.mean, metric)]
    if summary.variance is None or summary.deviation is None or summary.low is None or summary.high is None:
        return [*spread, *[UNKNOWN] * 3]
    low, high = summary.low, summary.high
    if metric.percent:  # clip impossible values; error rates may exceed 100 %
        low, high = max(0.0, low), min(high, max(1.0, *cell.values(metric)))
    interval = f"{format_metric(low, metric)} to {format_metric(high, metric)}"
    return [
        *spread,
        format_three_digits(summary.variance * scale**2),
        format_three_digits(summary.deviation * scale),
        interval,
    ]


def _difference_columns(comparison: Comparison | None, metric: Metric) -> list[str]:
    if comparison is None:
        return [UNKNOWN] * 4
    significant = {True: "yes", False: "no", None: UNKNOWN}[comparison.significant]
    difference = format_metric(comparison.over_seeds.mean, metric)
    signed = difference if difference.startswith("-") else f"+{difference}"
    return [signed, *_p_columns(comparison), significant]


def _p_columns(comparison: Comparison) -> list[str]:
    over_seeds = format_p_value(comparison.p_seeds)
    reason = comparison.over_seeds.untested
    return [format_p_value(comparison.p_sentences), f"{over_seeds} ({reason})" if reason else over_seeds]


def format_metric(value: float, metric: Metric) -> str:
    """A value without its percent sign, which is in the head of the column.

    Args:
        value: The value.
        metric: Its metric.
    """
    return metric.form.format(value).removesuffix("%")


def format_three_digits(value: float) -> str:
    """A number with three significant digits.

    Args:
        value: The number.
    """
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def format_p_value(p: float | None) -> str:
    """A p-value with three decimals.

    Args:
        p: The p-value; None if unknown.
    """
    if p is None:
        return UNKNOWN
    return f"{p:.3f}" if p >= 0.001 else "<0.001"


def other_metrics_table(results: StudyResults) -> Table | None:
    """Means and variances of the other metrics; None if there are none.

    Args:
        results: The results of the study.
    """
    others = results.study.metrics[1:]
    if not others:
        return None
    head = [part for metric in others for part in (metric.title, "variance")]
    rows = []
    for cell in results.cells:
        row = option_labels(results, cell)
        for metric in others:
            summary, scale = cell.summary(metric), 100 if metric.percent else 1
            row.append(metric.form.format(summary.mean) if summary else UNKNOWN)
            variance = summary.variance if summary else None
            row.append(UNKNOWN if variance is None else format_three_digits(variance * scale**2))
        rows.append(tuple(row))
    return Table((*_axis_titles(results), *head), tuple(rows), caption="other metrics, over seeds")


def expectation_table(results: StudyResults) -> Table | None:
    """Every expected difference and its outcome; None if there are none.

    Args:
        results: The results of the study.
    """
    metric = results.main_metric
    rows = [
        (
            f"{outcome.comparison.other.label} < {outcome.comparison.cell.label}",
            *(format_metric(fmean(cell.values(metric)), metric) for cell in outcome.comparison.pair),
            *_p_columns(outcome.comparison),
            outcome.description,
        )
        for outcome in results.expectation_outcomes
    ]
    head = ("expected: worse < better", "left", "right", "p, sentences", "p, seeds", "found")
    return Table(head, tuple(rows), caption="expected and found") if rows else None


def run_table(results: StudyResults) -> Table:
    """A row for each evaluation of each run.

    Args:
        results: The results of the study.
    """
    metrics = results.study.metrics
    rows = [
        (
            *option_labels(results, cell),
            str(result.seed),
            *(_format_or_unknown(result.value(metric), metric) for metric in metrics),
            result.run.name,
        )
        for cell in results.cells
        for result in cell.results
    ]
    head = (*_axis_titles(results), "seed", *(metric.title for metric in metrics), "run")
    return Table(head, tuple(rows), caption="every run")


def failure_table(results: StudyResults) -> Table | None:
    """The runs that have failed, each with its error; None if there are none.

    Args:
        results: The results of the study.
    """
    rows = tuple((printable(job.label), str(job.seed), printable(job.error), job.path.name) for job in results.failures)
    return Table(("failed", "seed", "error", "run"), rows, caption="failed runs") if rows else None


def _format_or_unknown(value: float | None, metric: Metric) -> str:
    return UNKNOWN if value is None else metric.form.format(value)


def score_tables(results: StudyResults) -> list[Table]:
    """The tables of the main metric and of the others.

    Args:
        results: The results of the study.
    """
    return [table for table in (main_table(results), other_metrics_table(results)) if table]


def all_tables(results: StudyResults) -> list[Table]:
    """The tables that are printed: scores, and expected and found.

    Args:
        results: The results of the study.
    """
    return [table for table in (*score_tables(results), expectation_table(results)) if table]


def _axis_titles(results: StudyResults) -> list[str]:
    return [axis.title for axis in results.study.axes] or ["experiment"]


def option_labels(results: StudyResults, cell: ConditionResults) -> list[str]:
    """The option of each axis, or the label of the condition if there are no axes.

    Args:
        results: The results of the study.
        cell: The results of a condition.
    """
    return [printable(label) for label in cell.condition.labels] or [cell.label]


# By the name that `StudyResults.table` takes.
TABLES: dict[str, Callable[[StudyResults], Table | None]] = {
    "main": main_table,
    "metrics": other_metrics_table,
    "expected": expectation_table,
    "runs": run_table,
    "failures": failure_table,
}
