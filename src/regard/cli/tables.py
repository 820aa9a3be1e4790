"""Results as a table for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regard.evaluation.metrics import METRICS

Result = Mapping[str, object]
# What the width of a beam changes.
OF_A_SEARCH = (
    "exact_match",
    "word_error",
    "phoneme_error",
    "bleu",
    "bleu_lc",
    "chrf",
    "unfinished",
    "log_probability",
    "sentences_per_second",
)


def side_by_side(results: Sequence[Result]) -> str:
    """A column for each run, a row for each measure."""
    known = [key for key in METRICS if any(key in result for result in results)]
    return aligned(
        [["", *(str(result["run"]) for result in results)]]
        + [["sentences", *(f"{result['sentences']:,}" for result in results)]]
        + [[METRICS[key].title, *(_cell(result, key) for result in results)] for key in known]
    )


def by_width(results: Sequence[Result]) -> str:
    """A row for each width of each run, a column for each measure."""
    known = [key for key in OF_A_SEARCH if any(key in result for result in results)]
    table = [["beam", *(METRICS[key].title for key in known)]]
    table += [[str(result["beam"]), *(_cell(result, key) for key in known)] for result in results]
    if len({result["run"] for result in results}) > 1:
        names = ["run", *(str(result["run"]) for result in results)]
        table = [[name, *row] for name, row in zip(names, table, strict=True)]
    return aligned(table)


def _cell(result: Result, key: str) -> str:
    return METRICS[key].form.format(result[key]) if key in result else "–"


def aligned(table: Sequence[Sequence[str]], to_the_right: Sequence[bool] = ()) -> str:
    """Which columns are set to the right is said, or else it is all but the first."""
    to_the_right = to_the_right or [False, *[True] * (len(table[0]) - 1)]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if to_the_right[column] else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    )
