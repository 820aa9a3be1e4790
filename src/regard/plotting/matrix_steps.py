"""Grids of numbers, one for each step of a computation, in the order in which they are computed.

Lengths are in inches and font sizes in points, 72 to the inch, as in matplotlib.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from regard.plotting.figures import ems, literal
from regard.plotting.palette import GRAY, SIGNED_COLORMAP
from regard.plotting.panels import TYPE, truncate
from regard.plotting.symbols import Formula, figure_text

SMALL_TYPE = 7.0  # for grids that would be too large otherwise
MOST_LARGE_ROWS = 20
MOST_NUMBERED_COLUMNS = 12  # in wider grids only the tints are seen ...
LARGEST_SIDE = 4.0  # ... in cells that keep the grid this wide and high
LONGEST_NAME = 28  # characters of a row's or a column's name
USUAL_WIDTH = 14.0  # grids that would go beyond this begin a new line
GAP = 0.55
EDGE = 0.03  # half of a line is drawn beyond its cell


@dataclass(frozen=True)
class Grid:
    """One step of a computation: a matrix with its formula. A `Formula` is typeset, other text is drawn literally.

    Args:
        symbol: The symbol of the result.
        formula: The formula.
        numbers: The matrix.
        rows: Names of the rows.
        columns: Names of the columns.
        tinted: Whether cells are colored; False where columns have different units.
    """

    symbol: str
    formula: str
    numbers: Sequence[Sequence[float]]
    rows: Sequence[str]
    columns: Sequence[str]
    tinted: bool = True


def draw_matrix_steps(groups: Sequence[Sequence[Grid]], format_value: Callable[[float], str]) -> Figure:
    """The grids from left to right, each group on a new line.

    Args:
        groups: The grids of each group.
        format_value: Formats a number.
    """
    lines = [line for group in groups for line in _wrap_boxes([MatrixBox.around(grid, format_value) for grid in group])]
    width = max(_width(line) for line in lines)
    height = sum(max(box.height for box in line) + GAP for line in lines) - GAP
    figure = Figure(figsize=(width + 2 * EDGE, height + 2 * EDGE))
    sheet = figure.add_axes((0, 0, 1, 1))  # all of the figure, measured in inches from its upper left corner
    sheet.axis("off")
    top = 0.0
    for line in lines:
        left = 0.0
        for box in line:
            _draw_matrix(sheet, box, left, top)
            left += box.width + GAP
        top += max(box.height for box in line) + GAP
    sheet.set(xlim=(-EDGE, width + EDGE), ylim=(height + EDGE, -EDGE))
    return figure


@dataclass(frozen=True)
class MatrixBox:
    """A grid with its texts as they are drawn, and the space that they need.

    Args:
        grid: The grid.
        texts: The numbers as text; empty if the cells are too small for them.
        rows: Names of the rows.
        columns: Names of the columns.
        size: Font size in and around the cells.
        cell_width: Width of a cell.
        cell_height: Height of a cell.
    """

    grid: Grid
    texts: list[list[str]]
    rows: list[str]
    columns: list[str]
    size: float
    cell_width: float
    cell_height: float

    @classmethod
    def around(cls, grid: Grid, format_value: Callable[[float], str]) -> MatrixBox:
        rows, columns = ([_shorten(name) for name in names] for names in (grid.rows, grid.columns))
        if len(columns) > MOST_NUMBERED_COLUMNS:
            cell = min(2 * SMALL_TYPE / 72, LARGEST_SIDE / max(len(rows), len(columns)))
            return cls(grid, [], rows, columns, SMALL_TYPE, cell, cell)
        size = TYPE if len(rows) <= MOST_LARGE_ROWS else SMALL_TYPE
        texts = [[format_value(number) for number in row] for row in grid.numbers]
        widest = max(ems(text) for row in [columns, *texts] for text in row)
        return cls(grid, texts, rows, columns, size, max(3.2, widest + 0.9) * size / 72, 2 * size / 72)

    @property
    def left(self) -> float:
        """Room for the names of the rows."""
        return (max(map(ems, self.rows)) + 0.6) * self.size / 72

    @property
    def top(self) -> float:
        """Room for the symbol, the formula and the names of the columns."""
        return 0.58 + 1.6 * self.size / 72

    @property
    def width(self) -> float:
        heading = max(ems(self.grid.symbol) * (TYPE + 3), ems(self.grid.formula) * 0.85 * TYPE) / 72
        return max(heading, self.left + self.cell_width * len(self.columns))

    @property
    def height(self) -> float:
        return self.top + self.cell_height * len(self.rows)


def _width(line: Sequence[MatrixBox]) -> float:
    return sum(box.width + GAP for box in line) - GAP


def _wrap_boxes(boxes: Sequence[MatrixBox]) -> list[list[MatrixBox]]:
    """As many boxes on a line as it is wide, and at least one."""
    lines: list[list[MatrixBox]] = [[]]
    for box in boxes:
        if lines[-1] and _width([*lines[-1], box]) > USUAL_WIDTH:
            lines.append([])
        lines[-1].append(box)
    return lines


def _draw_matrix(sheet: Axes, box: MatrixBox, left: float, top: float) -> None:
    """Symbol and formula, below them the names of the columns, and to the left of the cells those of the rows."""
    heading: dict[str, Any] = {"ha": "left", "va": "top"}
    symbol, style = figure_text(box.grid.symbol)
    sheet.text(left, top, symbol, fontsize=TYPE + 4, **heading, **style)
    formula, style = figure_text(box.grid.formula)
    sheet.text(left, top + 0.33, formula, fontsize=TYPE - 1, color="0.25", **heading, **style)
    x = left + box.left + box.cell_width * np.arange(len(box.columns) + 1)  # the edges of the cells
    y = top + box.top + box.cell_height * np.arange(len(box.rows) + 1)
    _draw_matrix_cells(sheet, box, x, y)
    label: dict[str, Any] = {"fontsize": box.size, "color": GRAY}
    em = box.size / 72
    for position, name in _labels_that_fit(y, box.rows, 1.3 * em):
        text, style = figure_text(name)
        sheet.text(x[0] - 0.4 * em, position, text, ha="right", va="center_baseline", **label, **style)
    for position, name in _labels_that_fit(x, box.columns, max(map(ems, box.columns)) * em):
        text, style = figure_text(name)
        sheet.text(position, y[0] - 0.3 * em, text, ha="center", va="baseline", **label, **style)


def _shorten(name: str) -> str:
    return name if isinstance(name, Formula) else truncate(name, LONGEST_NAME)


def _labels_that_fit(edges: NDArray[np.floating], names: Sequence[str], room: float) -> list[tuple[float, str]]:
    """The middle of each cell and its name; only each second, third … where a name needs more room than a cell has."""
    return list(zip(_middles(edges), names, strict=True))[:: ceil(room / (edges[1] - edges[0]))]


def _middles(edges: NDArray[np.floating]) -> NDArray[np.floating]:
    return (edges[:-1] + edges[1:]) / 2


def _draw_matrix_cells(sheet: Axes, box: MatrixBox, x: NDArray[np.floating], y: NDArray[np.floating]) -> None:
    numbers = np.asarray(box.grid.numbers, dtype=float)
    largest = np.abs(numbers).max() or 1
    tints = numbers / largest if box.grid.tinted else np.zeros_like(numbers)
    lines: dict[str, Any] = {"edgecolors": "0.75", "linewidth": 0.8} if box.texts else {}
    sheet.pcolormesh(x, y, tints, cmap=SIGNED_COLORMAP, vmin=-1, vmax=1, **lines)
    for down, row in zip(_middles(y), box.texts, strict=False):  # there are none where cells are too small
        for right, text in zip(_middles(x), row, strict=True):
            sheet.text(right, down, text, fontsize=box.size, ha="center", va="center_baseline", **literal())
