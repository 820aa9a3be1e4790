"""The report of a computation in steps: each step is a `Grid`, shown as a table, in the picture and in the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from regard.laboratory.formatting import format_number
from regard.laboratory.lab_report import LabReport
from regard.plotting import matrix_steps
from regard.plotting.matrix_steps import NUMBERS, ColorScale, Grid
from regard.plotting.symbols import Formula
from regard.reports.report_page import Picture, ReportPage, ReportSection, Table

WEIGHT_SCALE = ColorScale("weights", 1.0)
DATA = ("symbol", "formula", "numbers", "rows", "columns")  # of a grid, in JSON; the others are for the picture


def grid_of(
    symbol: str,
    formula: str,
    numbers: Tensor,
    rows: Sequence[str],
    columns: Sequence[str] = (),
    scale: ColorScale = NUMBERS,
) -> Grid:
    """The grid of a tensor; its symbols are typeset.

    Args:
        symbol: The symbol of the result.
        formula: The formula of the step.
        numbers: The result [1, rows, columns].
        rows: The names of the rows.
        columns: The names of the columns; by default 1, 2, …
        scale: The color scale.
    """
    columns = columns or indexed("", numbers.shape[-1])
    row_names, column_names = (list(map(Formula, each)) for each in (rows, columns))
    return Grid(Formula(symbol), Formula(formula), numbers[0].tolist(), row_names, column_names, scale)


def indexed(name: str, count: int) -> list[str]:
    """Names with indices: h_1, h_2, …, or 1, 2, … for an empty name.

    Args:
        name: The common name.
        count: The number of names.
    """
    return [f"{name}_{index}" if name else str(index) for index in range(1, count + 1)]


def steps_report(
    title: str,
    lead: str,
    facts: Mapping[str, str],
    groups: Mapping[str, Sequence[Grid]],
    remarks: Mapping[str, str],
    data: Mapping[str, Any],
    more: Sequence[ReportSection] = (),
    key: str = "",
) -> LabReport:
    """The report of a computation.

    Args:
        title: The title of the page.
        lead: The paragraph below it.
        facts: Facts by name.
        groups: The steps by the heading of their section.
        remarks: Paragraphs by the heading of their section.
        data: Additional data for JSON.
        more: Sections between the steps and the remarks.
        key: What frames, bold numbers and arrows of the picture mean.
    """
    picture = Picture(
        matrix_steps.draw_matrix_steps(list(groups.values()), format_number, key),
        alt="; ".join(f"{grid.symbol}: {grid.formula}" for grids in groups.values() for grid in grids),
        caption="The color of a cell shows its distance from zero, blue above and orange below, on the scales at the "
        "bottom.",
    )
    sections = [ReportSection(heading, (), tuple(map(_grid_table, grids))) for heading, grids in groups.items()]
    sections[0] = ReportSection(sections[0].title, (), (picture, *sections[0].blocks))
    sections += more
    sections += [ReportSection(heading, (Formula(text),), ()) for heading, text in remarks.items()]
    steps = [{name: getattr(grid, name) for name in DATA} for grids in groups.values() for grid in grids]
    return LabReport(
        ReportPage(title, Formula(lead), facts, tuple(sections)), {**data, "steps": steps, "remarks": dict(remarks)}
    )


def _grid_table(grid: Grid) -> Table:
    rows = [(name, *map(format_number, numbers)) for name, numbers in zip(grid.rows, grid.numbers, strict=True)]
    return Table((grid.row_title or grid.symbol, *grid.columns), tuple(rows), grid.formula)
