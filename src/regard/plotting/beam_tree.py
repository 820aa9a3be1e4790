"""A beam search as a tree: the hypotheses that each step kept, those that it pruned, and the one that ranks first.

Every step is a column, and better hypotheses are above worse ones. A tree that is too large for a slide is folded:
steps in the middle and hypotheses at the bottom are replaced by their number. Lengths are in ems, the font size of a
token; widths of lines are in points.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Protocol

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch, Patch, PathPatch
from matplotlib.path import Path

from regard.errors import printable
from regard.plotting.attention_map import token_label
from regard.plotting.figures import ems, literal, message_figure
from regard.plotting.palette import BLACK, BLUE, GRAY, GREEN, VERMILION

Position = tuple[float, float]  # column and row

START: Position = (0, 0)  # of the empty hypothesis
EM = 11.5 / 72  # inches; scores are 0.7 em, which is more than 8 points
MAX_WIDTH = 10.0  # inches; steps that do not fit are folded
MAX_BEAM_ROWS = 6  # hypotheses of a step that are drawn, besides pruned ones
MAX_PRUNED_ROWS = 3
BOX_HEIGHT = 2.4
ROW_HEIGHT = 3.4
ABOVE_PRUNED = 0.3  # rows


class TreeNode(Protocol):
    """A hypothesis, represented by its last token."""

    @property
    def length(self) -> int: ...  # in tokens: the step at which it was considered, from 1
    @property
    def parent(self) -> int | None: ...  # index of the node that it extends; None: the empty hypothesis
    @property
    def label(self) -> str: ...  # the token as `token_labels` displays it, as in the attention map
    @property
    def score(self) -> float: ...
    @property
    def fate(self) -> str: ...  # one of `FATES`
    @property
    def rank(self) -> int | None: ...  # among the results, from 1; None: not a result


@dataclass(frozen=True)
class EdgeStyle:
    """The style of boxes and edges. Line, width and fill differ, too, for print and for color vision deficiencies."""

    meaning: str
    color: str
    line: str
    width: float
    fill: str = "white"
    text_color: str = BLACK

    def outline(self) -> dict[str, Any]:
        return {"edgecolor": self.color, "linestyle": self.line, "linewidth": self.width}


FATES = {
    "kept": EdgeStyle("kept", BLACK, "-", 1),
    "finished": EdgeStyle("finished", GREEN, "-", 2, fill="#BFE7DC"),
    "truncated": EdgeStyle("truncated", VERMILION, "-.", 2, fill="#FBE6D8"),
    "pruned": EdgeStyle("pruned", "0.65", "--", 0.9, text_color="0.5"),
}
PATH_TO_BEST = EdgeStyle("path to #1", BLUE, "-", 3.5)
PATH_TO_RESULT = EdgeStyle("path to other results", BLACK, "-", 2)


def draw_beam_tree(nodes: Sequence[TreeNode], title: str | None = None) -> Figure:
    """The tree of a search, as `regard.search.build_tree` returns it; the path to the best result is bold.

    At most `MAX_BEAM_ROWS` hypotheses and `MAX_PRUNED_ROWS` pruned ones are drawn per step, and as many steps as fit
    into `MAX_WIDTH`: the first ones and the last ones.

    Args:
        nodes: Parents before their children, and better hypotheses before worse ones.
        title: Drawn above, literally.
    """
    if not nodes:
        return message_figure("no hypothesis was considered", title)
    ranks = best_ranks(nodes)
    legend = _legend_entries({node.fate for node in nodes}, set(ranks))
    rows = shown_rows(nodes, ranks)
    layout = TreeLayout.fit(nodes, rows, bool(title), len(legend))
    placed = ((index, layout.columns[nodes[index].length], row) for index, row in rows.items())
    positions: dict[int, Position] = {index: (column, row) for index, column, row in placed if column is not None}
    figure = Figure(figsize=layout.size)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(layout.left, layout.right), ylim=(layout.bottom, layout.top))
    axes.set_axis_off()
    _draw_box(axes, layout, START, PATH_TO_BEST if 1 in ranks else FATES["kept"], "start", "score")
    for index, position in positions.items():
        node, rank = nodes[index], ranks[index]
        _draw_edge(
            axes, layout, _parent_position(nodes, index, positions, layout), position, _edge_style(node.fate, rank)
        )
        _draw_box(axes, layout, position, _box_style(node.fate, rank), token_label(node.label), f"{node.score:z.2f}")
        if node.rank is not None:
            _draw_rank(axes, layout, position, node.rank)
    _draw_folds(axes, layout)
    _add_captions(axes, layout, title, legend)
    return figure


def _parent_position(
    nodes: Sequence[TreeNode], index: int, positions: dict[int, Position], layout: TreeLayout
) -> Position:
    """Where the edge to a node begins: at its parent, or at the fold that hides the parent."""
    parent = nodes[index].parent
    if parent is None:
        return START
    if parent in positions:
        return positions[parent]
    column = layout.columns[nodes[parent].length]
    return (positions[index][0] - 1, positions[index][1]) if column is None else (column, layout.fold_row)


def shown_rows(nodes: Sequence[TreeNode], ranks: Sequence[int | None]) -> dict[int, float]:
    """The row of each node that is drawn: the beam in its order, and below it what was pruned.

    Where a step has too many nodes, those that lead to a result are drawn first, then those with the best scores.
    """
    shown: list[int] = []
    for step in sorted({node.length for node in nodes}):
        for pruned, most in ((False, MAX_BEAM_ROWS), (True, MAX_PRUNED_ROWS)):
            group = [i for i, node in enumerate(nodes) if node.length == step and (node.fate == "pruned") == pruned]
            shown += sorted(sorted(group, key=lambda i: (ranks[i] is None, i))[:most])
    shown.sort()
    return dict(zip(shown, (row for _, row in arrange([nodes[index] for index in shown])), strict=True))


def arrange(nodes: Sequence[TreeNode]) -> list[Position]:
    """Step and row of each node: on top the beam, in its order, and below it what was pruned."""
    beam = max(Counter(node.length for node in nodes if node.fate != "pruned").values(), default=0)
    above: Counter[tuple[int, bool]] = Counter()
    positions: list[Position] = []
    for node in nodes:
        pruned = node.fate == "pruned"
        positions.append((node.length, above[node.length, pruned] + (beam + ABOVE_PRUNED if pruned else 0)))
        above[node.length, pruned] += 1
    return positions


def best_ranks(nodes: Sequence[TreeNode]) -> list[int | None]:
    """The best rank that each node leads to, its own or a descendant's; None: it leads to no result."""
    ranks = [node.rank for node in nodes]
    for index in reversed(range(len(nodes))):  # children come after their parents
        parent, rank = nodes[index].parent, ranks[index]
        if parent is not None and rank is not None:
            ranks[parent] = min(rank, ranks[parent] or rank)
    return ranks


