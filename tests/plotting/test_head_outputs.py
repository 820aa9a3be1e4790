import numpy as np
import pytest

from regard.plotting import figures
from regard.plotting.head_outputs import (
    HISTOGRAM_EDGES,
    MAX_DRAWS_IN_ORDER,
    HeadOutputs,
    draw_head_contrast,
    draw_swing,
    share_histogram,
)

SIGMOID = ([-1.0, 0.0, 1.0], [0.1, 0.5, 0.9])


def test_swing_shows_draws_in_order_and_over_the_length_difference() -> None:
    shares, differences = np.linspace(0, 1, 101), np.linspace(-1, 1, 101)
    figure = draw_swing(shares, differences, SIGMOID, "sigmoid(λ_a − λ_b)")
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
    one = HeadOutputs("one head", np.linspace(0, 1, 101), np.linspace(1, 0, 101))
    two = HeadOutputs("two heads", np.full(101, 0.5), np.full(101, 0.5))
    figure = draw_head_contrast([one, two])
    plane, distribution = figure.axes
    first, second = plane.lines[:2]
    assert list(first.get_xdata()) == list(one.share_a)
    assert list(first.get_ydata()) == list(one.share_b)
    assert second.get_markersize() > first.get_markersize(), "overlapping points stay visible"
    percent = distribution.patches[-1].get_data().values
    assert percent[10] == 100
    assert percent.sum() == 100
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["one head: 0.50 ± 0.29", "two heads: 0.50 ± 0.00"]
    figures.render_figure(figure, ".svg")


def test_a_histogram_is_in_percent_and_contains_all_values() -> None:
    percent = share_histogram([0.0, 0.5, 0.5, 1 + 1e-15])
    assert len(percent) == len(HISTOGRAM_EDGES) - 1 == 21
    assert (percent[0], percent[10], percent[-1]) == (25, 50, 25)
    assert percent.sum() == pytest.approx(100)


def test_a_single_sample_is_drawn() -> None:
    figures.render_figure(draw_head_contrast([HeadOutputs("one", [0.3], [0.7])]), ".png")
    figures.render_figure(draw_swing([0.3], [0.0], SIGMOID, "x"), ".png")
