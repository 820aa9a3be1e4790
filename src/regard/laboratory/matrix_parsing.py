"""Matrices as people write them on a command line: '5,1; 4,3; -2,6' is three rows of two numbers."""

from __future__ import annotations

from math import isfinite

from regard.errors import UserError
from regard.plotting.panels import truncate

Matrix = tuple[tuple[float, ...], ...]

MOST = 50  # rows, and numbers in a row
LARGEST = 1e6
EXAMPLE = "write rows of numbers, such as '5,1; 4,3; -2,6'"


def parse_matrices(**texts: str | None) -> dict[str, Matrix]:
    """Those of the texts that were given, as matrices. Each goes by the name of its option, `query_weights` say."""
    return {name: _matrix(f"--{name.replace('_', '-')}", text) for name, text in texts.items() if text is not None}


def _matrix(option: str, text: str) -> Matrix:
    if not text.strip():
        raise UserError(f"{option} is empty; {EXAMPLE}")
    lines = text.split(";")
    if len(lines) > MOST:
        raise UserError(f"{option} has {len(lines):,} rows; there can be up to {MOST}")
    rows = tuple(_row(f"{option}, row {number}", line) for number, line in enumerate(lines, start=1))
    for number, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            raise UserError(
                f"{option}, row {number}: {len(row)} numbers, but row 1 has {len(rows[0])}; "
                "all rows need as many numbers as the first"
            )
    return rows


def _row(place: str, line: str) -> tuple[float, ...]:
    if not line.strip():
        raise UserError(f"{place} is empty; {EXAMPLE}, with no semicolon at the end")
    cells = line.split(",")
    if len(cells) > MOST:
        raise UserError(f"{place}: {len(cells):,} numbers; there can be up to {MOST}")
    return tuple(_number(place, cell.strip()) for cell in cells)


def _number(place: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        raise UserError(f"{place}: '{truncate(cell, 40)}' is not a number; {EXAMPLE}") from None
    if not isfinite(value) or abs(value) > LARGEST:
        raise UserError(f"{place}: {truncate(cell, 40)} is not between -{LARGEST:,.0f} and {LARGEST:,.0f}")
    return value
