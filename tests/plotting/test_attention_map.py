import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.typing import ColorType

from regard.plotting import figures
from regard.plotting.attention_map import LONGEST_LABEL, draw_attention_map, token_label
from regard.plotting.palette import ATTENTION_COLORMAP

SOURCE = ["<U>", "I", " ", "a", "m", "!", "<end>"]  # 7 columns
TARGET = ["I", " ", "A", "M", "<end>"]  # 5 rows


def some_weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).dirichlet(np.ones(shape[-1]), size=shape[:-1])


def maps_of(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.images]


def texts(labels: list) -> list[str]:
    return [text.get_text() for text in labels]


def all_text(figure: Figure) -> list[str]:
    return texts(figure.texts)


def test_the_image_shows_the_weights_row_by_row() -> None:
    weights = some_weights(5, 7)
    (panel,) = maps_of(draw_attention_map(weights, SOURCE, TARGET))
    image = panel.images[0]
    np.testing.assert_array_equal(image.get_array(), weights)
    assert image.get_clim() == (0, 1), "the scale is the same in all figures"
    assert image.origin == "upper", "the first token is the first row"
    assert panel.get_aspect() == 1, "cells are square"


def test_source_labels_are_on_top_and_outputs_on_the_left_each_at_its_cell() -> None:
    figure = draw_attention_map(some_weights(5, 7), SOURCE, TARGET, title="case")
    figure.draw_without_rendering()  # positions are known after drawing
    (panel,) = maps_of(figure)
    assert texts(panel.get_xticklabels()) == ["<U>", "I", "␣", "a", "m", "!", "<end>"]
    assert texts(panel.get_yticklabels()) == ["I", "␣", "A", "M", "<end>"]
    for n, text in enumerate(panel.get_xticklabels()):
        x, y = panel.transAxes.inverted().transform(text.get_window_extent().get_points().mean(axis=0))
        assert y > 1
        assert x == pytest.approx((n + 0.5) / 7, abs=0.03)
    for n, text in enumerate(panel.get_yticklabels()):
        x, y = panel.transAxes.inverted().transform(text.get_window_extent().get_points().mean(axis=0))
        assert x < 0
        assert y == pytest.approx(1 - (n + 0.5) / 5, abs=0.03)
    assert all_text(figure) == ["case"]


@pytest.mark.parametrize("count", [3, 31, 60, 240])
@pytest.mark.parametrize("token", ["W", "Wörter"])
def test_labels_do_not_overlap_and_the_figure_stays_small(count: int, token: str) -> None:
    figure = draw_attention_map(some_weights(2, count), [token] * count, ["x", "y"], title="title")
    figure.draw_without_rendering()
    (panel,) = maps_of(figure)
    labels = panel.get_xticklabels()
    assert len(labels) == count
    # Slanted labels do not overlap when their distance, across the slant, is more than the font size.
    step = panel.bbox.width / count * 72 / figure.dpi
    across = step * (0.707 if labels[0].get_rotation() else 1)
    assert across > labels[0].get_fontsize()
    assert labels[0].get_fontsize() >= 4
    assert max(figure.get_size_inches()) < 27
    title = figure.texts[0].get_window_extent()
    assert not any(title.overlaps(text.get_window_extent()) for text in (*labels, panel.xaxis.label))


def test_characters_are_upright_and_words_are_slanted() -> None:
    (panel,) = maps_of(draw_attention_map(some_weights(5, 7), SOURCE, TARGET))
    assert [text.get_rotation() for text in panel.get_xticklabels()] == [90, 0, 0, 0, 0, 0, 90]
    (panel,) = maps_of(draw_attention_map(some_weights(1, 3), ["ein", "Mädchen", "."], ["a"]))
    assert [text.get_rotation() for text in panel.get_xticklabels()] == [45, 45, 45]


def test_where_cells_are_smaller_than_the_font_only_some_are_labeled() -> None:
    (panel,) = maps_of(draw_attention_map(some_weights(1, 500), [str(n % 10) for n in range(500)], ["x"]))
    assert list(panel.get_xticks()[:3]) == [0, 3, 6]
    assert texts(panel.get_xticklabels())[:3] == ["0", "3", "6"]


