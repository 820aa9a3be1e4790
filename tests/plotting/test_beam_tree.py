from dataclasses import dataclass, replace
from xml.etree import ElementTree

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.text import Text

from regard.plotting import figures
from regard.plotting.attention_map import LONGEST_LABEL
from regard.plotting.beam_tree import FATES, PATH_TO_BEST, draw_beam_tree
from regard.plotting.tree_layout import (
    ABOVE_PRUNED,
    MAX_BEAM_ROWS,
    MAX_PRUNED_ROWS,
    MAX_WIDTH,
    arrange,
    best_ranks,
)


@dataclass(frozen=True)
class Hypothesis:
    length: int
    parent: int | None
    label: str
    score: float
    fate: str
    rank: int | None = None


# A beam of 2 over 3 tokens, one runner-up per step: "y" wins though "x" was ahead, and "x y z" has no rank.
TREE = [
    Hypothesis(1, None, "x", -0.11, "kept"),
    Hypothesis(1, None, "y", -0.22, "kept"),
    Hypothesis(1, None, "z", -0.33, "pruned"),
    Hypothesis(2, 1, "<end>", -0.44, "finished", 1),
    Hypothesis(2, 0, "y", -0.55, "kept"),
    Hypothesis(2, 0, "<end>", -0.66, "pruned"),
    Hypothesis(3, 4, "<end>", -0.77, "finished", 2),
    Hypothesis(3, 4, "z", -0.88, "truncated"),
]


def chain(steps: int, label: str = "w", beam: int = 1) -> list[Hypothesis]:
    """Hypotheses side by side, each of which continues without branching."""
    return [
        Hypothesis(step, beam * (step - 2) + position if step > 1 else None, label, -step, "kept")
        for step in range(1, steps + 1)
        for position in range(beam)
    ]


# As long and as wide as 36 steps of a beam of 10, and far faster to draw.
LARGE = [*chain(36), *chain(1, beam=9)]


def axes_of(figure: Figure) -> Axes:
    (axes,) = figure.axes
    return axes


def boxes(figure: Figure) -> list[FancyBboxPatch]:
    """The empty hypothesis, then all nodes."""
    return [patch for patch in axes_of(figure).patches if isinstance(patch, FancyBboxPatch)]


def edges(figure: Figure) -> list[PathPatch]:
    return [patch for patch in axes_of(figure).patches if isinstance(patch, PathPatch)]


def text(figure: Figure, string: str) -> Text:
    (found,) = [text for text in axes_of(figure).texts if text.get_text() == string]
    return found


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in axes_of(figure).get_legend().get_texts()]


def svg_texts(figure: Figure) -> list[str]:
    tree = ElementTree.fromstring(figures.render_figure(figure, ".svg"))
    return ["".join(element.itertext()).strip() for element in tree.iter("{http://www.w3.org/2000/svg}text")]


def test_the_step_is_the_column_and_pruned_nodes_are_below_the_beam() -> None:
    below = 2 + ABOVE_PRUNED
    assert arrange(TREE) == [(1, 0), (1, 1), (1, below), (2, 0), (2, 1), (2, below), (3, 0), (3, 1)]


def test_pruned_nodes_of_all_steps_begin_at_the_same_row() -> None:
    few = [node for node in TREE if node != TREE[1]]
    assert arrange(few)[:2] == [(1, 0), (1, 2 + ABOVE_PRUNED)]
    assert arrange([TREE[2]] * 2) == [(1, ABOVE_PRUNED), (1, 1 + ABOVE_PRUNED)], "none was kept"


def test_a_node_has_the_best_rank_of_its_descendants() -> None:
    assert best_ranks(TREE) == [2, 1, None, 1, 2, None, 2, None]


@pytest.mark.parametrize("ranks", [(1, 3), (3, 1)])
def test_a_node_with_two_results_has_the_better_rank(ranks: tuple[int, int]) -> None:
    twins = [replace(TREE[6], parent=0, length=2, rank=rank) for rank in ranks]
    assert best_ranks([TREE[0], *twins]) == [1, *ranks]


def test_tokens_scores_ranks_and_steps_are_labeled() -> None:
    found = svg_texts(draw_beam_tree(TREE, title="case"))
    for node in TREE:
        assert found.count(node.label) == sum(other.label == node.label for other in TREE)
        assert found.count(f"{node.score:.2f}") == 1
    assert [text for text in found if text.startswith("#")] == ["#1", "#2"]
    assert {"case", "start", "score", "step", "1", "2", "3"} <= set(found)


