import numpy as np
import pytest

from regard.plotting import figures
from regard.plotting.head_outputs import (
    HISTOGRAM_EDGES,
    MAX_BARS,
    MAX_DRAWS_IN_ORDER,
    HeadOutputs,
    draw_head_contrast,
    draw_head_shares,
    draw_swing,
    share_histogram,
)

SIGMOID = ([-1.0, 0.0, 1.0], [0.1, 0.5, 0.9])


def test_swing_shows_draws_in_order_and_over_the_length_difference() -> None:
    shares, differences = np.linspace(0, 1, 101), np.linspace(-1, 1, 101)
    figure = draw_swing(shares, differences, SIGMOID, "sigmoid(λ_a − λ_b)", ("v_a", "v_b"), "λ_a − λ_b")
    order, closed_form = figure.axes
    assert list(order.lines[0].get_ydata()) == list(shares[:MAX_DRAWS_IN_ORDER])
    assert list(order.lines[0].get_xdata()) == list(range(1, MAX_DRAWS_IN_ORDER + 1))
    measured, curve = closed_form.lines
    assert list(measured.get_xdata()) == list(differences)
    assert list(measured.get_ydata()) == list(shares)
    assert list(curve.get_ydata()) == SIGMOID[1]
    assert order.get_ylim() == closed_form.get_ylim()
    assert "$λ_{a}$" in closed_form.get_legend().get_texts()[1].get_text()
    figures.render_figure(figure, ".svg")


def test_contrast_shows_outputs_in_the_plane_and_distributions() -> None:
    share = np.linspace(0, 1, 101)
    one = HeadOutputs("one head", np.column_stack([share, 1 - share]))
    two = HeadOutputs("two heads", np.full((101, 2), 0.5))
    figure = draw_head_contrast([one, two], ("v_a", "v_b"))
    plane, distribution = figure.axes
    first, second = plane.lines[:2]
    assert list(first.get_xdata()) == list(share)
    assert list(first.get_ydata()) == list(1 - share)
    assert second.get_markersize() > first.get_markersize(), "overlapping points stay visible"
    percent = distribution.patches[-1].get_data().values
    assert percent[10] == 100
    assert percent.sum() == 100
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["one head: 0.50 ± 0.29", "two heads: 0.50 ± 0.00"]
    figures.render_figure(figure, ".svg")


def test_stacked_bars_show_the_composition_of_each_output() -> None:
    shares = np.tile([0.5, 0.1, 0.2], (MAX_BARS + 3, 1))
    names = ["v_1", "v_2", "v_4"]
    figure = draw_head_shares([HeadOutputs("one head", shares), HeadOutputs("3 heads", shares)], names)
    assert [axes.get_title("left") for axes in figure.axes] == ["one head", "3 heads"]
    bars = figure.axes[0].containers
    assert [len(each) for each in bars] == [MAX_BARS] * 4
    assert [each[0].get_height() for each in bars] == pytest.approx([0.5, 0.1, 0.2, 0.2]), "the rest is other values"
    assert [each[0].get_y() for each in bars] == pytest.approx([0, 0.5, 0.6, 0.8])
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["$v_{1}$", "$v_{2}$", "$v_{4}$", "other values"]


def test_the_legend_of_many_values_is_short() -> None:
    names = [f"v_{index}" for index in range(1, 10)]
    figure = draw_head_shares([HeadOutputs("9 heads", np.full((5, 9), 1 / 9))], names)
    colors = {each[0].get_facecolor() for each in figure.axes[0].containers}
    assert len(colors) == 10, "no two values have the same color"
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts[-3:] == ["…", "$v_{9}$", "other values"]
    assert len(texts) == 8


def test_a_histogram_is_in_percent_and_contains_all_values() -> None:
    percent = share_histogram([0.0, 0.5, 0.5, 1 + 1e-15])
    assert len(percent) == len(HISTOGRAM_EDGES) - 1 == 21
    assert (percent[0], percent[10], percent[-1]) == (25, 50, 25)
    assert percent.sum() == pytest.approx(100)


def test_a_single_sample_is_drawn() -> None:
    one = HeadOutputs("one", [[0.3, 0.7]])
    figures.render_figure(draw_head_contrast([one], ("v_1", "v_2")), ".png")
    figures.render_figure(draw_head_shares([one], ("v_1", "v_2")), ".png")
    figures.render_figure(draw_swing([0.3], [0.0], SIGMOID, "x", ("v_1", "v_2"), "x"), ".png")
