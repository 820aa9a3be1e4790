"""Small multiples: panels that share their axes, and one legend for all of them.

Lengths are in inches and font sizes in points, 72 to the inch, as in matplotlib. A figure of one panel is legible on
half a slide.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from regard.errors import printable
from regard.plotting.figures import ems, fonts, literal
from regard.plotting.symbols import Formula, figure_text, mathtext

TYPE = 13.0
MOST_COLUMNS = 3
LONGEST_TEXT = 56  # characters of a label
LONGEST_LINE = 28
FOOT = 0.75  # below the panels, for the numbers and the name of their axis


def distinct(names: Iterable[str]) -> list[str]:
    """The distinct names in order of appearance.

    Args:
        names: Names, some of them repeated.
    """
    return list(dict.fromkeys(names))


def truncate(text: str, longest: int) -> str:
    """The printable text. If it is too long, its middle is cut: such names often differ at their ends.

    Args:
        text: The text.
        longest: Largest number of characters.
    """
    text = printable(text)
    head = (longest - 1) * 3 // 5
    return text if len(text) <= longest else text[:head] + "…" + text[head + 1 - longest :]


def fold(texts: Sequence[str], lines: int = 2) -> list[str]:
    """The texts on one line or two, truncated, but not so far that two of them become equal.

    Args:
        texts: The texts.
        lines: 1 or 2 lines.
    """
    for longest in (LONGEST_TEXT, 4 * LONGEST_TEXT):
        short = [truncate(text, longest) for text in texts]
        if len(set(short)) == len(set(texts)):
            break
    return short if lines == 1 else [_break(text) for text in short]


def _break(text: str) -> str:
    """Two lines of about the same length, split at a space, preferably after a comma."""
    if len(text) <= LONGEST_LINE:
        return text
    half = len(text) // 2
    costs = {i: abs(i - half) + (0 if text[i - 1] in ",;:" else 5) for i, c in enumerate(text) if c == " "}
    split = min(costs, key=lambda i: costs[i], default=half)
    if costs.get(split, half) > half // 2:  # there is hardly a space
        split = half
    return f"{text[:split].rstrip()}\n{text[split:].lstrip()}"


def text_width(texts: Iterable[str]) -> float:
    """The approximate width of the widest line of these texts, in inches.

    Args:
        texts: Texts of one or several lines.
    """
    return max((TYPE / 72 * ems(line) for text in texts for line in text.splitlines()), default=0.0)


@dataclass(frozen=True)
class PanelLayout:
    """Positions of all parts: equal panels in a grid, with space around and between them.

    All of it is computed, because a layout engine moves things a little each time that a figure is drawn. A legend is
    put beside or below: what is beyond the figure's edge widens it when it is saved.

    Args:
        panels: Names of the panels.
        panel_width: Width of a panel.
        panel_height: Height of a panel.
        left: Space to the left of the panels.
        right: Space to the right of each panel.
    """

    panels: Sequence[str]
    panel_width: float
    panel_height: float
    left: float
    right: float

    @property
    def rows(self) -> int:
        return ceil(len(self.panels) / MOST_COLUMNS)

    @property
    def columns(self) -> int:
        return ceil(len(self.panels) / self.rows)  # four panels are two above two, not three above one

    @property
    def top(self) -> float:
        """Above each panel, for its name."""
        return 0.4 if any(self.panels) else 0.1

    @property
    def between(self) -> float:
        """From one row of panels to the next, with room for the numbers of a panel that has none below."""
        return self.top + (0.3 if len(self.panels) % self.columns else 0)

    @property
    def grid_width(self) -> float:
        return self.columns * (self.panel_width + self.right) - self.right

    @property
    def grid_height(self) -> float:
        return self.rows * (self.panel_height + self.between) - self.between

    @property
    def width(self) -> float:
        return self.left + self.grid_width + self.right

    @property
    def height(self) -> float:
        return self.top + self.grid_height + FOOT

    def fraction(self, x: float, y: float) -> tuple[float, float]:
        """A point as fractions of the figure's size.

        Args:
            x: Inches from the left edge.
            y: Inches from the upper edge.
        """
        return x / self.width, 1 - y / self.height

    def start(self, share_x: bool = True) -> tuple[Figure, dict[str, Axes]]:
        """The figure with its panels, which are empty and share both axes.

        Args:
            share_x: Whether all panels have the same x axis; False: each has its own, with its own numbers.
        """
        figure = Figure(figsize=(self.width, self.height))
        left, top = self.fraction(self.left, self.top)
        right, bottom = self.fraction(self.left + self.grid_width, self.top + self.grid_height)
        gaps = self.right / self.panel_width, self.between / self.panel_height
        figure.subplots_adjust(left, bottom, right, top, *gaps)
        grid = figure.subplots(self.rows, self.columns, sharex=share_x, sharey=True, squeeze=False).flatten()
        for spare in grid[len(self.panels) :]:
            spare.remove()
        for number, (panel, axes) in enumerate(zip(self.panels, grid, strict=False)):
            axes.set_title(truncate(panel, int(9 * self.panel_width)), loc="left", fontsize=TYPE, **literal())
            axes.tick_params(which="both", labelsize=TYPE - 1, length=0, pad=6)
            axes.tick_params(which="both", labelbottom=not share_x or number + self.columns >= len(self.panels))
            axes.spines[["top", "right"]].set_visible(False)
            axes.set_axisbelow(True)
        return figure, dict(zip(self.panels, grid, strict=False))

    def name_axes(self, figure: Figure, x_label: str, y_label: str = "") -> None:
        """Label both axes, once, in the middle of all panels.

        Args:
            figure: The figure.
            x_label: Label of the x axis.
            y_label: Label of the y axis.
        """
        x, y = self.left + self.grid_width / 2, self.top + self.grid_height / 2
        text, style = figure_text(x_label)
        figure.text(*self.fraction(x, self.height - 0.36), text, ha="center", va="top", fontsize=TYPE, **style)
        if y_label:
            text, style = figure_text(y_label)
            position = self.fraction(0.05, y)
            figure.text(*position, text, rotation=90, ha="left", va="center", fontsize=TYPE, **style)

    def add_legend(
        self, figure: Figure, keys: Sequence[tuple[Line2D, str]], down: float = 0, handle: float = 2.6
    ) -> float:
        """Add a legend below the panels, in one line or in columns, and return its height.

        Args:
            figure: The figure.
            keys: Lines and labels.
            down: Distance below the panels.
            handle: Length of a line.
        """
        labels = fold([label for _, label in keys])
        room, sizes = self.left + self.grid_width, [text_width([label]) + 0.6 for label in labels]
        columns = len(keys) if sum(sizes) <= room else max(1, int(room / max(sizes)))
        _draw_legend(figure, keys, labels, self.fraction(0.1, self.height + 0.05 + down), columns, handle)
        lines = max(label.count("\n") + 1 for label in labels)
        return ceil(len(keys) / columns) * (1.25 * lines + 0.5) * TYPE / 72

    def add_legend_beside(self, figure: Figure, keys: Sequence[tuple[Line2D, str]]) -> None:
        """Add a legend to the right of the panels.

        Args:
            figure: The figure.
            keys: Lines and labels.
        """
        _draw_legend(figure, keys, fold([label for _, label in keys]), self.fraction(self.width, self.top), 1, 2.6)


def _draw_legend(
    figure: Figure,
    keys: Sequence[tuple[Line2D, str]],
    labels: Sequence[str],
    position: tuple[float, float],
    columns: int,
    handle: float,
) -> None:
    legend = figure.legend(
        [line for line, _ in keys],
        labels,
        loc="upper left",
        bbox_to_anchor=position,
        ncols=columns,
        frameon=False,
        borderaxespad=0,
        borderpad=0,
        columnspacing=1.5,
        handlelength=handle,
        prop={"family": fonts(), "size": TYPE},
    )
    for text, (_, label) in zip(legend.get_texts(), keys, strict=True):
        text.set_parse_math(isinstance(label, Formula))
        if isinstance(label, Formula):
            text.set_text(mathtext(label))
