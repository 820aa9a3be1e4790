"""Results as a table for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

ROWS = {
    "sentences": ("sentences", "{:,}"),
    "exact_match": ("exact matches", "{:.1%}"),
    "unfinished": ("cut off", "{:,}"),
    "token_accuracy": ("right tokens", "{:.2%}"),
    "aligned": ("looks at an aligned token", "{:.1%}"),
    "bleu": ("BLEU", "{:.1f}"),
    "loss": ("loss", "{:.4f}"),
    "perplexity": ("perplexity", "{:.3f}"),
    "seconds": ("seconds", "{:.1f}"),
}


def comparison(results: Sequence[Mapping[str, object]]) -> str:
    """A column for each run, a row for each measure; a dash where a run does not have it."""
    table = [["", *(str(result["run"]) for result in results)]]
    for key, (name, form) in ROWS.items():
        if any(key in result for result in results):
            table.append([name, *(form.format(result[key]) if key in result else "–" for result in results)])
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    )
