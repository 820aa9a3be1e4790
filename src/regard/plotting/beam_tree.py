"""A beam as a picture: which hypotheses each step kept, which it pruned, and which one won in the end.

Every step is a column, and the better stands above the worse. Lengths are in ems, the size of a token's type: a large
tree is the same picture in smaller type. Widths of lines are in points, at the usual size of type.
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
from regard.plotting.palette import BLACK, BLUE, GREEN, VERMILION

Place = tuple[int, float]  # column and row

START: Place = (0, 0)  # of the empty hypothesis
USUAL_EM = 12 / 72  # inches
LARGEST_SIDE = 30.0  # inches; a tree that needs more has smaller type
BOX_HEIGHT = 2.4
ROW_HEIGHT = 3.4
ABOVE_PRUNED = 0.3  # rows


class TreeNode(Protocol):
    """A hypothesis, named by its latest token."""

    @property
    def length(self) -> int: ...  # in tokens: the step at which it was looked at, from 1
    @property
    def parent(self) -> int | None: ...  # which node it extends, by its place in the list; None: the empty hypothesis
    @property
    def token(self) -> str: ...
    @property
    def score(self) -> float: ...
    @property
    def fate(self) -> str: ...  # one of `FATES`
    @property
    def rank(self) -> int | None: ...  # its place among the best hypotheses, from 1; None: not among them


@dataclass(frozen=True)
class EdgeStyle:
    """Of boxes and edges. Line, width and fill tell them apart where colour cannot: in print, to colour-blind eyes."""

    meaning: str
    colour: str
    line: str
    width: float
    fill: str = "white"
    type_colour: str = BLACK

    def outline(self, scale: float) -> dict[str, Any]:
        return {"edgecolor": self.colour, "linestyle": self.line, "linewidth": scale * self.width}


FATES = {
    "kept": EdgeStyle("kept", BLACK, "-", 1),
    "finished": EdgeStyle("finished", GREEN, "-", 2, fill="#BFE7DC"),
    "truncated": EdgeStyle("truncated", VERMILION, "-.", 2, fill="#FBE6D8"),
    "pruned": EdgeStyle("pruned", "0.65", "--", 0.9, type_colour="0.5"),
}
WAY_TO_BEST = EdgeStyle("the way to #1", BLUE, "-", 3.5)
WAY_TO_RESULT = EdgeStyle("the way to other results", BLACK, "-", 2)


def draw_beam_tree(nodes: Sequence[TreeNode], title: str | None = None) -> Figure:
    """The tree of a search, as `regard.search.grow` makes it; the way to the best result is bold.

    Parents come before their children, and the better before the worse.
    """
    if not nodes:
        return message_figure("no hypothesis was looked at", title)
    places, leads_to = arrange(nodes), best_ranks(nodes)
    legend = _legend({node.fate for node in nodes}, set(leads_to))
    sheet = TreeLayout([token_label(node.token) for node in nodes], places, bool(title), len(legend))
    figure = Figure(figsize=sheet.size)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(sheet.left, sheet.right), ylim=(sheet.bottom, sheet.top))
    axes.set_axis_off()
    _draw_box(axes, sheet, START, WAY_TO_BEST if 1 in leads_to else FATES["kept"], "start", "score")
    for node, place, rank in zip(nodes, places, leads_to, strict=True):
        parent = START if node.parent is None else places[node.parent]
        _draw_edge(axes, sheet, parent, place, _edge_look(node.fate, rank))
        _draw_box(axes, sheet, place, _box_look(node.fate, rank), token_label(node.token), f"{node.score:z.2f}")
        if node.rank is not None:
            _draw_rank(axes, sheet, place, node.rank)
    _add_captions(axes, sheet, title, legend)
    return figure


def arrange(nodes: Sequence[TreeNode]) -> list[Place]:
    """Where each node goes: its step is its column; on top is the beam, in its order, and below it what was pruned."""
    beam = max(Counter(node.length for node in nodes if node.fate != "pruned").values(), default=0)
    above: Counter[tuple[int, bool]] = Counter()
    places = []
    for node in nodes:
        pruned = node.fate == "pruned"
        places.append((node.length, above[node.length, pruned] + (beam + ABOVE_PRUNED if pruned else 0)))
        above[node.length, pruned] += 1
    return places


def best_ranks(nodes: Sequence[TreeNode]) -> list[int | None]:
    """For each node the best rank that it leads to, its own or a descendant's; None: it leads to no result."""
    ranks = [node.rank for node in nodes]
    for place in reversed(range(len(nodes))):  # what a node leads to is known before its parent asks
        parent, rank = nodes[place].parent, ranks[place]
        if parent is not None and rank is not None:
            ranks[parent] = min(rank, ranks[parent] or rank)
    return ranks


