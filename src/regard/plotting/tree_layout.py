"""The layout of a beam tree: which hypotheses and steps are drawn, and where.

Every step is a column, and better hypotheses are above worse ones. A tree that is too large for a slide is folded:
steps in the middle and hypotheses at the bottom are replaced by their number. Lengths are in ems, the font size of a
token.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Protocol

from regard.plotting.attention_map import token_label
from regard.plotting.figures import ems

Position = tuple[float, float]  # column and row

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


def shown_rows(nodes: Sequence[TreeNode], ranks: Sequence[int | None]) -> dict[int, float]:
    """The row of each node that is drawn: the beam in its order, and below it what was pruned.

    Where a step has too many nodes, those that lead to a result are drawn first, then those with the best scores.

    Args:
        nodes: All nodes.
        ranks: What `best_ranks` returns for them.
    """
    shown: list[int] = []
    for step in sorted({node.length for node in nodes}):
        for pruned, most in ((False, MAX_BEAM_ROWS), (True, MAX_PRUNED_ROWS)):
            group = [i for i, node in enumerate(nodes) if node.length == step and (node.fate == "pruned") == pruned]
            shown += sorted(sorted(group, key=lambda i: (ranks[i] is None, i))[:most])
    shown.sort()
    return dict(zip(shown, (row for _, row in arrange([nodes[index] for index in shown])), strict=True))


def arrange(nodes: Sequence[TreeNode]) -> list[Position]:
    """Step and row of each node: on top the beam, in its order, and below it what was pruned.

    Args:
        nodes: The nodes that are drawn.
    """
    beam = max(Counter(node.length for node in nodes if node.fate != "pruned").values(), default=0)
    above: Counter[tuple[int, bool]] = Counter()
    positions: list[Position] = []
    for node in nodes:
        pruned = node.fate == "pruned"
        positions.append((node.length, above[node.length, pruned] + (beam + ABOVE_PRUNED if pruned else 0)))
        above[node.length, pruned] += 1
    return positions


def best_ranks(nodes: Sequence[TreeNode]) -> list[int | None]:
    """The best rank that each node leads to, its own or a descendant's; None if it leads to no result.

    Args:
        nodes: All nodes.
    """
    ranks = [node.rank for node in nodes]
    for index in reversed(range(len(nodes))):  # children come after their parents
        parent, rank = nodes[index].parent, ranks[index]
        if parent is not None and rank is not None:
            ranks[parent] = min(rank, ranks[parent] or rank)
    return ranks


@dataclass(frozen=True)
class TreeLayout:
    """Positions of all parts: from the top the title, the numbers of the steps, the tree, and the legend.

    Args:
        columns: Column of each step; None if the step is folded.
        hidden: Number of nodes of a step that are not drawn.
        rows: Number of rows.
        box_width: Width of a box.
        titled: Whether there is a title.
        entries: Number of entries of the legend.
    """

    columns: dict[int, int | None]
    hidden: dict[int, int]
    rows: float
    box_width: float
    titled: bool
    entries: int

    @classmethod
    def fit(cls, nodes: Sequence[TreeNode], rows: dict[int, float], titled: bool, entries: int) -> TreeLayout:
        """The layout of a tree, with as many steps as fit into `MAX_WIDTH`.

        Args:
            nodes: All nodes.
            rows: The row of each node that is drawn.
            titled: Whether there is a title.
            entries: Number of entries of the legend.
        """
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
