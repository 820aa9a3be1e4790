import math

import numpy as np
import pytest
from matplotlib.figure import Figure

from regard.errors import UserError
from regard.plotting import figures
from regard.plotting.band_plot import Band, draw_bands


def a_band(label: str = "dot", panel: str = "") -> Band:
    return Band(label, (1, 2, 4), ((0.2, 0.4, 0.6), (0.4, 0.6, 1.0)), panel)


def keys(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def figure_texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.texts]


def test_a_band_is_the_mean_between_minimum_and_maximum() -> None:
    figure = draw_bands([a_band("dot"), a_band("none")], "beam width", "exact matches", percent=True)
    (axes,) = figure.axes
    first, second = axes.lines
    np.testing.assert_allclose(first.get_xydata(), [[1, 30], [2, 50], [4, 80]])
    assert first.get_color() != second.get_color()
    area, _ = axes.collections
    corners = area.get_paths()[0].vertices
    assert {(1.0, 20.0), (1.0, 40.0), (4.0, 60.0), (4.0, 100.0)} <= {(x, round(y, 9)) for x, y in corners}
    assert keys(figure) == ["dot", "none"]
    assert figure_texts(figure) == ["beam width", "exact matches (%)"]
    figures.render_figure(figure, ".png")


def test_one_run_has_no_area() -> None:
    (axes,) = draw_bands([Band("a", (1, 2), ((3.0, 4.0),))], "step", "loss").axes
    assert len(axes.lines) == 1
    assert not axes.collections


@pytest.mark.parametrize("missing", [None, math.nan, math.inf])
def test_unknown_values_are_left_out(missing: float | None) -> None:
    band = Band("a", (1, 2, 3), ((1.0, missing, missing), (3.0, 5.0, missing)))
    (axes,) = draw_bands([band, Band("b", (1, 2, 3), ()), Band("c", (1,), ((missing,),))], "step", "loss").axes
    (line,) = axes.lines
    np.testing.assert_allclose(line.get_xydata(), [[1, 2], [2, 5]])


def test_a_logarithmic_x_axis_omits_values_that_are_not_positive() -> None:
    band = Band("a", (0, 1, 10), ((1.0, 0.0, 0.5), (1.0, 0.1, 0.5)))
    (axes,) = draw_bands([band], "step", "loss", log_x=True).axes
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[1, 0.05], [10, 0.5]])
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "linear")


def test_a_logarithmic_y_axis_omits_values_that_are_not_positive() -> None:
    bands = [Band("a", (0, 1, 2), ((1.0, 0.0, -0.5), (0.1, 0.01, 0.0))), Band("b", (0, 1), ((0.0, 0.0),))]
    (axes,) = draw_bands(bands, "step", "loss", log_y=True).axes
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[0, 0.55], [1, 0.01]])
    assert len(axes.lines) == 1
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "log")
    with pytest.raises(UserError, match="no run has been measured yet"):
        draw_bands(bands[1:], "step", "loss", log_y=True)


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ((2.0, 9.0), {"4", "6"}),
        ((0.004, 0.6), {"0.005", "0.1", "0.5"}),
        ((1e-7, 3.0), {"10⁻⁶", "0.1"}),
        ((3e-6, 1e-5), {"4·10⁻⁶", "10⁻⁵"}),
        ((5.0, 2e7), {"100", "10⁶"}),
        ((0.5, 0.5), {"0.5"}),
    ],
)
def test_a_logarithmic_y_axis_has_tick_labels(ends: tuple[float, float], expected: set[str]) -> None:
    figure = draw_bands([Band("a", (1, 2), (ends,))], "step", "loss", log_y=True)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    low, high = axes.get_ylim()
    shown = [tick.get_text() for tick in axes.get_yticklabels() if low <= tick.get_position()[1] <= high]
    assert expected <= set(shown)
    assert not axes.get_yticklabels(minor=True)
    assert min(tick.get_window_extent().x0 for tick in axes.get_yticklabels()) > figure.texts[1].get_window_extent().x1


@pytest.mark.parametrize("last", [3, 12, 23, 4000])
def test_counts_have_no_fractional_ticks(last: int) -> None:
    x = tuple(range(1, last + 1))
    (axes,) = draw_bands([Band("a", x, (x,))], "position", "loss").axes
    assert all(float(tick).is_integer() for tick in axes.get_xticks())
    assert len(axes.get_xticks()) >= 2


def test_a_run_without_a_value_for_each_x_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        draw_bands([Band("a", (1, 2, 3), ((1.0, 2.0),))], "step", "loss")


def test_beam_widths_are_the_ticks() -> None:
    band = Band("a", (1, 2, 4, 8, 12, 13, 64), ((1.0,) * 7,))
    figure = draw_bands([band], "beam width", "BLEU", log_x=True)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "2", "4", "8", "12", "64"], "13 does not fit"
    assert not axes.get_xticklabels(minor=True)


@pytest.mark.parametrize("ends", [(1.2, 1.9), (1.0, 30.0), (0.001, 10.0)])
def test_a_logarithmic_x_axis_has_tick_labels(ends: tuple[float, float]) -> None:
    x = tuple(np.geomspace(*ends, 50))
    figure = draw_bands([Band("a", x, (x,))], "step", "loss", log_x=True)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    low, high = axes.get_xlim()
    shown = [tick.get_text() for tick in axes.get_xticklabels() if low <= tick.get_position()[0] <= high]
    assert len(shown) >= 2
    assert not any("$" in text for text in shown)


@pytest.mark.parametrize(("count", "shape"), [(1, (1, 1)), (3, (1, 3)), (4, (2, 2)), (5, (2, 3)), (7, (3, 3))])
def test_panels_are_in_rows_of_at_most_three_and_share_both_axes(count: int, shape: tuple[int, int]) -> None:
    figure = draw_bands([a_band(panel=f"panel {number}") for number in range(count)], "step", "BLEU")
    assert len(figure.axes) == count
    positions = [axes.get_position() for axes in figure.axes]
    assert (len({round(index.y0, 6) for index in positions}), len({round(index.x0, 6) for index in positions})) == shape
    assert len({(axes.get_xlim(), axes.get_ylim()) for axes in figure.axes}) == 1
    assert keys(figure) == ["dot"], "one legend for all"


@pytest.mark.parametrize("panels", [1, 2, 4])
@pytest.mark.parametrize("lines", [2, 14])
def test_the_legend_covers_no_panel_and_no_label(panels: int, lines: int) -> None:
    bands = [a_band(f"a setting with number {n}", f"panel {p}") for p in range(panels) for n in range(lines)]
    figure = draw_bands(bands, "step", "BLEU")
    figure.draw_without_rendering()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    for other in [*figure.axes, *figure.texts]:
        assert not box.overlaps(other.get_tightbbox())
    assert len(legend.get_lines()) == lines


def test_a_label_has_the_same_style_in_all_panels() -> None:
    bands = [a_band("a", "1"), a_band("b", "1"), a_band("b", "2"), a_band("a", "2")]
    first, second = draw_bands(bands, "step", "BLEU").axes
    assert [line.get_color() for line in first.lines] == [line.get_color() for line in second.lines][::-1]


def test_among_hundreds_of_values_the_markers_are_few() -> None:
    x = tuple(range(500))
    (axes,) = draw_bands([Band("a", x, (x,))], "step", "loss").axes
    _, each = axes.lines[0].get_markevery()
    assert 500 / each < 15