class TreeLayout:
    """Where everything goes: from the top the title, the numbers of the steps, the tree, and the legend."""

    def __init__(self, labels: Sequence[str], places: Sequence[Place], titled: bool, entries: int) -> None:
        rows = 1 + max(row for _, row in places)
        self.steps = max(column for column, _ in places)
        self.box_width = max(*map(ems, labels), ems("<end>")) + 1.3
        self.column_width = self.box_width + 2.4 + 0.2 * rows  # with many rows, edges would be steep
        self.left = -self.box_width / 2 - 0.2
        self.right = self.steps * self.column_width + self.box_width / 2 + 1  # room for a rank
        width = self.right - self.left
        self.caption = 0.85 + 0.003 * width  # the size of type outside boxes: it grows a little with the sheet
        self.top = -BOX_HEIGHT / 2 - 2 - 2 * self.caption * titled
        self.foot = (rows - 1) * ROW_HEIGHT + BOX_HEIGHT / 2 + 1.2 * self.caption  # here the legend begins
        self.entries_in_line = max(1, int(width / (15 * self.caption)))
        self.bottom = self.foot + 1.6 * self.caption * ceil(entries / self.entries_in_line)
        height = self.bottom - self.top
        em = min(USUAL_EM, LARGEST_SIDE / max(width, height))
        self.size = em * width, em * height  # inches
        self.scale = em / USUAL_EM

    def centre(self, place: Place) -> tuple[float, float]:
        """Of a box; that of the empty hypothesis is at 0, 0."""
        column, row = place
        return column * self.column_width, row * ROW_HEIGHT

    def points(self, ems: float) -> float:
        return 72 * USUAL_EM * self.scale * ems


def _edge_look(fate: str, rank: int | None) -> EdgeStyle:
    if rank is not None:
        return WAY_TO_BEST if rank == 1 else WAY_TO_RESULT
    return FATES["pruned" if fate == "pruned" else "kept"]


def _box_look(fate: str, rank: int | None) -> EdgeStyle:
    return WAY_TO_BEST if rank == 1 and fate == "kept" else FATES[fate]


def _draw_edge(axes: Axes, sheet: TreeLayout, parent: Place, child: Place, look: EdgeStyle) -> None:
    """From the right of the parent to the left of the child: between columns there is no box to cross."""
    (x0, y0), (x1, y1) = sheet.centre(parent), sheet.centre(child)
    x0, x1 = x0 + sheet.box_width / 2, x1 - sheet.box_width / 2
    middle = (x0 + x1) / 2
    curve = Path([(x0, y0), (middle, y0), (middle, y1), (x1, y1)], [Path.MOVETO, *[Path.CURVE4] * 3])
    # The stronger lies above the weaker.
    axes.add_patch(PathPatch(curve, fill=False, zorder=look.width, **look.outline(sheet.scale)))


def _draw_box(axes: Axes, sheet: TreeLayout, place: Place, look: EdgeStyle, token: str, score: str) -> None:
    x, y = sheet.centre(place)
    corner = (x - sheet.box_width / 2, y - BOX_HEIGHT / 2)
    box = FancyBboxPatch(corner, sheet.box_width, BOX_HEIGHT, **look.outline(sheet.scale))
    box.set(facecolor=look.fill, boxstyle="round,pad=0,rounding_size=0.5", zorder=5)
    axes.add_patch(box)
    style: dict[str, Any] = {"ha": "center", "va": "center_baseline", "color": look.type_colour, "zorder": 6}
    axes.text(x, y - 0.4, token, fontsize=sheet.points(1), **style, **literal())
    axes.text(x, y + 0.65, score, fontsize=sheet.points(0.7), **style)


def _draw_rank(axes: Axes, sheet: TreeLayout, place: Place, rank: int) -> None:
    """A badge on the upper right corner of the box."""
    x, y = sheet.centre(place)
    badge = {"boxstyle": "round,pad=0.25", "facecolor": BLUE if rank == 1 else BLACK, "linewidth": 0}
    style: dict[str, Any] = {"ha": "center", "va": "center", "color": "white", "fontweight": "bold", "zorder": 7}
    x, y = x + sheet.box_width / 2, y - BOX_HEIGHT / 2
    axes.text(x, y, f"#{rank}", fontsize=sheet.points(0.7), bbox=badge, **style)


def _legend(fates: set[str], ranks: set[int | None]) -> list[Artist]:
    """Only what there is to see is explained."""
    boxes = [look for fate, look in FATES.items() if fate in fates]
    ways = [WAY_TO_BEST] * (1 in ranks) + [WAY_TO_RESULT] * bool(ranks - {1, None})
    return [
        *(Patch(label=look.meaning, facecolor=look.fill, **look.outline(1)) for look in boxes),
        *(Line2D([], [], label=look.meaning, color=look.colour, linewidth=look.width) for look in ways),
    ]


def _add_captions(axes: Axes, sheet: TreeLayout, title: str | None, legend: list[Artist]) -> None:
    for step in range(sheet.steps + 1):
        x, y = sheet.centre((step, 0))[0], -BOX_HEIGHT / 2 - 1
        axes.text(x, y, str(step) if step else "step", ha="center", color="dimgrey", fontsize=sheet.points(0.9))
    if title:
        size = sheet.points(1.25 * sheet.caption)
        axes.text(sheet.left, sheet.top, printable(title), va="top", fontsize=size, **literal())
    axes.legend(
        handles=legend,
        loc="upper left",
        bbox_to_anchor=(sheet.left, sheet.foot),
        bbox_transform=axes.transData,
        ncols=sheet.entries_in_line,
        fontsize=sheet.points(sheet.caption),
        handleheight=1,
        handlelength=2.4,
        frameon=False,
        borderpad=0,
        borderaxespad=0,
    )
