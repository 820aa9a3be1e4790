import math
from itertools import pairwise, product
from random import Random

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from regard.plotting import figures
from regard.plotting.dot_plot import DotRow, draw_dots


def some_dots(**more: str) -> list[DotRow]:
    return [
        DotRow("none", (0.4, 0.5, 0.6), (0.25, 0.75), **more),
        DotRow("dot", (0.9, 1.0, 0.95), (0.85, 1.1), **more),
    ]


def means(axes: Axes) -> list[float]:
    return [line.get_xdata()[0] for line in axes.lines if line.get_markerfacecolor() != "white"]


def runs(axes: Axes) -> list[list[float]]:
    return [list(line.get_xdata()) for line in axes.lines if line.get_markerfacecolor() == "white"]


def bars(axes: Axes) -> list[list[float]]:
    found = [bar for bar in axes.collections if isinstance(bar, LineCollection)]
    return [list(bar.get_segments()[0][:, 0]) for bar in found]


def labels(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.get_yticklabels()]


def notes(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def keys(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def figure_texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.texts]


def test_a_row_has_its_runs_their_mean_and_the_interval() -> None:
    figure = draw_dots(some_dots(), "exact matches", percent=True)
    (axes,) = figure.axes
    assert labels(axes) == ["none", "dot"]
    np.testing.assert_allclose(means(axes), [50, 95])
    np.testing.assert_allclose(runs(axes), [[40, 50, 60], [90, 100, 95]])
    np.testing.assert_allclose(bars(axes), [[25, 75], [85, 110]])
    assert notes(axes) == ["50.0", "95.0"]
    assert keys(figure) == ["mean", "one run", "95 % interval"]
    assert figure_texts(figure) == ["exact matches (%)"]
    figures.render_figure(figure, ".png")


def test_the_first_row_is_at_the_top_and_dots_are_in_their_rows() -> None:
    (axes,) = draw_dots(some_dots(), "BLEU").axes
    bottom, top = axes.get_ylim()
    assert bottom > top
    for number, (mean, single) in enumerate(zip(axes.lines[::2], axes.lines[1::2], strict=True)):
        assert number - 0.5 < mean.get_ydata()[0] < single.get_ydata()[0] < number + 0.5


def test_an_interval_beyond_100_percent_is_clipped_by_the_axis() -> None:
    (axes,) = draw_dots([*some_dots(), DotRow("bad", (0.0, 0.1), (-0.6, 0.7))], "exact matches", percent=True).axes
    assert axes.get_xlim() == (0, 100)
    assert all(bar.get_clip_on() for bar in axes.collections)
    assert not any(dot.get_clip_on() for dot in axes.lines), "a dot at 100 % is not clipped"


def test_an_error_rate_above_100_percent_is_shown() -> None:
    (axes,) = draw_dots([DotRow("a", (1.2, 0.9), None)], "word error", percent=True).axes
    assert axes.get_xlim()[1] >= 120


def test_a_very_wide_interval_leaves_room_for_the_dots() -> None:
    (axes,) = draw_dots([DotRow("a", (30.0, 31.0), (24.0, 37.0)), DotRow("b", (32.0,), None)], "BLEU").axes
    low, high = axes.get_xlim()
    assert low <= 30 < 32 <= high
    assert high - low < 7


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ((31.25, 2.5), False, ["31.2", "2.5"]),
        ((3.14159,), False, ["3.14"]),
        ((12345.6,), False, ["12,346"]),
        ((0.01234,), False, ["0.0123"]),
        ((0.0,), False, ["0.00"]),
        ((0.01234, 1.0), True, ["1.2", "100.0"]),
        ((0.01234,), True, ["1.23"]),
    ],
)
def test_means_are_labeled_with_three_digits(values: tuple[float, ...], percent: bool, expected: list[str]) -> None:
    (axes,) = draw_dots([DotRow(str(value), (value,), None) for value in values], "x", percent).axes
    assert notes(axes) == expected


def test_groups_differ_in_color_marker_and_position() -> None:
    figure = draw_dots(
        [*some_dots(group="trained length"), *some_dots(group="twice the length")], "exact matches", percent=True
    )
    (axes,) = figure.axes
    assert labels(axes) == ["none", "dot"]
    assert len(means(axes)) == 4
    styles = {(to_hex(line.get_color()), line.get_marker()) for line in axes.lines}
    assert len({color for color, _ in styles}) == len({marker for _, marker in styles}) == 2
    assert len({line.get_ydata()[0] for line in axes.lines}) == 8
    assert keys(figure) == ["trained length", "twice the length", "mean", "one run", "95 % interval"]