def test_layers_are_rows_of_maps_and_heads_are_columns() -> None:
    weights = some_weights(2, 3, 5, 7)
    figure = draw_attention_map(weights, SOURCE, TARGET, title="all", axes=("layer", "head"))
    panels = maps_of(figure)
    assert len(panels) == 6
    assert len(figure.axes) == 7, "one color bar for all"
    assert [panel.get_title() for panel in panels][:4] == [
        "layer 1 · head 1",
        "layer 1 · head 2",
        "layer 1 · head 3",
        "layer 2 · head 1",
    ]
    np.testing.assert_array_equal(panels[4].images[0].get_array(), weights[1, 1])
    left = [round(panel.get_position().x0, 6) for panel in panels]
    bottom = [round(panel.get_position().y0, 6) for panel in panels]
    assert left[:3] == left[3:] == sorted(set(left))
    assert len(set(bottom)) == 2
    assert bottom[0] > bottom[3], "layer 1 is above layer 2"


def test_small_multiples_have_labels_on_the_outer_edges_only() -> None:
    panels = maps_of(draw_attention_map(some_weights(2, 3, 5, 7), SOURCE, TARGET, axes=("layer", "head")))
    assert [len(panel.get_xticklabels()) for panel in panels] == [7, 7, 7, 0, 0, 0]
    assert [len(panel.get_yticklabels()) for panel in panels] == [5, 0, 0, 5, 0, 0]


def test_one_leading_axis_is_wrapped_into_rows_of_four() -> None:
    panels = maps_of(draw_attention_map(some_weights(6, 5, 7), SOURCE, TARGET, axes=("head",)))
    assert [panel.get_title() for panel in panels] == [f"head {n}" for n in range(1, 7)]
    assert len({round(panel.get_position().y0, 6) for panel in panels}) == 2
    assert len({round(panel.get_position().x0, 6) for panel in panels}) == 4


def test_maps_do_not_overlap() -> None:
    figure = draw_attention_map(some_weights(3, 5, 7, 11), ["word"] * 11, ["w"] * 7, axes=("layer", "head"))
    boxes = [axes.get_position() for axes in figure.axes]
    assert not any(a.overlaps(b) for n, a in enumerate(boxes) for b in boxes[:n])


@pytest.mark.parametrize("kind", [list, torch.tensor, lambda rows: torch.tensor(rows, requires_grad=True)])
def test_weights_may_be_lists_or_tensors(kind) -> None:
    (panel,) = maps_of(draw_attention_map(kind([[0.25, 0.75]]), ["a", "b"], ["c"]))
    np.testing.assert_array_equal(panel.images[0].get_array(), [[0.25, 0.75]])


@pytest.mark.parametrize("token", ["$x$", r"\alpha", "_", "^", "%", "$", r"$\frac{", "#", "{}"])
def test_tokens_are_drawn_literally(token: str) -> None:
    figure = draw_attention_map([[1.0]], [token], [token], title=token)
    (panel,) = maps_of(figure)
    for text in (*panel.get_xticklabels(), *panel.get_yticklabels(), *figure.texts):
        assert text.get_text() == token
        assert not text.get_parse_math()
    figures.render_figure(figure, ".png")


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        (" ", "␣"),
        ("\n", r"\n"),
        ("\t", r"\t"),
        ("\x00", r"\x00"),
        ("\ud800", r"\ud800"),
        ("\u200b", r"\u200b"),
        ("\xa0", r"\xa0"),
        ("<end>", "<end>"),
        ("▁straße", "▁straße"),
        ("a" * LONGEST_LABEL, "a" * LONGEST_LABEL),
        ("a" * (LONGEST_LABEL + 1), "a" * (LONGEST_LABEL - 1) + "…"),
        ("", ""),
    ],
)
def test_label(token: str, shown: str) -> None:
    assert token_label(token) == shown


def test_higher_weights_are_darker_and_zero_is_the_paper_color() -> None:
    red, green, blue, _ = ATTENTION_COLORMAP(np.linspace(0, 1, 101)).T
    brightness = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    assert (np.diff(brightness) < 0).all()
    assert brightness[0] == pytest.approx(1), "white"
    assert brightness[-1] < 0.2
    (panel,) = maps_of(draw_attention_map(some_weights(5, 7), SOURCE, TARGET))
    assert panel.images[0].get_cmap() == ATTENTION_COLORMAP


