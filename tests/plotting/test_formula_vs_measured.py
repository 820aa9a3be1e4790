import numpy as np
import pytest

from regard.plotting import figures
from regard.plotting.formula_vs_measured import (
    EDGES,
    MOST_DRAWS,
    Curve,
    Draws,
    draw_draws,
    draw_formula_curves,
    histogram,
)


def test_points_stand_beside_the_line_of_their_formula() -> None:
    curves = [
        Curve("v_a", ([1, 2, 4], [0.2, 0.4, 0.8]), ([1, 4], [0.2, 0.8])),
        Curve("v_b", ([1, 2, 4], [0.1, 0.1, 0.1]), ([1, 4], [0.1, 0.1])),
    ]
    figure = draw_formula_curves(curves, "β", "share", [(1, "$q$")])
    (axes,) = figure.axes
    line, points, *_ = axes.lines
    assert list(line.get_ydata()) == [0.2, 0.4, 0.8]
    assert list(points.get_ydata()) == [0.2, 0.8]
    assert (line.get_marker(), points.get_linestyle()) == ("None", "None")
    assert axes.get_xscale() == "log"
    assert [text.get_text() for text in axes.texts] == ["$q$"]
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["v_a", "v_b", "lines: closed form", "points: measured"]
    figures.render_figure(figure, ".png")


def test_where_two_are_the_same_both_can_be_seen() -> None:
    same = ([1, 2], [0.5, 0.5])
    (axes,) = draw_formula_curves([Curve("a", same, same), Curve("b", same, same)], "x", "y").axes
    first, second = (line for line in axes.lines if line.get_linestyle() == "None")
    assert first.get_markersize() > second.get_markersize()
    assert first.get_marker() != second.get_marker()


def test_draws_are_shown_in_their_order_and_as_a_distribution() -> None:
    values = np.linspace(0, 1, 101)
    figure = draw_draws([Draws("one head", values), Draws("two heads", np.full(101, 0.5))], "draw", "share")
    order, distribution = figure.axes
    assert list(order.lines[0].get_ydata()) == list(values[:MOST_DRAWS])
    assert list(order.lines[0].get_xdata()) == list(range(1, MOST_DRAWS + 1))
    assert order.get_ylim() == distribution.get_ylim()
    parts = distribution.patches[-1].get_data().values
    assert parts[10] == 100
    assert parts.sum() == 100
    figures.render_figure(figure, ".svg")


def test_a_histogram_is_in_per_cent_and_loses_nothing() -> None:
    parts = histogram([0.0, 0.5, 0.5, 1 + 1e-15])
    assert len(parts) == len(EDGES) - 1 == 21
    assert (parts[0], parts[10], parts[-1]) == (25, 50, 25)
    assert parts.sum() == pytest.approx(100)


def test_a_single_draw_is_drawn() -> None:
    figures.render_figure(draw_draws([Draws("one", [0.3])], "draw", "share"), ".png")
