"""Evaluations as tables on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regard.evaluation.metrics import METRICS
from regard.terminal.tables import print_table

Result = Mapping[str, object]


def print_runs(results: Sequence[Result]) -> None:
    """Print evaluations side by side: a column for each run, a row for each metric.

    Args:
        results: What `EvaluationResult.to_dict` returns.
    """
    known = [key for key in METRICS if any(key in result for result in results)]
    rows = [["sentences", *(f"{result['sentences']:,}" for result in results)]]
    rows += [[METRICS[key].title, *(_metric_text(result, key) for result in results)] for key in known]
    print_table(["", *(str(result["run"]) for result in results)], rows)


def print_beams(results: Sequence[Result]) -> None:
    """Print evaluations with several beam widths: a row for each width of each run, a column for each metric.

    Args:
        results: What `EvaluationResult.to_dict` returns.
    """
    searched = [key for key, metric in METRICS.items() if metric.depends_on_search]
    known = [key for key in searched if any(key in result for result in results)]
    columns = ["beam", *(METRICS[key].title for key in known)]
    rows = [[str(result["beam"]), *(_metric_text(result, key) for key in known)] for result in results]
    if len({result["run"] for result in results}) > 1:
        columns = ["run", *columns]
        rows = [[str(result["run"]), *row] for result, row in zip(results, rows, strict=True)]
    print_table(columns, rows)


def _metric_text(result: Result, key: str) -> str:
    return METRICS[key].form.format(result[key]) if key in result else "–"
