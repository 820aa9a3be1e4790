"""Grids of numbers, one for each step of a computation, in the order in which they are computed.

Lengths are in inches and font sizes in points, 72 to the inch, as in matplotlib.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.path import Path
from numpy.typing import NDArray

from regard.plotting.figures import ems, literal
from regard.plotting.palette import BLACK, GRAY, SIGNED_COLORMAP, VERMILION
from regard.plotting.panels import TYPE, truncate
from regard.plotting.symbols import Formula, figure_text

SMALL_TYPE = 7.0  # for grids that would be too large otherwise
MOST_LARGE_ROWS = 20
MOST_NUMBERED_COLUMNS = 12  # in wider grids only the tints are seen ...
LARGEST_SIDE = 4.0  # ... in cells that keep the grid this wide and high
LONGEST_NAME = 28  # characters of a row's or a column's name
USUAL_WIDTH = 15.0  # grids that would go beyond this begin a new line
GAP = 0.55
EDGE = 0.03  # half of a line is drawn beyond its cell
ARROW_ROOM = 0.36  # between the names of rows and the cells
BAR_WIDTH, BAR_HEIGHT = 1.3, 0.17  # of a color scale in the legend
LEGEND_GAP, LEGEND_LINE = 0.35, 0.34

Cell = tuple[int, int]  # row and column, from 0


@dataclass(frozen=True)
class ColorScale:
    """Which numbers have which color. Grids with equal scales are comparable.

    Args:
        name: What the numbers are, for the legend.
        limit: The distance from zero with the deepest color; None: the largest of all grids with this scale.
    """

    name: str = "all cells"
    limit: float | None = None


NUMBERS = ColorScale()


@dataclass(frozen=True)
class Grid:
    """One step of a computation: a matrix with its formula. A `Formula` is typeset, other text is drawn literally.

    Args:
        symbol: The symbol of the result.
        formula: The formula.
        numbers: The matrix.
        rows: Names of the rows.
        columns: Names of the columns.
        scale: The color scale of the cells; None: no colors, as the columns have different units.
        plain_columns: The number of columns at the end without colors, because they are another quantity.
        row_title: What the names of the rows are.
        outlined: Cells with a frame.
        bold: Cells with bold numbers.
        arrows: Cells from which an arrow leads to the name of the next row.
    """

    symbol: str
    formula: str
    numbers: Sequence[Sequence[float]]
    rows: Sequence[str]
    columns: Sequence[str]
    scale: ColorScale | None = NUMBERS
    plain_columns: int = 0
    row_title: str = ""
    outlined: Sequence[Cell] = ()
    bold: Sequence[Cell] = ()
    arrows: Sequence[Cell] = ()

    @property
    def colored(self) -> NDArray[np.floating]:
        """The numbers in colored columns."""
        numbers = np.asarray(self.numbers, dtype=float)
        return numbers[:, : numbers.shape[1] - self.plain_columns]


def draw_matrix_steps(groups: Sequence[Sequence[Grid]], format_value: Callable[[float], str], key: str = "") -> Figure:
    """The grids from left to right, each group on a new line; below them the color scales.

    Args:
        groups: The grids of each group.
        format_value: Formats a number.
        key: What frames, bold numbers and arrows mean; drawn below.
    """
    lines = [line for group in groups for line in _wrap_boxes([MatrixBox.around(grid, format_value) for grid in group])]
    lines = _align(lines)
    scales = ScaleEntry.of_grids([grid for group in groups for grid in group], format_value)
    width = max(_width(line) for line in lines)
    grids_height = sum(max(box.height for box in line) + GAP for line in lines) - GAP
    height = grids_height + (LEGEND_GAP if scales or key else 0) + LEGEND_LINE * (len(scales) + bool(key))
    figure = Figure(figsize=(width + 2 * EDGE, height + 2 * EDGE))
    sheet = figure.add_axes((0, 0, 1, 1))  # all of the figure, measured in inches from its upper left corner
    sheet.axis("off")
    top = 0.0
    for line in lines:
        left = 0.0
        for box in line:
            _draw_matrix(sheet, box, left, top, {entry.scale: entry.limit for entry in scales})
            left += box.width + GAP
        top += max(box.height for box in line) + GAP
    if scales:
        _draw_scales(sheet, scales, grids_height + LEGEND_GAP)
    if key:
        text, style = figure_text(key)
        sheet.text(0, height - LEGEND_LINE / 2, text, fontsize=TYPE - 1, color=GRAY, va="center_baseline", **style)
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
        left: Room for the names of the rows, and for arrows to them.
        cell_width: Width of a cell.
        cell_height: Height of a cell.
    """

    grid: Grid
    texts: list[list[str]]
    rows: list[str]
    columns: list[str]
    size: float
    left: float
    cell_width: float
    cell_height: float

    @classmethod
    def around(cls, grid: Grid, format_value: Callable[[float], str]) -> MatrixBox:
        rows, columns = ([_shorten(name) for name in names] for names in (grid.rows, grid.columns))
        if len(columns) > MOST_NUMBERED_COLUMNS:
            cell = min(2 * SMALL_TYPE / 72, LARGEST_SIDE / max(len(rows), len(columns)))
            return cls(grid, [], rows, columns, SMALL_TYPE, _row_room(grid, rows, SMALL_TYPE), cell, cell)
        size = TYPE if len(rows) <= MOST_LARGE_ROWS else SMALL_TYPE
        texts = [[format_value(number) for number in row] for row in grid.numbers]
        widest = max(ems(text) for row in [columns, *texts] for text in row)
        cell = max(3.2, widest + 0.9) * size / 72
        return cls(grid, texts, rows, columns, size, _row_room(grid, rows, size), cell, 2 * size / 72)

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


