import math
from itertools import pairwise

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.errors import UserError
from regard.plotting import figures
from regard.plotting.band_plot import Band, draw_bands
from regard.plotting.dot_plot import DotRow, draw_dots
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


def labels(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.get_yticklabels()]


def keys(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def figure_texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.texts]


def test_many_lines_are_distinguishable() -> None:
    styles = [line_style(number) for number in range(28)]
    assert len({(each["color"], each["linestyle"]) for each in styles}) == 28
    for first, second in pairwise(styles):
        assert not set(first.items()) & set(second.items())
    assert "#F0E442" not in {each["color"] for each in styles}, "yellow on white"


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