@pytest.mark.parametrize("weights", [[], np.zeros((0, 7)), np.zeros((3, 0, 7))])
def test_an_empty_output_is_reported_in_the_figure(weights) -> None:
    figure = draw_attention_map(weights, SOURCE, [], title="$silence$", axes=("head",) if np.ndim(weights) == 3 else ())
    assert all_text(figure) == ["empty output", "$silence$"]
    figures.render_figure(figure, ".svg")


def test_an_empty_source_is_reported_in_the_figure() -> None:
    assert all_text(draw_attention_map(np.zeros((5, 0)), [], TARGET)) == ["empty source"]


@pytest.mark.parametrize(
    ("shape", "axes", "message"),
    [
        ((7, 5), (), r"shape \[7, 5\] do not end in \[5 target tokens, 7 source tokens\]"),
        ((7,), (), r"shape \[7\] do not end in"),
        ((5, 6), (), r"shape \[5, 6\] do not end in"),
        ((3, 5, 7), (), r"shape \[3, 5, 7\] have 1 leading axes, but axes=\(\) names 0"),
        ((5, 7), ("head",), r"have 0 leading axes, but axes=\('head',\) names 1"),
        ((0, 5, 7), ("head",), r"shape \[0, 5, 7\] hold no map"),
    ],
)
def test_weights_that_do_not_fit_are_refused(shape: tuple[int, ...], axes: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw_attention_map(np.ones(shape), SOURCE, TARGET, axes=axes)


def test_weights_without_target_tokens_are_refused() -> None:
    with pytest.raises(ValueError, match=r"do not end in \[0 target tokens"):
        draw_attention_map(np.ones((5, 7)), SOURCE, [])


PIECES = ["▁Ein", "▁spiel", "ende", "s", "▁Kind", "<end>"]
BEGINS = [True, True, False, False, True, True]


def lines_of(panel: Axes, inside: bool) -> list[list[tuple[float, float]]]:
    """The ends of the lines on the map, between words, or outside it: brackets."""
    rows, columns = panel.images[0].get_array().shape
    segments = [segment for lines in panel.collections for segment in lines.get_segments()]
    within = [bool(((s >= -0.5) & (s <= [columns - 0.5, rows - 0.5])).all()) for s in segments]
    return [[tuple(end) for end in s] for s, is_within in zip(segments, within, strict=True) if is_within == inside]


def test_subwords_are_labeled_as_parts_of_words() -> None:
    (panel,) = maps_of(draw_attention_map(some_weights(6, 6), PIECES, PIECES, starts=BEGINS, source_starts=BEGINS))
    shown = ["Ein", "spiel", "‑ende", "‑s", "Kind", "<end>"]
    assert texts(panel.get_xticklabels()) == shown
    assert texts(panel.get_yticklabels()) == shown
    (panel,) = maps_of(draw_attention_map(some_weights(6, 6), PIECES, PIECES, source_starts=BEGINS))
    assert texts(panel.get_xticklabels()) == shown
    assert texts(panel.get_yticklabels()) == PIECES, "without word starts, every token is a word"


def test_words_are_separated_by_lines_and_subwords_joined_by_brackets() -> None:
    weights = some_weights(2, 6)
    figure = draw_attention_map(weights, PIECES, ["a", "b"], source_starts=BEGINS)
    (panel,) = maps_of(figure)
    np.testing.assert_array_equal(panel.images[0].get_array(), weights, "pieces are drawn as they are")
    assert panel.get_xlim() == (-0.5, 5.5), "the lines have not moved the map"
    assert panel.get_ylim() == (1.5, -0.5)
    separators = lines_of(panel, inside=True)
    assert sorted({x for (x, _), (other, _) in separators if x == other}) == [0.5, 3.5, 4.5]
    assert sorted({y for (_, y), (_, other) in separators if y == other}) == [0.5]
    ((left, above), (right, also_above)) = lines_of(panel, inside=False)[0]
    assert len(lines_of(panel, inside=False)) == 1, "only a word of several subwords has a bracket"
    assert above == also_above < -0.5
    assert 0.5 < left < 1
    assert 3 < right < 3.5


def test_labels_do_not_overlap_the_brackets() -> None:
    figure = draw_attention_map(some_weights(6, 6), PIECES, PIECES, starts=BEGINS, source_starts=BEGINS)
    figure.draw_without_rendering()
    (panel,) = maps_of(figure)
    brackets = [panel.transData.transform(ends) for ends in lines_of(panel, inside=False)]
    above, beside = sorted(brackets, key=lambda ends: -abs(ends[0][0] - ends[1][0]))
    for text in panel.get_yticklabels():
        assert text.get_window_extent().x1 < beside[0][0]
    for text in panel.get_xticklabels():
        assert text.get_window_extent().y0 > above[0][1] - 1


def test_only_the_outer_maps_have_brackets() -> None:
    weights = some_weights(2, 3, 6, 6)
    panels = maps_of(
        draw_attention_map(weights, PIECES, PIECES, axes=("layer", "head"), starts=BEGINS, source_starts=BEGINS)
    )
    assert [len(lines_of(panel, inside=False)) for panel in panels] == [2, 1, 1, 1, 0, 0]
    assert all(len(lines_of(panel, inside=True)) == 6 for panel in panels)


def test_where_every_token_is_a_word_there_are_no_lines() -> None:
    for starts in (None, (), [True] * 7):
        (panel,) = maps_of(draw_attention_map(some_weights(5, 7), SOURCE, TARGET, source_starts=starts))
        assert not panel.collections


def test_word_starts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="2 starts do not fit 5 tokens"):
        draw_attention_map(some_weights(5, 7), SOURCE, TARGET, starts=[True, False])