def _row_room(grid: Grid, rows: Sequence[str], size: float) -> float:
    """Room for the names of the rows with their title, and for arrows."""
    return (max(map(ems, [*rows, grid.row_title])) + 0.6) * size / 72 + ARROW_ROOM * bool(grid.arrows)


def _width(line: Sequence[MatrixBox]) -> float:
    return sum(box.width + GAP for box in line) - GAP


def _align(lines: list[list[MatrixBox]]) -> list[list[MatrixBox]]:
    """If single grids with the same columns are below each other, each column at the same x."""
    boxes = [line[0] for line in lines]
    if any(len(line) > 1 for line in lines) or any(box.columns != boxes[0].columns for box in boxes):
        return lines
    left, cell = max(box.left for box in boxes), max(box.cell_width for box in boxes)
    return [[replace(box, left=left, cell_width=cell)] for box in boxes]


@dataclass(frozen=True)
class ScaleEntry:
    """A color scale in the legend: its name, and a bar between two numbers.

    Args:
        scale: The scale.
        limit: The distance from zero with the deepest color.
        low: The number at the left end, 0 or −limit.
        high: The number at the right end.
    """

    scale: ColorScale
    limit: float
    low: str
    high: str

    @classmethod
    def of_grids(cls, grids: Iterable[Grid], format_value: Callable[[float], str]) -> list[ScaleEntry]:
        """The scales of these grids, in the order of their first use.

        Args:
            grids: The grids.
            format_value: Formats a number.
        """
        numbers: dict[ColorScale, list[NDArray[np.floating]]] = {}
        for grid in grids:
            if grid.scale is not None:
                numbers.setdefault(grid.scale, []).append(grid.colored.flatten())
        entries = []
        for scale, parts in numbers.items():
            values = np.concatenate(parts)
            limit = scale.limit or float(np.abs(values).max()) or 1.0
            low = format_value(-limit) if values.min() < 0 else "0"
            entries.append(cls(scale, limit, low, format_value(limit)))
        return entries


def _draw_scales(sheet: Axes, entries: Sequence[ScaleEntry], top: float) -> None:
    """A line for each scale: a bar between the numbers at its ends, then the name."""
    text: dict[str, Any] = {"fontsize": TYPE - 1, "color": GRAY, "va": "center_baseline"}
    em = (TYPE - 1) / 72
    bar = max(ems(entry.low) for entry in entries) * em + 0.4 * em
    name = bar + BAR_WIDTH + (max(ems(entry.high) for entry in entries) + 1.4) * em
    for number, entry in enumerate(entries):
        middle = top + LEGEND_LINE * (number + 0.5)
        sheet.text(bar - 0.4 * em, middle, entry.low, ha="right", **text, **literal())
        sheet.text(bar + BAR_WIDTH + 0.4 * em, middle, entry.high, **text, **literal())
        label, style = figure_text(entry.scale.name)
        sheet.text(name, middle, label, **text, **style)
        extent = (bar, bar + BAR_WIDTH, middle + BAR_HEIGHT / 2, middle - BAR_HEIGHT / 2)
        colors = np.linspace(0 if entry.low == "0" else -1, 1, 129)[None]
        sheet.imshow(colors, cmap=SIGNED_COLORMAP, vmin=-1, vmax=1, extent=extent, aspect="auto")
        sheet.add_patch(Rectangle((bar, extent[3]), BAR_WIDTH, BAR_HEIGHT, fill=False, edgecolor="0.75", linewidth=0.8))


