"""A beam search as a tree: the hypotheses that each step kept, those that it pruned, and the one that ranks first.

Lengths are in ems, the font size of a token; widths of lines are in points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch, Patch, PathPatch
from matplotlib.path import Path

from regard.errors import printable
from regard.plotting.attention_map import token_label
from regard.plotting.figures import literal, message_figure
from regard.plotting.palette import BLACK, BLUE, GRAY, GREEN, VERMILION
from regard.plotting.tree_layout import BOX_HEIGHT, ROW_HEIGHT, Position, TreeLayout, TreeNode, best_ranks, shown_rows

START: Position = (0, 0)  # of the empty hypothesis


@dataclass(frozen=True)
class EdgeStyle:
    """The style of boxes and edges. Line, width and fill differ, too, for print and for color vision deficiencies.

    Args:
        meaning: Its text in the legend.
        color: Color of the line.
        line: Line style.
        width: Line width.
        fill: Color of a box.
        text_color: Color of the text in a box.
    """

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


def _draw_edge(axes: Axes, layout: TreeLayout, parent: Position, child: Position, edge_style: EdgeStyle) -> None:
    """From the right of the parent to the left of the child: between columns there are no boxes."""
    (x0, y0), (x1, y1) = layout.center(parent), layout.center(child)
    x0, x1 = x0 + layout.box_width / 2, x1 - layout.box_width / 2
    middle = (x0 + x1) / 2
    curve = Path([(x0, y0), (middle, y0), (middle, y1), (x1, y1)], [Path.MOVETO, *[Path.CURVE4] * 3])
    # Stronger edges are above weaker ones.
    axes.add_patch(PathPatch(curve, fill=False, zorder=edge_style.width, **edge_style.outline()))


def _draw_box(
    axes: Axes, layout: TreeLayout, position: Position, edge_style: EdgeStyle, token: str, score: str
) -> None:
    x, y = layout.center(position)
    corner = (x - layout.box_width / 2, y - BOX_HEIGHT / 2)
    box = FancyBboxPatch(corner, layout.box_width, BOX_HEIGHT, **edge_style.outline())
    box.set(facecolor=edge_style.fill, boxstyle="round,pad=0,rounding_size=0.5", zorder=5)
    axes.add_patch(box)
    style: dict[str, Any] = {"ha": "center", "va": "center_baseline", "color": edge_style.text_color, "zorder": 6}
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
    boxes = [edge_style for fate, edge_style in FATES.items() if fate in fates]
    paths = [PATH_TO_BEST] * (1 in ranks) + [PATH_TO_RESULT] * bool(ranks - {1, None})
    return [
        *(Patch(label=edge_style.meaning, facecolor=edge_style.fill, **edge_style.outline()) for edge_style in boxes),
        *(
            Line2D([], [], label=edge_style.meaning, color=edge_style.color, linewidth=edge_style.width)
            for edge_style in paths
        ),
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
