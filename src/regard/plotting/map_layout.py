"""The layout of attention maps. Lengths are in inches and font sizes in points, 72 to the inch, as in matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from regard.plotting.figures import ems

LARGEST_CELL = 0.36
SMALLEST_CELL = 0.1  # below this its label could not be read, so only some are labeled
USUAL_SIDE = 10.0  # cells shrink to keep the maps this wide and high ...
LARGEST_SIDE = 24.0  # ... and, from the smallest cell on, the maps grow up to this


@dataclass(frozen=True)
class MapLayout:
    """Positions of all parts: maps in a grid, labels above and to the left of it, the color bar to its right.

    Args:
        rows: Rows of maps.
        columns: Columns of maps.
        cell: Side of a cell.
        map_width: Width of a map.
        map_height: Height of a map.
        gap: Horizontal space between maps.
        foot: Space below each map, for its name.
        left: Space for the labels of the rows.
        top: Space for the labels of the columns.
        slanted: Whether source labels are slanted; single characters are upright.
        type_size: Font size of tokens.
        caption: Font size of all other text.
    """

    rows: int
    columns: int
    cell: float
    map_width: float
    map_height: float
    gap: float
    foot: float
    left: float
    top: float
    slanted: bool
    type_size: float
    caption: float

    @classmethod
    def fit(cls, source: Sequence[str], target: Sequence[str], lead: Sequence[int]) -> MapLayout:
        """The layout with the largest cells that keep the figure at a usual size, or else at the largest size.

        Args:
            source: Labels of the source tokens.
            target: Labels of the output tokens.
            lead: Sizes of the leading axes of the weights.
        """
        count = int(np.prod(lead))
        columns = lead[-1] if len(lead) > 1 else min(count, 4)
        rows = ceil(count / columns)
        longest = max(columns * len(source), rows * len(target))
        cell = min(LARGEST_CELL, max(USUAL_SIDE / longest, SMALLEST_CELL), LARGEST_SIDE / longest)
        map_width, map_height = cell * len(source), cell * len(target)
        type_size = 72 * 0.58 * max(cell, SMALLEST_CELL)
        caption = 9 + 0.4 * cell * longest
        em, line = type_size / 72, (1.4 * caption + 8) / 72
        slanted = sum(ems(text) > 1.5 for text in source) > len(source) / 2
        tallest = max(map(ems, source))
        if slanted:
            tallest = 0.71 * (tallest + 1)  # the height of a box on its corner
        return cls(
            rows=rows,
            columns=columns,
            cell=cell,
            map_width=map_width,
            map_height=map_height,
            gap=0.3,
            foot=line + 0.15 if lead else 0,
            left=em * max(map(ems, target)) + line,
            top=em * max(tallest, 1.2) + line,
            slanted=slanted,
            type_size=type_size,
            caption=caption,
        )

    @property
    def grid_width(self) -> float:
        return self.columns * self.map_width + (self.columns - 1) * self.gap

    @property
    def grid_height(self) -> float:
        return self.rows * (self.map_height + self.foot)

    @property
    def width(self) -> float:
        return self.left + self.grid_width + 1.2  # the color bar and its labels

    @property
    def height(self) -> float:
        return self.top + self.grid_height + 0.6  # the title

    def map_position(self, row: int, column: int) -> tuple[float, float, float, float]:
        """Left, bottom, width and height of one map, as fractions of the figure's size.

        Args:
            row: Row of the map.
            column: Column of the map.
        """
        x = self.left + column * (self.map_width + self.gap)
        y = self.grid_height - self.map_height - row * (self.map_height + self.foot)
        return x / self.width, y / self.height, self.map_width / self.width, self.map_height / self.height

    def scale_position(self) -> tuple[float, float, float, float]:
        height = float(np.clip(self.grid_height, 1.2, 4))
        x, y = self.left + self.grid_width + 0.2, (self.grid_height + self.foot - height) / 2
        return x / self.width, y / self.height, 0.15 / self.width, height / self.height

    def title_position(self) -> tuple[float, float]:
        return self.left / self.width, (self.grid_height + self.top + 0.15) / self.height