def _wrap_boxes(boxes: Sequence[MatrixBox]) -> list[list[MatrixBox]]:
    """As many boxes on a line as it is wide, and at least one."""
    lines: list[list[MatrixBox]] = [[]]
    for box in boxes:
        if lines[-1] and _width([*lines[-1], box]) > USUAL_WIDTH:
            lines.append([])
        lines[-1].append(box)
    return lines


def _draw_matrix(sheet: Axes, box: MatrixBox, left: float, top: float, limits: Mapping[ColorScale, float]) -> None:
    """Symbol and formula, below them the names of the columns, and to the left of the cells those of the rows."""
    heading: dict[str, Any] = {"ha": "left", "va": "top"}
    symbol, style = figure_text(box.grid.symbol)
    sheet.text(left, top, symbol, fontsize=TYPE + 4, **heading, **style)
    formula, style = figure_text(box.grid.formula)
    sheet.text(left, top + 0.33, formula, fontsize=TYPE - 1, color="0.25", **heading, **style)
    x = left + box.left + box.cell_width * np.arange(len(box.columns) + 1)  # the edges of the cells
    y = top + box.top + box.cell_height * np.arange(len(box.rows) + 1)
    _draw_matrix_cells(sheet, box, x, y, limits)
    _draw_marks(sheet, box, x, y)
    label: dict[str, Any] = {"fontsize": box.size, "color": GRAY}
    em = box.size / 72
    names = x[0] - 0.4 * em - ARROW_ROOM * bool(box.grid.arrows)
    if box.grid.row_title:
        sheet.text(names, y[0] - 0.3 * em, box.grid.row_title, ha="right", va="baseline", **label, **literal())
    for position, name in _labels_that_fit(y, box.rows, 1.3 * em):
        text, style = figure_text(name)
        sheet.text(names, position, text, ha="right", va="center_baseline", **label, **style)
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


def _draw_matrix_cells(
    sheet: Axes,
    box: MatrixBox,
    x: NDArray[np.floating],
    y: NDArray[np.floating],
    limits: Mapping[ColorScale, float],
) -> None:
    colored = box.grid.colored
    tints = np.zeros((len(box.rows), len(box.columns)))
    if box.grid.scale is not None:
        tints[:, : colored.shape[1]] = colored / limits[box.grid.scale]
    lines: dict[str, Any] = {"edgecolors": "0.75", "linewidth": 0.8} if box.texts else {}
    sheet.pcolormesh(x, y, tints, cmap=SIGNED_COLORMAP, vmin=-1, vmax=1, **lines)
    for r, texts in enumerate(box.texts):  # there are none where cells are too small
        for c, text in enumerate(texts):
            weight = "bold" if (r, c) in box.grid.bold else "normal"
            style: dict[str, Any] = {"fontsize": box.size, "fontweight": weight, **literal()}
            sheet.text(_middles(x)[c], _middles(y)[r], text, ha="center", va="center_baseline", **style)


def _draw_marks(sheet: Axes, box: MatrixBox, x: NDArray[np.floating], y: NDArray[np.floating]) -> None:
    """Frames inside cells; arrows along the line below a cell to the name of the next row, where cells have numbers."""
    inset = 0.025 if box.texts else 0.0
    for r, c in box.grid.outlined:
        size = box.cell_width - 2 * inset, box.cell_height - 2 * inset
        corner = x[c] + inset, y[r] + inset
        sheet.add_patch(Rectangle(corner, *size, fill=False, edgecolor=BLACK, linewidth=2))
    for r, c in box.grid.arrows if box.texts else ():
        start, turn, end = _middles(x)[c], x[0] - 0.4 * ARROW_ROOM, x[0] - ARROW_ROOM
        line, name = y[r + 1], _middles(y)[r + 1]
        path = Path([(start, line - 0.06), (start, line), (turn, line), (turn, name), (end, name)])
        sheet.add_patch(
            FancyArrowPatch(path=path, arrowstyle="-|>", mutation_scale=11, color=VERMILION, linewidth=1.8, fill=False)
        )