def test_a_score_that_rounds_to_nothing_has_no_sign() -> None:
    assert {"0.00", "-0.01"} <= set(svg_texts(draw_beam_tree([replace(TREE[0], score=s) for s in (-0.004, -0.006)])))


def test_each_node_has_a_box_and_an_edge_from_its_parent() -> None:
    figure = draw_beam_tree(TREE)
    start, *nodes = boxes(figure)
    assert len(nodes) == len(edges(figure)) == len(TREE)
    for node, box, edge in zip(TREE, nodes, edges(figure), strict=True):
        parent = start if node.parent is None else nodes[node.parent]
        begin, end = edge.get_path().vertices[[0, -1]]
        assert begin == pytest.approx((parent.get_x() + parent.get_width(), parent.get_y() + parent.get_height() / 2))
        assert end == pytest.approx((box.get_x(), box.get_y() + box.get_height() / 2))


def test_steps_go_to_the_right_and_better_nodes_are_above() -> None:
    figure = draw_beam_tree(TREE)
    _, *nodes = boxes(figure)
    assert [box.get_x() for box in nodes] == sorted(box.get_x() for box in nodes)
    first = [box.get_y() for box in nodes[:3]]
    assert first == sorted(set(first))
    assert axes_of(figure).yaxis_inverted()


def test_the_path_to_the_best_result_is_bold() -> None:
    figure = draw_beam_tree(TREE)
    widths = [edge.get_linewidth() for edge in edges(figure)]
    other, best, pruned, kept = widths[0], widths[1], widths[2], widths[7]
    assert pruned < kept < other < best
    assert widths == [other, best, pruned, best, other, pruned, other, kept]
    above = edges(figure)[1].get_zorder()
    assert [edge.get_zorder() == above for edge in edges(figure)] == [width == best for width in widths]
    on_the_path = [box.get_linewidth() == best for box in boxes(figure)]
    assert on_the_path == [True, False, True, *[False] * 6], "the start, and the y that wins; its <end> is finished"


def test_without_a_result_nothing_is_bold() -> None:
    figure = draw_beam_tree(chain(3))
    assert len({patch.get_linewidth() for patch in axes_of(figure).patches}) == 1
    assert legend(figure) == ["kept"]


def test_fates_differ_without_color() -> None:
    figure = draw_beam_tree([replace(TREE[0], fate=fate) for fate in FATES])
    white = (1, 1, 1, 1)
    styles = {(box.get_linestyle(), box.get_facecolor() == white) for box in boxes(figure)[1:]}
    assert len(styles) == len(FATES)


@pytest.mark.parametrize("fate", FATES)
def test_the_legend_lists_the_fates_that_occur(fate: str) -> None:
    node = replace(TREE[0], fate=fate)
    assert legend(draw_beam_tree([node])) == [FATES[fate].meaning]
    assert legend(draw_beam_tree([node, TREE[0]])) == list(dict.fromkeys([FATES["kept"].meaning, FATES[fate].meaning]))


def test_the_legend_lists_the_paths_that_occur() -> None:
    finished = replace(TREE[3], length=1, parent=None)
    assert legend(draw_beam_tree([finished]))[1:] == [PATH_TO_BEST.meaning]
    assert legend(draw_beam_tree([finished, replace(finished, rank=2)]))[1:] == [
        PATH_TO_BEST.meaning,
        "path to other results",
    ]
    assert legend(draw_beam_tree([replace(finished, rank=None)]))[1:] == []


@pytest.mark.parametrize("nodes", [TREE, TREE[:1], LARGE, chain(7, label="Wörterbuch")])
def test_nothing_overlaps_and_nothing_is_clipped(nodes: list[Hypothesis]) -> None:
    figure = draw_beam_tree(nodes, title="title")
    figure.draw_without_rendering()
    axes = axes_of(figure)
    frames = [box.get_window_extent() for box in boxes(figure)]
    captions = [text(figure, "title"), text(figure, "step"), axes.get_legend()]
    parts = [*frames, *(part.get_window_extent() for part in captions)]
    assert not any(a.overlaps(b) for n, a in enumerate(parts) for b in parts[:n])
    ranks = [text.get_window_extent() for text in axes.texts if text.get_text().startswith("#")]
    for part in (*frames, *ranks):
        assert figure.bbox.x0 < part.x0 < part.x1 < figure.bbox.x1
    assert axes.get_legend().get_window_extent().y0 > figure.bbox.y0
    for token in [text for text in axes.texts if text.get_text() in {node.label for node in nodes}]:
        inside = token.get_window_extent().padded(2)
        assert any(box.x0 < inside.x0 < inside.x1 < box.x1 and box.y0 < inside.y0 for box in frames)


