"""Change charts: a row for each quantity, a column for each step, and a mark where the value changes.

Lengths are in inches and font sizes in points, 72 to the inch, as in matplotlib.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.errors import printable
from regard.plotting.figures import ems, fonts, literal
from regard.plotting.palette import BLUE

ABSENT, KEPT, CHANGED = "absent", "kept", "changed"
STATE_COLORS = {KEPT: "0.85", CHANGED: BLUE}
FONT_SIZE = 12.0
ROW = 0.3
LARGEST_CELL, SMALLEST_CELL = 0.42, 0.12
USUAL_WIDTH = 8.0  # cells shrink to keep the columns this wide


def draw_change_chart(rows: Mapping[str, Sequence[str]], steps: Sequence[str]) -> Figure:
    """A chart of what changes at each step.

    Args:
        rows: For each quantity, its state at each step: `ABSENT`, `KEPT` or `CHANGED`.
        steps: The names of the steps.
    """
    cell = max(SMALLEST_CELL, min(LARGEST_CELL, USUAL_WIDTH / len(steps)))
    names = [printable(name) for name in rows]
    left, top = FONT_SIZE / 72 * max(map(ems, names)) + 0.2, 0.75
    width, height = left + cell * len(steps) + 0.1, top + ROW * len(rows) + 0.5
    figure = Figure(figsize=(width, height))
    position = (left / width, 0.5 / height, cell * len(steps) / width, ROW * len(rows) / height)
    axes = figure.add_axes(position, xlim=(0, len(steps)), ylim=(len(rows), 0))
    for y, states in enumerate(rows.values()):
        for x, state in enumerate(states):
            if state != ABSENT:
                axes.add_patch(Rectangle((x + 0.06, y + 0.1), 0.88, 0.8, color=STATE_COLORS[state], linewidth=0))
    axes.set_yticks([y + 0.5 for y in range(len(rows))], names, fontsize=FONT_SIZE, **literal())
    each = ceil(0.32 / cell)  # room for a number of two digits
    shown = [x for x, name in enumerate(steps) if not name.isdecimal() or int(name) % each == 0]
    axes.xaxis.tick_top()
    axes.set_xticks([x + 0.5 for x in shown], [steps[x] for x in shown], fontsize=FONT_SIZE, **literal())
    for text in axes.get_xticklabels():
        if not text.get_text().isdecimal():
            text.set(rotation=90)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    _add_state_legend(figure, left / width)
    return figure


def _add_state_legend(figure: Figure, left: float) -> None:
    keys = [Rectangle((0, 0), 1, 1, color=STATE_COLORS[state]) for state in (CHANGED, KEPT)]
    figure.legend(
        keys,
        ["new or changed", "unchanged"],
        loc="lower left",
        bbox_to_anchor=(left, 0),
        ncols=2,
        frameon=False,
        borderaxespad=0,
        prop={"family": fonts(), "size": FONT_SIZE},
    )
