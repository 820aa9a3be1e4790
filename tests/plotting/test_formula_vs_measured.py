from regard.plotting import figures
from regard.plotting.formula_vs_measured import Curve, draw_formula_curves


def test_points_are_drawn_with_the_line_of_their_formula() -> None:
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


def test_identical_series_are_both_visible() -> None:
    same = ([1, 2], [0.5, 0.5])
    (axes,) = draw_formula_curves([Curve("a", same, same), Curve("b", same, same)], "x", "y").axes
    first, second = (line for line in axes.lines if line.get_linestyle() == "None")
    assert first.get_markersize() > second.get_markersize()
    assert first.get_marker() != second.get_marker()


def test_points_without_a_formula_have_no_line() -> None:
    figure = draw_formula_curves([Curve("v_a", None, ([1, 4], [0.2, 0.8]))], "s", "share")
    (axes,) = figure.axes
    assert [line.get_linestyle() for line in axes.lines] == ["None"]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["v_a", "points: measured"]
