"""Prints laboratory reports as text or JSON and writes them as pictures and HTML pages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from regard import files
from regard.errors import UserError, printable, suggest
from regard.terminal.output import print_result

if TYPE_CHECKING:
    from regard.laboratory.lab_report import LabReport
    from regard.reports.report_page import ReportPage

PAGE_SUFFIX = ".html"
LINE_WIDTH = 100


def check_output_path(out: Sequence[Path] | None) -> list[Path]:
    """The files to write; a `UserError` before a long computation if a suffix is unknown or a file is given twice."""
    from regard.plotting.figures import METADATA

    paths, known = list(out or []), (*METADATA, PAGE_SUFFIX)
    for path in paths:
        suffix = path.suffix.lower()
        if suffix not in known:
            problem = f"cannot write a report as '{suffix}'" if suffix else "cannot write a report without a suffix"
            raise UserError(f"{path}: {problem}; {suggest(suffix, known)}")
        if [each.resolve() for each in paths].count(path.resolve()) > 1:
            raise UserError(f"{path}: this file is given twice; give each file once")
    return paths


def print_report(report: LabReport, out: Sequence[Path], as_json: bool) -> None:
    """Print the report as text or JSON, and write it to each file of `out` as a picture or a page."""
    from regard.plotting import figures
    from regard.reports.report_page import render_report

    # Print first: if a file cannot be written, the result is not lost.
    text = json.dumps(report.data, ensure_ascii=False) if as_json else "\n".join(report_lines(report.page))
    print_result(text, flush=True)
    for path in out:
        is_page = path.suffix.lower() == PAGE_SUFFIX
        if is_page:
            files.write_output(path, render_report(report.page), "the page")
        else:
            figures.save_figure(report.figure, path)
        if not as_json:
            print_result(f"{path}: {'report' if is_page else 'picture'}")


def report_lines(page: ReportPage) -> Iterator[str]:
    """The lines of the page for a terminal, without pictures."""
    from regard.reports.report_page import Table
    from regard.terminal.tables import format_table

    yield printable(page.title)
    yield from wrap_lines(page.lead)
    for name, fact in page.facts.items():
        yield f"{name}: {printable(fact)}"
    for section in page.sections:
        tables = [block for block in section.blocks if isinstance(block, Table)]
        if not tables and not section.text:
            continue  # a picture only
        yield from ("", f"== {printable(section.title)}", *(line for text in section.text for line in wrap_lines(text)))
        for index, table in enumerate(tables):
            yield from [""] * (index > 0)
            yield from wrap_lines(table.caption)
            head, *rows = [[printable(cell) for cell in row] for row in (table.head, *table.rows)]
            yield format_table(head, rows, right=table.numeric_columns())


def wrap_lines(text: str) -> list[str]:
    """The text wrapped to lines of `LINE_WIDTH` characters."""
    return wrap(printable(text), LINE_WIDTH, break_long_words=False, break_on_hyphens=False)
