"""A computation in small steps, from which the tables, the picture and the data of a report are made.

A step is a `Grid`: its symbol, its formula, and numbers whose rows and columns have names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from torch import Tensor

from regard.laboratory.formatting import format_number
from regard.laboratory.lab_report import LabReport
from regard.plotting import matrix_steps
from regard.plotting.matrix_steps import Grid
from regard.plotting.symbols import Formula
from regard.reports.report_page import Picture, ReportPage, ReportSection, Table


def step(symbol: str, formula: str, numbers: Tensor, rows: Sequence[str], columns: Sequence[str] = ()) -> Grid:
    """The numbers [1, rows, columns], from a batch of one. Columns without names are numbered."""
    columns = columns or count("", numbers.shape[-1])
    return Grid(symbol, formula, numbers[0].tolist(), [*map(Formula, rows)], [*map(Formula, columns)])


def count(name: str, many: int) -> list[str]:
    """The names of so many things of a kind: h_1, h_2, …, or only 1, 2, …"""
    return [Formula(f"{name}_{number}" if name else number) for number in range(1, many + 1)]


def tell(
    title: str,
    lead: str,
    facts: Mapping[str, str],
    groups: Mapping[str, Sequence[Grid]],
    remarks: Mapping[str, str],
    data: Mapping[str, Any],
) -> LabReport:
    """The report of groups of steps, and of remarks about them, under headings of their own."""
    picture = Picture(
        matrix_steps.draw_matrix_steps(list(groups.values()), format_number),
        alt="; ".join(f"{grid.symbol}: {grid.formula}" for grids in groups.values() for grid in grids),
        caption="The further a number is from zero, the deeper its cell: blue above, orange below.",
    )
    sections = [ReportSection(heading, (), tuple(map(_table, grids))) for heading, grids in groups.items()]
    sections[0] = ReportSection(sections[0].title, (), (picture, *sections[0].blocks))
    sections += [ReportSection(heading, (Formula(text),), ()) for heading, text in remarks.items()]
    steps = [asdict(grid) for grids in groups.values() for grid in grids]
    return LabReport(
        ReportPage(title, Formula(lead), facts, tuple(sections)), {**data, "steps": steps, "remarks": dict(remarks)}
    )


def _table(grid: Grid) -> Table:
    rows = [(name, *map(format_number, numbers)) for name, numbers in zip(grid.rows, grid.numbers, strict=True)]
    return Table((Formula(grid.symbol), *grid.columns), tuple(rows), Formula(grid.formula))