def test_panels_have_the_same_rows_and_the_same_axis() -> None:
    figure = draw_dots([*some_dots(panel="small"), DotRow("dot", (3.0,), None, panel="large")], "BLEU")
    small, large = figure.axes
    assert [small.get_title("left"), large.get_title("left")] == ["small", "large"]
    assert small.get_xlim() == large.get_xlim()
    assert small.get_ylim() == large.get_ylim()
    assert (len(means(small)), len(means(large))) == (2, 1)
    assert small.get_position().y0 == large.get_position().y0
    figure.draw_without_rendering()
    assert max(note.get_window_extent().x1 for note in small.texts) < large.bbox.x0


def test_the_legend_of_dots_can_be_renamed() -> None:
    assert keys(draw_dots(some_dots(), "ρ", each="one sentence"))[:2] == ["mean", "one sentence"]


@pytest.mark.parametrize("count", [29, 101, 1009])
def test_among_many_dots_none_covers_another(count: int) -> None:
    random = Random(count)
    many = tuple(random.gauss(0, 1) for _ in range(count))
    figure = draw_dots([DotRow("many", many, (-0.1, 0.1)), DotRow("few", (0.0, 0.01), None)], "ρ")
    (axes,) = figure.axes
    mean, swarm, _, few = axes.lines
    assert list(swarm.get_xdata()) == list(many)
    assert len(set(few.get_ydata())) == 1
    assert all(-0.5 < y < 0.5 for y in swarm.get_ydata())
    assert min(swarm.get_ydata()) > mean.get_ydata()[0], "the mean is above"
    figure.draw_without_rendering()
    points = axes.transData.transform(swarm.get_xydata()) * 72 / figure.dpi
    apart = np.linalg.norm(points[:, None] - points[None], axis=-1) + 99 * np.eye(count)
    assert apart.min() > (5 if count < 1000 else 0), "in points; of a thousand, some have to overlap"
    assert figure.get_figheight() < 5


def test_single_runs_need_no_legend() -> None:
    figure = draw_dots([DotRow("a", (3.0,), None), DotRow("b", (2.0,), None)], "loss")
    assert runs(figure.axes[0]) == []
    assert keys(figure) == []


def test_a_setting_without_a_finite_value_keeps_its_empty_row() -> None:
    (axes,) = draw_dots(
        [DotRow("a", (math.nan,), (math.nan, math.nan)), DotRow("b", (2.0, math.inf), None)], "loss"
    ).axes
    assert labels(axes) == ["a", "b"]
    assert means(axes) == [2.0]
    assert bars(axes) == []


@pytest.mark.parametrize("rows", [1, 30, 80])
def test_many_rows_do_not_overlap(rows: int) -> None:
    dots = [
        DotRow(f"layers={i}, heads={i % 4}, dropout=0.{i}", (i, i + 1.0), (i - 1.0, i + 2.0), group=group)
        for i, group in product(range(rows), "ab")
    ]
    figure = draw_dots(dots, "BLEU")
    (axes,) = figure.axes
    figure.draw_without_rendering()
    for texts in (axes.get_yticklabels(), [text for text in axes.texts if text.get_text()]):
        boxes = sorted((text.get_window_extent() for text in texts), key=lambda box: box.y0)
        assert all(lower.y1 <= upper.y0 + 1 for lower, upper in pairwise(boxes))
    assert len([text for text in axes.texts if text.get_text()]) == (2 * rows if rows <= 30 else 0)


def test_labels_are_left_of_the_panel_and_within_the_figure() -> None:
    figure = draw_dots([DotRow("n" * 300, (1.0, 2.0), None), DotRow("a b " * 30, (1.0,), None)], "BLEU")
    figure.draw_without_rendering()
    (axes,) = figure.axes
    for text in axes.get_yticklabels():
        assert figure.bbox.x0 <= text.get_window_extent().x0
        assert text.get_window_extent().x1 < axes.bbox.x0
    assert figure.get_figwidth() < 12


def test_the_legends_of_dots_cover_nothing() -> None:
    figure = draw_dots([dots for group in "abcde" for dots in some_dots(group=30 * group)], "BLEU")
    figure.draw_without_rendering()
    boxes = [legend.get_window_extent() for legend in figure.legends]
    assert len(boxes) == 2
    assert not boxes[0].overlaps(boxes[1])
    for box, other in product(boxes, [*figure.axes, *figure.texts]):
        assert not box.overlaps(other.get_tightbbox())
