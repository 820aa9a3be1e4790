"""Checks parallel text before training: `regard.data.check` and `regard data check`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from regard.config.explanations import explain_validation_error
from regard.corpora.check import check_parallel_text
from regard.corpora.check_report import CorpusReport
from regard.corpora.limits import NO_LIMITS, PairLimits
from regard.corpora.parallel_text import Columns, has_both_sides
from regard.errors import UserError
from regard.files import parse_path
from regard.terminal.progress import ProgressMeter

AnyPath = str | os.PathLike[str]


def check_files(
    source: AnyPath,
    target: AnyPath | None = None,
    *,
    test_source: AnyPath | None = None,
    test_target: AnyPath | None = None,
    columns: Sequence[str] | None = None,
    limits: Mapping[str, Any] | PairLimits = NO_LIMITS,
    max_lines: int | None = None,
    progress: bool = True,
) -> CorpusReport:
    """Check parallel text as training would read it: lengths, words, duplicates and all invalid lines.

        print(regard.data.check("train.de", "train.en"))

    Args:
        source: The file of the sources, one text per line; or a file with both sides (.tsv, .jsonl, .parquet) or a
            folder of tables; or a pattern of shards, such as `train.*.de`.
        target: The file of the targets, or their pattern.
        test_source: The sources of a test set, to find texts that are in both sets.
        test_target: The targets of the test set.
        columns: The names of source and target in .jsonl files and tables, if these have further texts.
        limits: Limits, as in `data.limits`, of which to report how many pairs exceed them.
        max_lines: Most lines of a compressed file; None for the limit of training.
        progress: Whether to show progress.

    Returns:
        The report. `ready` is False if training would refuse the files.

    Raises:
        UserError: An argument is missing, or a file cannot be read.
    """
    files = both_files(source, target, "target")
    if test_target is not None and test_source is None:
        raise UserError("test_target: give the sources of the test set, too, as test_source")
    test = both_files(test_source, test_target, "test_target") if test_source is not None else None
    names, known_limits = parse_columns(columns), parse_limits(limits)
    with ProgressMeter(total=None, shown=progress) as meter:
        return check_parallel_text(*files, test, meter.advance, max_lines, names, known_limits)


def both_files(source: object, target: object = None, option: str = "target") -> tuple[Path, Path | None]:
    """The paths of a corpus that a user gives.

    Args:
        source: The file of the sources or of both sides.
        target: The file of the targets; None if `source` has both.
        option: The name of the option for targets, for messages.

    Raises:
        UserError: One of them is no path, or missing.
    """
    path = parse_path(source, option.replace("target", "source"))
    if target is not None:
        return path, parse_path(target, option)
    if not has_both_sides(path):
        flag = option.replace("_", "-")
        raise UserError(f"{source}: give its translations as {option} (--{flag}), or a .tsv file with both")
    return path, None


def parse_columns(columns: object) -> Columns | None:
    """The names of source and target that a user gives.

    Args:
        columns: A sequence of two names; None if they are to be found.

    Raises:
        UserError: It is something else.
    """
    names = None if columns is None else [columns] if isinstance(columns, str) else list(columns)  # type: ignore[call-overload]
    if names is None:
        return None
    if len(names) != 2 or not all(isinstance(name, str) and name for name in names):
        raise UserError(f"columns: {columns!r:.80} should be the names of source and target, as de,en")
    return names[0], names[1]


def parse_limits(limits: Mapping[str, Any] | PairLimits) -> PairLimits:
    """The limits that a user gives.

    Args:
        limits: Them, or their values by name.

    Raises:
        UserError: A value or a name is invalid.
    """
    if isinstance(limits, PairLimits):
        return limits
    try:
        return PairLimits.model_validate(limits)
    except ValidationError as error:
        raise UserError(explain_validation_error(error, PairLimits, (), lambda path: "limits", limits)) from None
