from itertools import pairwise

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.plotting import figures
from regard.plotting.change_chart import ABSENT, CHANGED, KEPT, STATE_COLORS, draw_change_chart

ROWS = {"weights": [KEPT, KEPT, KEPT], "state [2, 3]": [ABSENT, CHANGED, KEPT], "$x$": [ABSENT, ABSENT, CHANGED]}
STEP_NAMES = ("start", "1", "2")


def cells(figure: Figure) -> dict[tuple[int, int], str]:
    """Colors by row and column."""
    patches = [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    return {(int(patch.get_y()), int(patch.get_x())): to_hex(patch.get_facecolor()) for patch in patches}


def test_each_cell_shows_whether_a_value_is_new_kept_or_absent() -> None:
    found = cells(draw_change_chart(ROWS, STEP_NAMES))
    for row, states in enumerate(ROWS.values()):
        for column, state in enumerate(states):
            assert found.get((row, column)) == (None if state == ABSENT else to_hex(STATE_COLORS[state]))


def test_rows_and_columns_are_labeled() -> None:
    figure = draw_change_chart(ROWS, STEP_NAMES)
    figures.render_figure(figure, ".png")
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_yticklabels()] == list(ROWS)
    assert [text.get_text() for text in axes.get_xticklabels()] == list(STEP_NAMES)


@pytest.mark.parametrize("steps", [1, 40, 300])
def test_step_labels_do_not_overlap(steps: int) -> None:
    step_names = ["start", *map(str, range(1, steps + 1))]
    figure = draw_change_chart({"state": [CHANGED] * len(step_names)}, step_names)
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].get_xticklabels() if text.get_text().isdecimal()]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
