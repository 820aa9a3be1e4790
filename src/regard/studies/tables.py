"""What a study has found as tables for people, and as CSV and JSON for programs."""

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


def main_table(findings: StudyResults) -> Table:
    """The measure that decides: every mean with its spread over seeds, and how sure the differences are."""
    measure = METRICS[findings.measure]
    compared = {id(comparison.cell): comparison for comparison in findings.comparisons}
    unit = " (%)" if measure.percent else ""
    head = ["runs", f"{measure.title}{unit}", "variance", "deviation", "95 % interval"]
    baselines = [findings.study.baseline_of(cell.condition) is None for cell in findings.cells]
    if not all(baselines):
        head += ["difference", "p, sentences", "p, seeds", "sure"]
    rows = []
    for cell, is_baseline in zip(findings.cells, baselines, strict=True):
        row = [*_names(findings, cell), *_spread(cell, findings.measure)]
        if not all(baselines):
            row += ["baseline", "", "", ""] if is_baseline else _difference(compared.get(id(cell)), measure)
        rows.append(tuple(row))
    return Table((*_axes(findings), *head), tuple(rows), caption=f"{measure.title}, over seeds")


def _spread(cell: ConditionResults, name: str) -> list[str]:
    measure, summary = METRICS[name], cell.summary(name)
    if summary is None:
        return [str(len(cell.results)), *[UNKNOWN] * 4]
    scale = 100 if measure.percent else 1
    spread = [str(summary.count), format_metric(summary.mean, measure)]
    if summary.variance is None or summary.deviation is None or summary.low is None or summary.high is None:
        return [*spread, *[UNKNOWN] * 3]
    low, high = summary.low, summary.high
    if measure.percent:  # what cannot be is not told; of errors there may be more than 100 %
        low, high = max(0.0, low), min(high, max(1.0, *cell.values(name)))
    interval = f"{format_metric(low, measure)} to {format_metric(high, measure)}"
    return [*spread, in_short(summary.variance * scale**2), in_short(summary.deviation * scale), interval]


def _difference(comparison: Comparison | None, measure: Metric) -> list[str]:
    if comparison is None:
        return [UNKNOWN] * 4
    sure = {True: "yes", False: "no", None: UNKNOWN}[comparison.sure]
    difference = format_metric(comparison.over_seeds.mean, measure)
    signed = difference if difference.startswith("-") else f"+{difference}"
    return [signed, chance(comparison.p_sentences), chance(comparison.p_seeds), sure]


def format_metric(value: float, measure: Metric) -> str:
    """A value without its sign of per cent, which stands in the head of the column."""
    return measure.form.format(value).removesuffix("%")


