"""Checks parallel text before training: `regard.data.check` and `regard data check`."""

from __future__ import annotations

import os
from pathlib import Path

from regard.corpora.check import check_parallel_text
from regard.corpora.check_report import CorpusReport
from regard.corpora.parallel_text import TSV_SUFFIXES
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
    max_lines: int | None = None,
    progress: bool = True,
) -> CorpusReport:
    """Check parallel text as training would read it: lengths, words, duplicates and all invalid lines.

        print(regard.data.check("train.de", "train.en"))

    Args:
        source: The file of the sources, one text per line; or a .tsv file with source and target; or a pattern of
            shards, such as `train.*.de`.
        target: The file of the targets, or their pattern.
        test_source: The sources of a test set, to find texts that are in both sets.
        test_target: The targets of the test set.
        max_lines: Most lines of a compressed file; None for the limit of training.
        progress: Whether to show progress.

    Returns:
        The report. `ready` is False if training would refuse the files.

    Raises:
        UserError: An argument is missing, or a file cannot be read.
    """
    files = _both_files(source, target, "target")
    if test_target is not None and test_source is None:
        raise UserError("test_target: give the sources of the test set, too, as test_source")
    test = _both_files(test_source, test_target, "test_target") if test_source is not None else None
    with ProgressMeter(total=None, shown=progress) as meter:
        return check_parallel_text(*files, test, meter.advance, max_lines)


def _both_files(source: object, target: object, option: str) -> tuple[Path, Path | None]:
    path = parse_path(source, option.replace("target", "source"))
    if target is not None:
        return path, parse_path(target, option)
    if not path.name.endswith(TSV_SUFFIXES):
        flag = option.replace("_", "-")
        raise UserError(f"{source}: give its translations as {option} (--{flag}), or a .tsv file with both")
    return path, None
