"""Checks parallel text before training: `regard.data.check` and `regard data check`."""

from __future__ import annotations

import os
from pathlib import Path
from reprlib import repr as short_repr

from regard.corpora.check import check_parallel_text
from regard.corpora.check_report import CorpusReport
from regard.corpora.parallel_text import TSV_SUFFIXES
from regard.errors import UserError
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
        source: The file of the sources, one text per line; or a .tsv file with source and target.
        target: The file of the targets.
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
    for path in (source, target):
        if not isinstance(path, str | os.PathLike) and path is not None:
            raise UserError(f"{short_repr(path)} should be the path of a text file, as a text or a pathlib.Path")
    assert isinstance(source, str | os.PathLike)
    if target is None and not str(source).endswith(TSV_SUFFIXES):
        flag = option.replace("_", "-")
        raise UserError(f"{source}: give its translations as {option} (--{flag}), or a .tsv file with both")
    return Path(source), Path(target) if isinstance(target, str | os.PathLike) else None