@dataclass(frozen=True)
class TreeLayout:
    """Positions of all parts: from the top the title, the numbers of the steps, the tree, and the legend."""

    columns: dict[int, int | None]  # of each step; None: folded
    hidden: dict[int, int]  # number of nodes of a step that are not drawn
    rows: float
    box_width: float
    titled: bool
    entries: int  # of the legend

    @classmethod
    def fit(cls, nodes: Sequence[TreeNode], rows: dict[int, float], titled: bool, entries: int) -> TreeLayout:
        steps = max(node.length for node in nodes)
        hidden = Counter(node.length for index, node in enumerate(nodes) if index not in rows)
        labels = [token_label(nodes[index].label) for index in rows]
        box_width = max(*map(ems, labels), ems("<end>")) + 0.9
        height = 1 + max(rows.values()) + bool(hidden)
        layout = cls({step: step for step in range(steps + 1)}, dict(hidden), height, box_width, titled, entries)
        room = int((MAX_WIDTH / EM - layout.box_width - 1.2) / layout.column_width)  # columns after the first
        if steps <= room:
            return layout
        first = max(1, ceil((room - 1) / 2))
        last = max(1, room - 1 - first)
        columns: dict[int, int | None] = {step: step if step <= first else None for step in range(steps + 1)}
        columns |= {steps - back: first + 1 + last - back for back in range(last)}
        return cls(
            columns, {s: n for s, n in hidden.items() if columns[s] is not None}, height, box_width, titled, entries
        )

    @property
    def folded_steps(self) -> list[int]:
        return [step for step, column in self.columns.items() if column is None]

    @property
    def fold_column(self) -> int:
        """The column in place of the steps that are not drawn."""
        return self.folded_steps[0]

    @property
    def fold_row(self) -> float:
        """The row in place of the hypotheses that are not drawn."""
        return self.rows - 1

    @property
    def last_column(self) -> int:
        return max(column for column in self.columns.values() if column is not None)

    @property
    def column_width(self) -> float:
        return self.box_width + 1.5 + 0.12 * self.rows  # with many rows, edges would be steep

    @property
    def left(self) -> float:
        return -self.box_width / 2 - 0.2

    @property
    def right(self) -> float:
        return self.last_column * self.column_width + self.box_width / 2 + 1  # room for a rank

    @property
    def top(self) -> float:
        return -BOX_HEIGHT / 2 - 2 - 2 * self.titled

    @property
    def foot(self) -> float:
        """The upper edge of the legend."""
        return (self.rows - 1) * ROW_HEIGHT + BOX_HEIGHT / 2 + 1.2

    @property
    def entries_in_line(self) -> int:
        return max(1, int((self.right - self.left) / 15))

    @property
    def bottom(self) -> float:
        return self.foot + 1.6 * ceil(self.entries / self.entries_in_line)

    @property
    def size(self) -> tuple[float, float]:
        return EM * (self.right - self.left), EM * (self.bottom - self.top)  # inches

    def center(self, position: Position) -> tuple[float, float]:
        """The center of a box; that of the empty hypothesis is (0, 0)."""
        column, row = position
        return column * self.column_width, row * ROW_HEIGHT

    def points(self, ems: float) -> float:
        return 72 * EM * ems


