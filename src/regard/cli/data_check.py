"""The output of `regard data check`, as text or JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.terminal.output import print_result


def print_check(
    source: Path,
    target: Path | None,
    test: tuple[Path, Path | None] | None,
    as_json: bool,
    max_lines: int | None = None,
    **options: Any,
) -> None:
    """Print the report; raise a `UserError` if training would refuse the files.

    Args:
        source: The file of the sources, or one with both sides.
        target: The file of the targets, if `source` has only one side.
        test: The files of a test set.
        as_json: Whether to print JSON.
        max_lines: Most lines of a compressed file; None for the limit of training.
        options: Further arguments of `regard.data.check`.
    """
    from regard.corpora.check_text import refusal_reasons
    from regard.data.checking import check_files

    test_source, test_target = test or (None, None)
    report = check_files(
        source, target, test_source=test_source, test_target=test_target, max_lines=max_lines, **options
    )
    print_result(json.dumps(report.to_dict(), ensure_ascii=False) if as_json else str(report))
    if not report.ready:
        raise UserError(f"{', '.join(report.files)}: not ready for training: {refusal_reasons(report)}")
