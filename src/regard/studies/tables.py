"""The results of a study as tables, CSV and JSON."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from io import StringIO
from statistics import fmean
from typing import Any

from regard import __version__
from regard.errors import printable
from regard.evaluation.metrics import METRICS, Metric
from regard.reports.report_page import Table
from regard.studies.results import Comparison, ConditionResults, StudyResults

UNKNOWN = "–"


def main_table(results: StudyResults) -> Table:
    """The main metric: means with their spread over seeds, and the significance of differences."""
    metric = METRICS[results.main_metric]
    compared = {id(comparison.cell): comparison for comparison in results.comparisons}
    unit = " (%)" if metric.percent else ""
    head = ["runs", f"{metric.title}{unit}", "variance", "std. dev.", "95 % interval"]
    baselines = [results.study.baseline_of(cell.condition) is None for cell in results.cells]
    if not all(baselines):
        head += ["difference", "p, sentences", "p, seeds", "significant"]
    rows = []
    for cell, is_baseline in zip(results.cells, baselines, strict=True):
        row = [*_option_labels(results, cell), *_spread_columns(cell, results.main_metric)]
        if not all(baselines):
            row += ["baseline", "", "", ""] if is_baseline else _difference_columns(compared.get(id(cell)), metric)
        rows.append(tuple(row))
    return Table((*_axis_titles(results), *head), tuple(rows), caption=f"{metric.title}, over seeds")


def _spread_columns(cell: ConditionResults, name: str) -> list[str]:
    metric, summary = METRICS[name], cell.summary(name)
    if summary is None:
        return [str(len(cell.results)), *[UNKNOWN] * 4]
    scale = 100 if metric.percent else 1
    spread = [str(summary.count), format_metric(summary.mean, metric)]
    if summary.variance is None or summary.deviation is None or summary.low is None or summary.high is None:
        return [*spread, *[UNKNOWN] * 3]
    low, high = summary.low, summary.high
    if metric.percent:  # clip impossible values; error rates may exceed 100 %
        low, high = max(0.0, low), min(high, max(1.0, *cell.values(name)))
    interval = f"{format_metric(low, metric)} to {format_metric(high, metric)}"
    return [*spread, three_digits(summary.variance * scale**2), three_digits(summary.deviation * scale), interval]


def _difference_columns(comparison: Comparison | None, metric: Metric) -> list[str]:
    if comparison is None:
        return [UNKNOWN] * 4
    significant = {True: "yes", False: "no", None: UNKNOWN}[comparison.significant]
    difference = format_metric(comparison.over_seeds.mean, metric)
    signed = difference if difference.startswith("-") else f"+{difference}"
    return [signed, format_p_value(comparison.p_sentences), format_p_value(comparison.p_seeds), significant]


def format_metric(value: float, metric: Metric) -> str:
    """A value without its percent sign, which is in the head of the column."""
    return metric.form.format(value).removesuffix("%")


def three_digits(value: float) -> str:
    """A number with three significant digits."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def format_p_value(p: float | None) -> str:
    """A p-value with three decimals."""
    if p is None:
        return UNKNOWN
    return f"{p:.3f}" if p >= 0.001 else "<0.001"


def other_metrics_table(results: StudyResults) -> Table | None:
    """Means and variances of the other metrics; None if there are none."""
    others = results.study.metrics[1:]
    if not others:
        return None
    head = [part for name in others for part in (METRICS[name].title, "variance")]
    rows = []
    for cell in results.cells:
        row = _option_labels(results, cell)
        for name in others:
            summary, scale = cell.summary(name), 100 if METRICS[name].percent else 1
            row.append(METRICS[name].form.format(summary.mean) if summary else UNKNOWN)
            variance = summary.variance if summary else None
            row.append(UNKNOWN if variance is None else three_digits(variance * scale**2))
        rows.append(tuple(row))
    return Table((*_axis_titles(results), *head), tuple(rows), caption="other metrics, over seeds")


def expectation_table(results: StudyResults) -> Table | None:
    """Every expected difference and its outcome; None if there are none."""
    metric = METRICS[results.main_metric]
    rows = [
        (
            f"{outcome.comparison.other.label} < {outcome.comparison.cell.label}",
            *(format_metric(fmean(cell.values(results.main_metric)), metric) for cell in outcome.comparison.pair),
            format_p_value(outcome.comparison.p_sentences),
            format_p_value(outcome.comparison.p_seeds),
            outcome.description,
        )
        for outcome in results.expectation_outcomes
    ]
    head = ("expected: worse < better", "left", "right", "p, sentences", "p, seeds", "found")
    return Table(head, tuple(rows), caption="expected and found") if rows else None