def in_short(value: float) -> str:
    """Three digits that matter."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def chance(p: float | None) -> str:
    if p is None:
        return UNKNOWN
    return f"{p:.3f}" if p >= 0.001 else "<0.001"


def other_table(findings: StudyResults) -> Table | None:
    """Means and variances of the other measures."""
    others = findings.study.measures[1:]
    if not others:
        return None
    head = [part for name in others for part in (METRICS[name].title, "variance")]
    rows = []
    for cell in findings.cells:
        row = _names(findings, cell)
        for name in others:
            summary, scale = cell.summary(name), 100 if METRICS[name].percent else 1
            row.append(METRICS[name].form.format(summary.mean) if summary else UNKNOWN)
            variance = summary.variance if summary else None
            row.append(UNKNOWN if variance is None else in_short(variance * scale**2))
        rows.append(tuple(row))
    return Table((*_axes(findings), *head), tuple(rows), caption="other measures, over seeds")


def verdict_table(findings: StudyResults) -> Table | None:
    """What was expected of each pair, and what came out."""
    measure = METRICS[findings.measure]
    rows = [
        (
            f"{verdict.comparison.other.label} < {verdict.comparison.cell.label}",
            *(format_metric(fmean(cell.values(findings.measure)), measure) for cell in verdict.comparison.pair),
            chance(verdict.comparison.p_sentences),
            chance(verdict.comparison.p_seeds),
            verdict.words,
        )
        for verdict in findings.verdicts
    ]
    head = ("expected: worse < better", "left", "right", "p, sentences", "p, seeds", "found")
    return Table(head, tuple(rows), caption="expected and found") if rows else None


def run_table(findings: StudyResults) -> Table:
    """Every single run."""
    measures = findings.study.measures
    rows = [
        (
            *_names(findings, cell),
            str(result.seed),
            *(_value(result.value(name), name) for name in measures),
            result.run.name,
        )
        for cell in findings.cells
        for result in cell.results
    ]
    head = (*_axes(findings), "seed", *(METRICS[name].title for name in measures), "run")
    return Table(head, tuple(rows), caption="every run")


def _value(value: float | None, name: str) -> str:
    return UNKNOWN if value is None else METRICS[name].form.format(value)


def score_tables(findings: StudyResults) -> list[Table]:
    return [table for table in (main_table(findings), other_table(findings)) if table]


def all_tables(findings: StudyResults) -> list[Table]:
    return [table for table in (*score_tables(findings), verdict_table(findings)) if table]


def _axes(findings: StudyResults) -> list[str]:
    return [axis.title for axis in findings.study.axes] or ["experiment"]


def _keys(findings: StudyResults) -> list[str]:
    """For programs: no two axes have the same."""
    return [axis.name for axis in findings.study.axes] or ["experiment"]


def _names(findings: StudyResults, cell: ConditionResults) -> list[str]:
    return [printable(label) for label in cell.condition.labels] or [cell.label]


def to_markdown(table: Table) -> str:
    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    return "\n".join([line(table.head), line("---" for _ in table.head), *map(line, table.rows)])


def to_csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(["" if cell is None else cell for cell in row] for row in rows)
    return text.getvalue()


def runs_csv(findings: StudyResults) -> str:
    """A line for each run and exam, with all of its measures in full."""
    rows = [
        (*_names(findings, cell), result.seed, result.run.name, *(result.value(name) for name in METRICS))
        for cell in findings.cells
        for result in cell.results
    ]
    return to_csv((*_keys(findings), "seed", "run", *METRICS), rows)


def summary_csv(findings: StudyResults) -> str:
    """A line for each condition and measure."""
    rows = [
        (*_names(findings, cell), name, s.count, s.mean, s.variance, s.deviation, s.low, s.high)
        for cell in findings.cells
        for name in METRICS
        if (s := cell.summary(name))
    ]
    head = (*_keys(findings), "measure", "runs", "mean", "variance", "deviation", "low", "high")
    return to_csv(head, rows)


def results_to_dict(findings: StudyResults) -> dict[str, Any]:
    study = findings.study
    return {
        "study": study.name,
        "question": study.plan.question,
        "experiment": study.plan.experiment,
        "axes": {axis.name: axis.labels for axis in study.axes},
        "measures": study.measures,
        "method": study.plan.method,
        "runs": {"wanted": findings.wanted, "finished": findings.finished},
        "failures": [
            {"run": job.path.name, "label": job.label, "seed": job.seed, "error": job.error}
            for job in findings.failures
        ],
        "conditions": [_cell_json(findings, cell) for cell in findings.cells],
        "comparisons": [_comparison_json(comparison) for comparison in findings.comparisons],
        "expectations": [
            {"says": verdict.expectation.says, "found": verdict.words, **_comparison_json(verdict.comparison)}
            for verdict in findings.verdicts
        ],
        "version": __version__,
    }


def _cell_json(findings: StudyResults, cell: ConditionResults) -> dict[str, Any]:
    return {
        "label": cell.label,
        "options": {axis.name: label for axis, label in zip(findings.study.axes, cell.condition.labels, strict=True)},
        "test": cell.condition.exam.manner.model_dump(),
        "measures": {name: asdict(summary) for name in METRICS if (summary := cell.summary(name))},
        "runs": [
            {"seed": result.seed, "run": result.run.name}
            | {name: value for name in METRICS if (value := result.value(name)) is not None}
            for result in cell.results
        ],
    }


def _comparison_json(comparison: Comparison) -> dict[str, Any]:
    return {
        "label": comparison.cell.label,
        "against": comparison.other.label,
        "over_seeds": asdict(comparison.over_seeds),
        "over_sentences": asdict(comparison.over_sentences) if comparison.over_sentences else None,
        "corrected_p_seeds": comparison.p_seeds,
        "corrected_p_sentences": comparison.p_sentences,
        "sure": comparison.sure,
    }


def dump_json(findings: StudyResults) -> str:
    return json.dumps(results_to_dict(findings), ensure_ascii=False, indent=2)