def test_maps_of_different_kinds_have_their_own_titles_and_scale() -> None:
    figure = draw_attention_map(
        some_weights(3, 5, 7), SOURCE, TARGET, names=("attention", "$x$", "third"), measure="share"
    )
    assert [panel.get_title() for panel in maps_of(figure)] == ["attention", "$x$", "third"]
    assert "share" in [axes.get_ylabel() for axes in figure.axes]


def test_links_are_circled_at_their_source_and_output() -> None:
    (panel,) = maps_of(draw_attention_map(some_weights(5, 7), SOURCE, TARGET, links={(6, 1), (0, 4)}))
    rings = {
        (int(x), int(y))
        for line in panel.lines
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
        if line.get_marker() == "o"
    }
    assert rings == {(6, 1), (0, 4)}


def rings_of(panel: Axes) -> list[Line2D]:
    return [line for line in panel.lines if line.get_marker() == "o"]


def test_links_are_circled_in_every_map() -> None:
    panels = maps_of(draw_attention_map(some_weights(2, 5, 7), SOURCE, TARGET, axes=("head",), links={(1, 0), (6, 4)}))
    for panel in panels:
        for ring in rings_of(panel):
            assert {tuple(cell) for cell in ring.get_xydata().tolist()} == {(1, 0), (6, 4)}, "columns are sources"
        assert panel.get_xlim() == (-0.5, 6.5), "the rings have not moved the map"
    assert not any(
        ring.get_xydata().size for ring in rings_of(maps_of(draw_attention_map(some_weights(5, 7), SOURCE, TARGET))[0])
    )


@pytest.mark.parametrize("weight", np.linspace(0, 1, 11))
def test_a_ring_is_visible_on_every_cell_also_in_gray(weight: float) -> None:
    """Its line or its edge differs from the cell, and the line from the edge, with a contrast of 3 or more."""
    (panel,) = maps_of(draw_attention_map([[weight]], ["a"], ["b"], links={(0, 0)}))
    edge, line = rings_of(panel)
    assert edge.get_markeredgewidth() > line.get_markeredgewidth()
    assert edge.get_markersize() == line.get_markersize()
    assert edge.get_zorder() == line.get_zorder(), "the line is drawn later, over the middle of its edges"
    cell = brightness_of(ATTENTION_COLORMAP(weight))
    ring = [brightness_of(each.get_markeredgecolor()) for each in (edge, line)]
    assert max(contrast(cell, each) for each in ring) >= 3
    assert contrast(*ring) >= 3


def brightness_of(color: ColorType) -> float:
    """The relative luminance of the WCAG."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def contrast(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


def test_a_title_is_truncated_to_the_width_of_the_figure() -> None:
    figure = draw_attention_map(some_weights(5, 7), SOURCE, TARGET, title="A" * 500 + "Z")
    figure.draw_without_rendering()
    (title,) = figure.texts
    assert title.get_text().startswith("AAA")
    assert title.get_text().endswith("Z")
    assert title.get_window_extent().width < 1.3 * figure.get_window_extent().width
