"""Results as a table for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Result = Mapping[str, object]
MEASURES = {
    "sentences": ("sentences", "{:,}"),
    "exact_match": ("exact matches", "{:.1%}"),
    "word_error": ("wrong words", "{:.2%}"),
    "phoneme_error": ("phoneme errors", "{:.2%}"),
    "bleu": ("BLEU", "{:.2f}"),
    "bleu_lc": ("BLEU, lowercased", "{:.2f}"),
    "chrf": ("chrF2", "{:.2f}"),
    "unfinished": ("cut off", "{:,}"),
    "log_probability": ("log-probability", "{:.3f}"),
    "token_accuracy": ("right tokens", "{:.2%}"),
    "aligned": ("looks at an aligned token", "{:.1%}"),
    "loss": ("loss", "{:.4f}"),
    "perplexity": ("perplexity", "{:.3f}"),
    "sentences_per_second": ("sentences a second", "{:,.0f}"),
}
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
    known = [key for key in MEASURES if any(key in result for result in results)]
    return aligned(
        [["", *(str(result["run"]) for result in results)]]
        + [[MEASURES[key][0], *(_cell(result, key) for result in results)] for key in known]
    )


def by_width(results: Sequence[Result]) -> str:
    """A row for each width of each run, a column for each measure."""
    known = [key for key in OF_A_SEARCH if any(key in result for result in results)]
    table = [["beam", *(MEASURES[key][0] for key in known)]]
    table += [[str(result["beam"]), *(_cell(result, key) for key in known)] for result in results]
    if len({result["run"] for result in results}) > 1:
        names = ["run", *(str(result["run"]) for result in results)]
        table = [[name, *row] for name, row in zip(names, table, strict=True)]
    return aligned(table)


def _cell(result: Result, key: str) -> str:
    return MEASURES[key][1].format(result[key]) if key in result else "–"


def aligned(table: Sequence[Sequence[str]]) -> str:
    """The first column to the left, all others to the right."""
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    )
