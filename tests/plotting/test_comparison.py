import math
from itertools import pairwise, product
from random import Random

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from regard.errors import UserError
from regard.plotting import figures
from regard.plotting.comparison import Band, DotRow, draw_bands, draw_dots
from regard.plotting.palette import line_style
from regard.plotting.panels import LONGEST_LINE, LONGEST_TEXT, fold, truncate

HOSTILE = "<img src=x onerror=alert(1)>"


def some_dots(**more: str) -> list[DotRow]:
    return [
        DotRow("none", (0.4, 0.5, 0.6), (0.25, 0.75), **more),
        DotRow("dot", (0.9, 1.0, 0.95), (0.85, 1.1), **more),
    ]


def a_band(label: str = "dot", panel: str = "") -> Band:
    return Band(label, (1, 2, 4), ((0.2, 0.4, 0.6), (0.4, 0.6, 1.0)), panel)


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
    assert not any(dot.get_clip_on() for dot in axes.lines), "a dot at 100 % is whole"


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
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "2", "4", "8", "12", "64"], "13 has no room"
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
    places = [axes.get_position() for axes in figure.axes]
    assert (len({round(index.y0, 6) for index in places}), len({round(index.x0, 6) for index in places})) == shape
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


def test_the_legends_of_dots_cover_nothing() -> None:
    figure = draw_dots([dots for group in "abcde" for dots in some_dots(group=30 * group)], "BLEU")
    figure.draw_without_rendering()
    boxes = [legend.get_window_extent() for legend in figure.legends]
    assert len(boxes) == 2
    assert not boxes[0].overlaps(boxes[1])
    for box, other in product(boxes, [*figure.axes, *figure.texts]):
        assert not box.overlaps(other.get_tightbbox())


def test_many_lines_are_distinguishable() -> None:
    styles = [line_style(number) for number in range(28)]
    assert len({(each["color"], each["linestyle"]) for each in styles}) == 28
    for first, second in pairwise(styles):
        assert not set(first.items()) & set(second.items())
    assert "#F0E442" not in {each["color"] for each in styles}, "yellow on white"


def test_a_label_has_the_same_style_in_all_panels() -> None:
    bands = [a_band("a", "1"), a_band("b", "1"), a_band("b", "2"), a_band("a", "2")]
    first, second = draw_bands(bands, "step", "BLEU").axes
    assert [line.get_color() for line in first.lines] == [line.get_color() for line in second.lines][::-1]


def test_among_hundreds_of_values_the_markers_are_few() -> None:
    x = tuple(range(500))
    (axes,) = draw_bands([Band("a", x, (x,))], "step", "loss").axes
    _, each = axes.lines[0].get_markevery()
    assert 500 / each < 15


def test_no_values_are_reported_in_the_figure() -> None:
    for nothing in ([], [DotRow("a", (), None)], [DotRow("a", (math.nan,), None)]):
        with pytest.raises(UserError, match="no run has been measured yet"):
            draw_dots(nothing, "BLEU")
    for empty in ([], [Band("a", (), ())], [Band("a", (1,), ((None,),))]):
        with pytest.raises(UserError, match="no run has been measured yet"):
            draw_bands(empty, "step", "BLEU")


@pytest.mark.parametrize("text", [HOSTILE, "$x_1$ \\alpha", "_hidden", "a\nb", "\ud800", "مرحبا", "漢字" * 40, " "])
def test_texts_are_drawn_literally(text: str) -> None:
    dots = draw_dots([DotRow(text, (1.0, 2.0), None, text, text)], text)
    bands = draw_bands([Band(text, (1,), ((1.0,),), text)], text, text)
    for figure in (dots, bands):
        for suffix in (".svg", ".png"):
            figures.render_figure(figure, suffix)
        assert figures.printable(text) in figure_texts(figure)
        assert fold([text])[0] in keys(figure)
        assert not any(found.get_parse_math() for found in [*figure.texts, *figure.legends[0].get_texts()])
    assert labels(dots.axes[0]) == fold([text])


@pytest.mark.parametrize("make", [lambda: draw_dots(some_dots(), "BLEU"), lambda: draw_bands([a_band()], "x", "y")])
def test_the_same_values_give_the_same_bytes(make) -> None:
    figure = make()
    first = figures.render_figure(figure, ".svg")
    assert figures.render_figure(figure, ".svg") == first == figures.render_figure(make(), ".svg")


def test_long_labels_are_shortened_in_the_middle_and_wrapped() -> None:
    assert truncate("abcdefghij", 7) == "abc…hij"
    assert fold(["short"]) == ["short"]
    assert fold(["one two three four five six seven"]) == ["one two three four\nfive six seven"]
    assert fold(["transformer, 1 layer, 4 heads"]) == ["transformer,\n1 layer, 4 heads"]
    assert fold(["a " + "b" * 40]) == ["a " + "b" * 19 + "\n" + "b" * 21]
    (folded,) = fold(["layers and " * 20])
    assert len(folded) <= LONGEST_TEXT
    assert all(len(line) <= LONGEST_LINE + 12 for line in folded.split("\n"))
    assert len(folded.split("\n")) == 2
    assert "\n" not in fold(["layers and " * 20], lines=1)[0]


def test_labels_that_differ_only_in_the_middle_stay_distinct() -> None:
    alike = [f"{'a' * 60}{number}{'b' * 60}" for number in range(3)]
    assert len(set(fold(alike))) == 3
