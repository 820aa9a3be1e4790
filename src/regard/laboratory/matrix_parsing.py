"""Matrices as they are written on a command line: '5,1; 4,3; -2,6' has three rows of two numbers."""

from __future__ import annotations

from math import isfinite

from regard.errors import UserError, printable

Matrix = tuple[tuple[float, ...], ...]

MAX_ROWS = MAX_COLUMNS = 50
MAX_VALUE = 1e6
MAX_QUOTED = 40  # characters of a cell in an error message
EXAMPLE = "write rows of numbers, such as '5,1; 4,3; -2,6'"


def parse_matrices(**texts: str | None) -> dict[str, Matrix]:
    """The matrices that were given, by name.

    Args:
        texts: For each option its text, or None if it was not given. The name is that of the option with underscores:
            `query_weights` for `--query-weights`.

    Raises:
        UserError: If a text is not a matrix; the message names the option and the row.
    """
    return {
        name: _parse_matrix(f"--{name.replace('_', '-')}", text) for name, text in texts.items() if text is not None
    }


def parse_indices(option: str, text: str) -> list[int]:
    """The whole numbers of a list such as '3,1,2'.

    Args:
        option: The option that gives the list.
        text: The list.

    Raises:
        UserError: If the text is not a list of whole numbers.
    """
    (row, *more) = _parse_matrix(option, text)
    if more or any(value != int(value) for value in row):
        raise UserError(f"{option} must be one row of whole numbers, such as 3,1,2")
    return [int(value) for value in row]


def check_shape(option: str, matrix: Matrix, rows: int | None, columns: int | None, reason: str) -> None:
    """Raise a `UserError` if a matrix does not have this shape.

    Args:
        option: The option that gives the matrix.
        matrix: The matrix.
        rows: The number of rows; None: any.
        columns: The number of columns; None: any.
        reason: Why it must have this shape.
    """
    found = len(matrix), len(matrix[0])
    for what, count, needed in zip(("rows", "columns"), found, (rows, columns), strict=True):
        if needed is not None and count != needed:
            raise UserError(f"{option} has {count} {what}, but needs {needed}: {reason}")


def _parse_matrix(option: str, text: str) -> Matrix:
    if not text.strip():
        raise UserError(f"{option} is empty; {EXAMPLE}")
    lines = text.split(";")
    if len(lines) > MAX_ROWS:
        raise UserError(f"{option} has {len(lines):,} rows; the maximum is {MAX_ROWS}")
    rows = tuple(_parse_row(f"{option}, row {number}", line) for number, line in enumerate(lines, start=1))
    for number, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            raise UserError(
                f"{option}, row {number}: {len(row)} numbers, but row 1 has {len(rows[0])}; "
                "all rows need as many numbers as the first"
            )
    return rows


def _parse_row(origin: str, line: str) -> tuple[float, ...]:
    if not line.strip():
        raise UserError(f"{origin} is empty; {EXAMPLE}, with no semicolon at the end")
    cells = line.split(",")
    if len(cells) > MAX_COLUMNS:
        raise UserError(f"{origin}: {len(cells):,} numbers; the maximum is {MAX_COLUMNS}")
    return tuple(_parse_number(origin, cell.strip()) for cell in cells)


def _parse_number(origin: str, cell: str) -> float:
    quoted = printable(cell if len(cell) <= MAX_QUOTED else f"{cell[: MAX_QUOTED - 1]}…")
    try:
        value = float(cell)
    except ValueError:
        raise UserError(f"{origin}: '{quoted}' is not a number; {EXAMPLE}") from None
    if not isfinite(value) or abs(value) > MAX_VALUE:
        raise UserError(f"{origin}: {quoted} is not between -{MAX_VALUE:,.0f} and {MAX_VALUE:,.0f}")
    return value
