"""Tables on the terminal: the one helper that prints them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import TYPE_CHECKING, TextIO

from regard.errors import escape_controls
from regard.terminal.output import for_stream

if TYPE_CHECKING:
    from rich.table import Table

WIDE = 1_000_000  # columns: wider than any table, so that files and pipes get whole lines


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Sequence[bool] | None = None,
    title: str = "",
    file: TextIO | None = None,
) -> None:
    """Print a table. On a terminal, cells fold to fit its width; elsewhere every row is one whole line.

    Args:
        columns: The header of each column.
        rows: The cells of each row, as many as there are columns. They are printed as they are, not as markup.
        right: Which columns are right-aligned; by default all but the first.
        title: A line above the table.
        file: Where to print; standard output by default.
    """
    from rich.console import Console

    file = file or sys.stdout
    if title:
        print(for_stream(title, file), file=file)
    if file.isatty():
        columns = [escape_controls(column) for column in columns]
        rows = [[escape_controls(cell) for cell in row] for row in rows]
        Console(file=file, highlight=False, soft_wrap=False).print(_rich_table(columns, rows, right, whole_lines=False))
    else:
        print(format_table(columns, rows, right=right), file=file, flush=True)


def format_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[bool] | None = None) -> str:
    """A table as plain text, each row one whole line. Wide scripts (Chinese, Japanese) are aligned by their width.

    Args:
        columns: The header of each column.
        rows: The cells of each row, as many as there are columns.
        right: Which columns are right-aligned; by default all but the first.
    """
    from rich.console import Console

    text = StringIO()
    console = Console(file=text, width=WIDE, color_system=None, force_terminal=False, legacy_windows=False)
    console.print(_rich_table(columns, rows, right, whole_lines=True), crop=False)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def _rich_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool] | None, *, whole_lines: bool
) -> Table:
    from rich.table import Table
    from rich.text import Text

    right = right if right is not None else [False, *[True] * (len(columns) - 1)]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    for column, is_right in zip(columns, right, strict=True):
        table.add_column(Text(column), justify="right" if is_right else "left", no_wrap=whole_lines, overflow="fold")
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(f"a row has {len(row)} cells, the table {len(columns)} columns: {list(row)}")
        table.add_row(*map(Text, row))
    return table