def run_table(results: StudyResults) -> Table:
    """A row for each evaluation of each run."""
    metrics = results.study.metrics
    rows = [
        (
            *_option_labels(results, cell),
            str(result.seed),
            *(_format_or_unknown(result.value(name), name) for name in metrics),
            result.run.name,
        )
        for cell in results.cells
        for result in cell.results
    ]
    head = (*_axis_titles(results), "seed", *(METRICS[name].title for name in metrics), "run")
    return Table(head, tuple(rows), caption="every run")


def _format_or_unknown(value: float | None, name: str) -> str:
    return UNKNOWN if value is None else METRICS[name].form.format(value)


def score_tables(results: StudyResults) -> list[Table]:
    """The tables of the main metric and of the others."""
    return [table for table in (main_table(results), other_metrics_table(results)) if table]


def all_tables(results: StudyResults) -> list[Table]:
    """The tables that are printed: scores, and expected and found."""
    return [table for table in (*score_tables(results), expectation_table(results)) if table]


def _axis_titles(results: StudyResults) -> list[str]:
    return [axis.title for axis in results.study.axes] or ["experiment"]


def _axis_names(results: StudyResults) -> list[str]:
    """For programs; unlike titles, they are unique."""
    return [axis.name for axis in results.study.axes] or ["experiment"]


def _option_labels(results: StudyResults, cell: ConditionResults) -> list[str]:
    return [printable(label) for label in cell.condition.labels] or [cell.label]


def to_markdown(table: Table) -> str:
    """A table in Markdown."""

    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    return "\n".join([line(table.head), line("---" for _ in table.head), *map(line, table.rows)])


def to_csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in CSV; None is an empty cell."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(["" if cell is None else cell for cell in row] for row in rows)
    return text.getvalue()


def runs_csv(results: StudyResults) -> str:
    """A line for each evaluation of each run, with all metrics at full precision."""
    rows = [
        (*_option_labels(results, cell), result.seed, result.run.name, *(result.value(name) for name in METRICS))
        for cell in results.cells
        for result in cell.results
    ]
    return to_csv((*_axis_names(results), "seed", "run", *METRICS), rows)


def summary_csv(results: StudyResults) -> str:
    """A line for each condition and metric."""
    rows = [
        (*_option_labels(results, cell), name, s.count, s.mean, s.variance, s.deviation, s.low, s.high)
        for cell in results.cells
        for name in METRICS
        if (s := cell.summary(name))
    ]
    head = (*_axis_names(results), "metric", "runs", "mean", "variance", "deviation", "low", "high")
    return to_csv(head, rows)


def results_to_dict(results: StudyResults) -> dict[str, Any]:
    """All results, as in JSON.

    Args:
        results: Those of a study.
    """
    study = results.study
    return {
        "study": study.name,
        "question": study.plan.question,
        "experiment": study.plan.experiment,
        "axes": {axis.name: axis.labels for axis in study.axes},
        "metrics": study.metrics,
        "method": study.plan.method,
        "runs": {"wanted": results.wanted, "finished": results.finished},
        "failures": [
            {"run": job.path.name, "label": job.label, "seed": job.seed, "error": job.error} for job in results.failures
        ],
        "conditions": [_cell_to_dict(results, cell) for cell in results.cells],
        "comparisons": [_comparison_to_dict(comparison) for comparison in results.comparisons],
        "expectations": [
            {
                "reason": outcome.expectation.reason,
                "outcome": outcome.description,
                **_comparison_to_dict(outcome.comparison),
            }
            for outcome in results.expectation_outcomes
        ],
        "version": __version__,
    }


def _cell_to_dict(results: StudyResults, cell: ConditionResults) -> dict[str, Any]:
    return {
        "label": cell.label,
        "options": {axis.name: label for axis, label in zip(results.study.axes, cell.condition.labels, strict=True)},
        "test": cell.condition.evaluation.options.model_dump(),
        "metrics": {name: asdict(summary) for name in METRICS if (summary := cell.summary(name))},
        "runs": [
            {"seed": result.seed, "run": result.run.name}
            | {name: value for name in METRICS if (value := result.value(name)) is not None}
            for result in cell.results
        ],
    }


def _comparison_to_dict(comparison: Comparison) -> dict[str, Any]:
    return {
        "label": comparison.cell.label,
        "against": comparison.other.label,
        "over_seeds": asdict(comparison.over_seeds),
        "over_sentences": asdict(comparison.over_sentences) if comparison.over_sentences else None,
        "corrected_p_seeds": comparison.p_seeds,
        "corrected_p_sentences": comparison.p_sentences,
        "significant": comparison.significant,
    }


def dump_json(results: StudyResults) -> str:
    """All results, as JSON text."""
    return json.dumps(results_to_dict(results), ensure_ascii=False, indent=2)
