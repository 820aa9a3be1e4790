"""Filters parallel text before training: `regard.data.filter` and `regard data filter`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.corpora.filtering import FilterReport, PairFilter, filter_parallel_text
from regard.data.checking import AnyPath, both_files, parse_columns, parse_limits
from regard.files import parse_path
from regard.terminal.progress import ProgressMeter


def filter_files(
    source: AnyPath,
    target: AnyPath | None = None,
    *,
    out: AnyPath,
    deduplicate: bool = False,
    columns: Sequence[str] | None = None,
    max_lines: int | None = None,
    progress: bool = True,
    **limits: Any,
) -> FilterReport:
    """Write the sound pairs of a corpus to new files of the same format: those that training would accept.

        print(regard.data.filter("a.de", "a.en", out="clean", max_words=80, max_ratio=2, deduplicate=True))

    Args:
        source: The file of the sources, or one with both sides; see `check`.
        target: The file of the targets.
        out: The beginning of the names of the new files, here clean.de and clean.en.
        deduplicate: Whether to leave out pairs that have occurred before.
        columns: The names of source and target in .jsonl files and tables, if these have further texts.
        max_lines: Most lines of a compressed file; None for the limit of training.
        progress: Whether to show progress.
        limits: Limits of pairs, as in `data.limits`: min_words, max_words, max_ratio, min_letters, copies.

    Returns:
        The report: how many pairs were kept, and why the others were not.

    Raises:
        UserError: An argument is invalid, a file cannot be read or written, or no pair is left.
    """
    files = both_files(source, target)
    pair_filter = PairFilter(parse_limits(limits), deduplicate)
    with ProgressMeter(total=None, shown=progress, what="pairs") as meter:
        return filter_parallel_text(
            files, parse_path(out, "out"), pair_filter, parse_columns(columns), max_lines, meter.advance
        )
