"""The report of an experiment, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from regard import files
from regard.errors import UserError, printable, suggest

if TYPE_CHECKING:
    from regard.laboratory.lab_report import LabReport
    from regard.reports.report_page import ReportPage

PAGE = ".html"
WIDTH = 100


def check_output_path(out: Sequence[Path] | None) -> list[Path]:
    """The files to write to, before a long computation."""
    from regard.plotting.figures import METADATA

    paths, known = list(out or []), (*METADATA, PAGE)
    for path in paths:
        suffix = path.suffix.lower()
        if suffix not in known:
            problem = f"cannot write a report as '{suffix}'" if suffix else "cannot write a report without a suffix"
            raise UserError(f"{path}: {problem}; {suggest(suffix, known)}")
        if [each.resolve() for each in paths].count(path.resolve()) > 1:
            raise UserError(f"{path}: only one thing can be written to one file")
    return paths


def print_report(report: LabReport, out: Sequence[Path], as_json: bool) -> None:
    """Print the report, and write the pictures and pages of it that are wanted."""
    from regard.plotting import figures
    from regard.reports.report_page import render_report

    # Printed first: a file that cannot be written loses nothing.
    print(json.dumps(report.data, ensure_ascii=False) if as_json else "\n".join(lines(report.page)), flush=True)
    for path in out:
        is_page = path.suffix.lower() == PAGE
        if is_page:
            files.write_output(path, render_report(report.page), "the page")
        else:
            figures.save_figure(report.figure, path)
        if not as_json:
            print(f"{path}: {'all of this, as a page' if is_page else 'the picture'}")


def lines(page: ReportPage) -> Iterator[str]:
    """The page without its pictures, for a terminal."""
    from regard.cli.tables import format_table
    from regard.reports.report_page import Table

    yield printable(page.title)
    yield from folded(page.lead)
    for name, fact in page.facts.items():
        yield f"{name}: {printable(fact)}"
    for section in page.sections:
        tables = [block for block in section.blocks if isinstance(block, Table)]
        if not tables and not section.text:
            continue  # a picture only
        yield from ("", f"== {printable(section.title)}", *(line for text in section.text for line in folded(text)))
        for place, table in enumerate(tables):
            yield from [""] * (place > 0)
            yield from folded(table.caption)
            head, *rows = [[printable(cell) for cell in row] for row in (table.head, *table.rows)]
            yield format_table(head, rows, right=table.numeric_columns())


def folded(text: str) -> list[str]:
    """The text in lines that a terminal, or a page of documentation, has room for."""
    return wrap(printable(text), WIDTH, break_long_words=False, break_on_hyphens=False)
