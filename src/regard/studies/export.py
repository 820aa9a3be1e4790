"""The results of a study as CSV and JSON, for programs."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from io import StringIO
from typing import Any

from regard import __version__
from regard.evaluation.metrics import known_metrics
from regard.studies.comparison import Comparison
from regard.studies.results import StudyResults
from regard.studies.run_results import ConditionResults
from regard.studies.tables import option_labels


def _axis_names(results: StudyResults) -> list[str]:
    """For programs; unlike titles, they are unique."""
    return [axis.name for axis in results.study.axes] or ["experiment"]


def to_csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in CSV; None is an empty cell.

    Args:
        head: Names of the columns.
        rows: The cells of each row.
    """
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(["" if cell is None else cell for cell in row] for row in rows)
    return text.getvalue()


def runs_csv(results: StudyResults) -> str:
    """A line for each evaluation of each run, with all metrics at full precision.

    Args:
        results: The results of the study.
    """
    metrics = known_metrics(results.study.metrics)
    rows = [
        (*option_labels(results, cell), result.seed, result.run.name, *map(result.value, metrics.values()))
        for cell in results.cells
        for result in cell.results
    ]
    return to_csv((*_axis_names(results), "seed", "run", *metrics), rows)


def run_records(results: StudyResults) -> tuple[list[str], list[list[object]]]:
    """The columns and rows of `StudyResults.to_pandas`: a row for each evaluation of each run.

    Args:
        results: The results of the study.
    """
    known = known_metrics(results.study.metrics)
    measured = {name: each for name, each in known.items() if any(cell.values(each) for cell in results.cells)}
    rows = [
        [*_option_values(results, cell), result.seed, result.run.name, *map(result.value, measured.values())]
        for cell in results.cells
        for result in cell.results
    ]
    return [*_axis_names(results), "seed", "run", *measured], rows


def _option_values(results: StudyResults, cell: ConditionResults) -> list[object]:
    """The option of each axis: its value if all of them are numbers or truth values, otherwise its label."""
    options: list[object] = [*option_labels(results, cell)]
    for index, axis in enumerate(results.study.axes):
        if (values := axis.numbers()) is not None:
            options[index] = values[cell.condition.labels[index]]
    return options


def summary_csv(results: StudyResults) -> str:
    """A line for each condition and metric.

    Args:
        results: The results of the study.
    """
    rows = [
        (*option_labels(results, cell), name, s.count, s.mean, s.variance, s.deviation, s.low, s.high)
        for cell in results.cells
        for name, metric in known_metrics(results.study.metrics).items()
        if (s := cell.summary(metric))
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
        "metrics": [metric.name for metric in study.metrics],
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
    metrics = known_metrics(results.study.metrics).items()
    return {
        "label": cell.label,
        "options": {axis.name: label for axis, label in zip(results.study.axes, cell.condition.labels, strict=True)},
        "test": cell.condition.evaluation.options.model_dump(),
        "metrics": {name: asdict(summary) for name, metric in metrics if (summary := cell.summary(metric))},
        "runs": [
            {"seed": result.seed, "run": result.run.name}
            | {name: value for name, metric in metrics if (value := result.value(metric)) is not None}
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
    """All results, as JSON text.

    Args:
        results: The results of the study.
    """
    return json.dumps(results_to_dict(results), ensure_ascii=False, indent=2)
