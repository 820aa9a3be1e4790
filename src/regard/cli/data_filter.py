"""The output of `regard data filter`, as text or JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard import files
from regard.errors import UserError
from regard.terminal.output import print_result


def print_filter(corpus: tuple[Path, Path | None], report_file: Path | None, as_json: bool, **options: Any) -> None:
    """Filter a corpus and print the report.

    Args:
        corpus: The files of sources and targets, or one with both sides and None.
        report_file: Where to write the report as JSON.
        as_json: Whether to print JSON.
        options: Further arguments of `regard.data.filter`.
    """
    from regard.corpora.shards import find_shards
    from regard.data.filtering import filter_files

    if report_file and report_file.exists():
        for path in (path for shard in find_shards(*corpus) for path in shard if path):
            if path.exists() and report_file.samefile(path):
                raise UserError(f"--report {report_file}: this is a file that is read; choose another name")
    report = filter_files(*corpus, **options)
    text = json.dumps(report.to_dict(), ensure_ascii=False)
    if report_file:
        files.write_output(report_file, f"{text}\n".encode(), "the report")
    print_result(text if as_json else str(report))