def test_no_axes_are_drawn() -> None:
    assert not axes_of(draw_beam_tree(TREE)).axison


@pytest.mark.parametrize(
    "nodes", [chain(200, label="word"), chain(40, label="a" * 99, beam=3), chain(1, beam=100), LARGE]
)
def test_a_large_tree_fits_a_slide_and_is_legible(nodes: list[Hypothesis]) -> None:
    figure = draw_beam_tree(nodes, title="title")
    width, height = figure.get_size_inches()
    assert width <= MAX_WIDTH + 0.5
    assert height < 7.5
    sizes = {text.get_fontsize() for text in (*axes_of(figure).texts, *axes_of(figure).get_legend().get_texts())}
    assert min(sizes) >= 8


def test_a_small_tree_is_a_small_figure() -> None:
    assert max(draw_beam_tree(chain(2)).get_size_inches()) < 5


def test_steps_that_do_not_fit_are_folded_in_the_middle() -> None:
    nodes = [*chain(50, label="word"), replace(TREE[3], length=51, parent=49)]
    found = svg_texts(draw_beam_tree(nodes))
    steps = [int(text) for text in found if text.isdecimal()]
    assert steps[0] == 1
    assert steps[-1] == 51, "the end of the best hypothesis is drawn"
    assert len(boxes(draw_beam_tree(nodes))) == len(steps) + 1
    assert f"… {51 - len(steps)} more" in "".join(found)
    assert "#1" in found


def test_hypotheses_that_do_not_fit_are_counted_and_results_are_kept() -> None:
    worst = replace(TREE[0], label="worst", fate="finished", rank=1)
    nodes = [*chain(1, beam=MAX_BEAM_ROWS + 4), worst, *[replace(TREE[2], label="p")] * (MAX_PRUNED_ROWS + 2)]
    figure = draw_beam_tree(nodes)
    found = svg_texts(figure)
    assert len(boxes(figure)) == 1 + MAX_BEAM_ROWS + MAX_PRUNED_ROWS
    assert "worst" in found, "it leads to a result"
    assert "… 7 more" in found
    child = Hypothesis(2, MAX_BEAM_ROWS + 3, "child", -9, "kept")
    assert len(edges(draw_beam_tree([*nodes, child]))) == 2 + MAX_BEAM_ROWS + MAX_PRUNED_ROWS - 1


@pytest.mark.parametrize("token", ["$x$", r"\alpha", r"$\frac{", "_", "%", "<b>", "&amp;", "漢字", "שלום", "🙂"])
def test_tokens_and_title_are_drawn_literally(token: str) -> None:
    figure = draw_beam_tree([replace(TREE[0], label=token)], title=f"the {token}")
    for string in (token, f"the {token}"):
        assert not text(figure, string).get_parse_math()
        assert string in svg_texts(figure)
    assert figures.render_figure(figure, ".png")


@pytest.mark.parametrize(
    ("token", "shown"),
    [("\n", r"\n"), (" ", "␣"), ("\x00", r"\x00"), ("\ud800", r"\ud800"), ("a" * 99, "a" * (LONGEST_LABEL - 1) + "…")],
)
def test_invisible_tokens_are_made_visible_and_long_ones_truncated(token: str, shown: str) -> None:
    assert shown in svg_texts(draw_beam_tree([replace(TREE[0], label=token)]))


def test_a_title_with_a_line_break_stays_one_line() -> None:
    assert r"one\ntwo" in svg_texts(draw_beam_tree(TREE, title="one\ntwo"))


def test_an_empty_tree_is_reported_in_the_figure() -> None:
    figure = draw_beam_tree([], title="$silence$")
    assert [text.get_text() for text in figure.texts] == ["no hypothesis was considered", "$silence$"]
    assert not figure.axes


@pytest.mark.parametrize("suffix", figures.METADATA)
def test_the_same_tree_gives_the_same_bytes(suffix: str) -> None:
    assert figures.render_figure(draw_beam_tree(TREE, "a"), suffix) == figures.render_figure(
        draw_beam_tree(TREE, "a"), suffix
    )