def _draw_folds(axes: Axes, layout: TreeLayout) -> None:
    """How many steps and hypotheses are not drawn."""
    style: dict[str, Any] = {"ha": "center", "va": "center", "color": GRAY, "fontsize": layout.points(0.9)}
    for step, count in layout.hidden.items():
        column = layout.columns[step]
        if column is not None:
            axes.text(*layout.center((column, layout.fold_row)), f"… {count} more", **style)
    if layout.folded_steps:
        count = len(layout.folded_steps)
        text = f"… {count} more\n{'step' if count == 1 else 'steps'}"
        x, y = layout.center((layout.fold_column, 0))
        axes.text(x, y - BOX_HEIGHT / 2 - 1, "…", ha="center", color=GRAY, fontsize=layout.points(0.9))
        axes.text(x, (layout.rows - 1) * ROW_HEIGHT / 2, text, **style)


def _edge_style(fate: str, rank: int | None) -> EdgeStyle:
    if rank is not None:
        return PATH_TO_BEST if rank == 1 else PATH_TO_RESULT
    return FATES["pruned" if fate == "pruned" else "kept"]


def _box_style(fate: str, rank: int | None) -> EdgeStyle:
    return PATH_TO_BEST if rank == 1 and fate == "kept" else FATES[fate]


def _draw_edge(axes: Axes, layout: TreeLayout, parent: Position, child: Position, look: EdgeStyle) -> None:
    """From the right of the parent to the left of the child: between columns there are no boxes."""
    (x0, y0), (x1, y1) = layout.center(parent), layout.center(child)
    x0, x1 = x0 + layout.box_width / 2, x1 - layout.box_width / 2
    middle = (x0 + x1) / 2
    curve = Path([(x0, y0), (middle, y0), (middle, y1), (x1, y1)], [Path.MOVETO, *[Path.CURVE4] * 3])
    # Stronger edges are above weaker ones.
    axes.add_patch(PathPatch(curve, fill=False, zorder=look.width, **look.outline()))


def _draw_box(axes: Axes, layout: TreeLayout, position: Position, look: EdgeStyle, token: str, score: str) -> None:
    x, y = layout.center(position)
    corner = (x - layout.box_width / 2, y - BOX_HEIGHT / 2)
    box = FancyBboxPatch(corner, layout.box_width, BOX_HEIGHT, **look.outline())
    box.set(facecolor=look.fill, boxstyle="round,pad=0,rounding_size=0.5", zorder=5)
    axes.add_patch(box)
    style: dict[str, Any] = {"ha": "center", "va": "center_baseline", "color": look.text_color, "zorder": 6}
    axes.text(x, y - 0.4, token, fontsize=layout.points(1), **style, **literal())
    axes.text(x, y + 0.65, score, fontsize=layout.points(0.7), **style)


def _draw_rank(axes: Axes, layout: TreeLayout, position: Position, rank: int) -> None:
    """A badge on the upper right corner of the box."""
    x, y = layout.center(position)
    badge = {"boxstyle": "round,pad=0.25", "facecolor": BLUE if rank == 1 else BLACK, "linewidth": 0}
    style: dict[str, Any] = {"ha": "center", "va": "center", "color": "white", "fontweight": "bold", "zorder": 7}
    x, y = x + layout.box_width / 2, y - BOX_HEIGHT / 2
    axes.text(x, y, f"#{rank}", fontsize=layout.points(0.7), bbox=badge, **style)


def _legend_entries(fates: set[str], ranks: set[int | None]) -> list[Artist]:
    """Entries for the fates and paths that the tree contains."""
    boxes = [look for fate, look in FATES.items() if fate in fates]
    paths = [PATH_TO_BEST] * (1 in ranks) + [PATH_TO_RESULT] * bool(ranks - {1, None})
    return [
        *(Patch(label=look.meaning, facecolor=look.fill, **look.outline()) for look in boxes),
        *(Line2D([], [], label=look.meaning, color=look.color, linewidth=look.width) for look in paths),
    ]


def _add_captions(axes: Axes, layout: TreeLayout, title: str | None, legend: list[Artist]) -> None:
    for step, column in layout.columns.items():
        if column is not None:
            x, y = layout.center((column, 0))[0], -BOX_HEIGHT / 2 - 1
            axes.text(x, y, str(step) if step else "step", ha="center", color=GRAY, fontsize=layout.points(0.9))
    if title:
        size = layout.points(1.2)
        axes.text(layout.left, layout.top, printable(title), va="top", fontsize=size, **literal())
    axes.legend(
        handles=legend,
        loc="upper left",
        bbox_to_anchor=(layout.left, layout.foot),
        bbox_transform=axes.transData,
        ncols=layout.entries_in_line,
        fontsize=layout.points(0.9),
        handleheight=1,
        handlelength=2.4,
        frameon=False,
        borderpad=0,
        borderaxespad=0,
    )
