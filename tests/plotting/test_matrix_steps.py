import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from regard.plotting import figures
from regard.plotting.matrix_steps import USUAL_WIDTH, ColorScale, Grid, draw_matrix_steps
from regard.plotting.symbols import Formula


def a_grid(rows: int, columns: int, **more: object) -> Grid:
    values = np.random.default_rng(0).normal(size=(rows, columns)).tolist()
    names = [f"r{n}" for n in range(rows)], [f"c{n}" for n in range(columns)]
    return Grid(Formula("E"), "e = q · k", values, *names, **more)


def texts(figure: Figure) -> list[str]:
    (axes,) = figure.axes
    return [text.get_text() for text in axes.texts]


def cells(figure: Figure) -> list[QuadMesh]:
    (axes,) = figure.axes
    return [mesh for mesh in axes.collections if isinstance(mesh, QuadMesh)]


def overlaps(figure: Figure) -> int:
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    return sum(one.overlaps(other) for n, one in enumerate(boxes) for other in boxes[:n])


def test_a_grid_shows_its_symbol_formula_labels_and_values() -> None:
    symbols = Formula("E"), Formula("e = q · k")
    grid = Grid(*symbols, [[1, -2, 0.5], [3, 0, 4]], [Formula("q_1"), "q_2"], ["k_1", "k_2", "k_3"])
    figure = draw_matrix_steps([[grid]], "{:g}".format)
    values, names = ["1", "-2", "0.5", "3", "0", "4"], ["$q_{1}$", "q_2", "k_1", "k_2", "k_3"]
    scale = ["-4", "4", "all cells"]
    assert texts(figure) == ["$E$", "$e$ = $q$ · $k$", *values, *names, *scale], "symbols are typeset, other names not"
    (mesh,) = cells(figure)
    np.testing.assert_allclose(mesh.get_array(), np.array([[1, -2, 0.5], [3, 0, 4]]) / 4)
    assert mesh.get_clim() == (-1, 1), "zero is white"
    figures.render_figure(figure, ".svg")


def test_values_are_inside_their_cells() -> None:
    figure = draw_matrix_steps([[Grid("E", "", [[1, 2, 3], [4, 5, 6]], ["a", "b"], ["c", "d", "e"])]], "{:g}".format)
    where = {text.get_text(): text.get_position() for text in figure.axes[0].texts}
    assert where["1"][0] == where["4"][0] == where["c"][0] < where["2"][0] < where["3"][0] == where["e"][0]
    assert where["1"][1] == where["3"][1] == where["a"][1] < where["4"][1] == where["b"][1]


def test_values_of_different_kinds_have_no_colors() -> None:
    (mesh,) = cells(draw_matrix_steps([[a_grid(2, 3, scale=None)]], "{:g}".format))
    assert not np.any(mesh.get_array())


def test_equal_numbers_have_equal_colors_in_all_grids_of_a_scale() -> None:
    small, large = Grid("b", "", [[0.1, -0.1]], ["a"], ["c", "d"]), Grid("W", "", [[0.1, 0.8]], ["a"], ["c", "d"])
    figure = draw_matrix_steps([[small], [large]], "{:g}".format)
    np.testing.assert_allclose(cells(figure)[0].get_array(), [[0.125, -0.125]])
    np.testing.assert_allclose(cells(figure)[1].get_array(), [[0.125, 1]])
    assert texts(figure)[-3:] == ["-0.8", "0.8", "all cells"], "the legend states the scale"
    assert len(figure.axes[0].images) == 1


def test_scales_of_other_quantities_are_separate_and_stated() -> None:
    scores = Grid("e", "", [[1000, -400]], ["a"], ["c", "d"], ColorScale("scores"))
    weights = Grid("α", "", [[0.25, 0.75]], ["a"], ["c", "d"], ColorScale(Formula("weights α"), 1.0))
    outputs = Grid("y", "", [[3, 4]], ["a"], ["c", "d"], scale=None)
    figure = draw_matrix_steps([[scores, weights, outputs]], "{:g}".format)
    arrays = [mesh.get_array() for mesh in cells(figure)]
    np.testing.assert_allclose(arrays, [[[1, -0.4]], [[0.25, 0.75]], [[0, 0]]])
    assert texts(figure)[-6:] == ["-1000", "1000", "scores", "0", "1", r"weights $α$"]
    signed, positive = (image.get_array() for image in figure.axes[0].images)
    assert (signed.min(), signed.max(), positive.min(), positive.max()) == (-1, 1, 0, 1)
    assert overlaps(figure) == 0


def test_marks_and_columns_without_colors() -> None:
    grid = a_grid(3, 4, plain_columns=1, row_title="input", outlined=[(0, 1)], bold=[(2, 0)], arrows=[(0, 1), (1, 2)])
    figure = draw_matrix_steps([[grid]], "{:.4f}".format, key="frame: target")
    (mesh,) = cells(figure)
    numbers = np.asarray(grid.numbers)
    np.testing.assert_allclose(mesh.get_array()[:, :3], numbers[:, :3] / np.abs(numbers[:, :3]).max())
    assert not np.any(mesh.get_array()[:, 3])
    drawn = {text.get_text(): text for text in figure.axes[0].texts}
    assert [text for text, each in drawn.items() if each.get_fontweight() == "bold"] == [f"{numbers[2, 0]:.4f}"]
    assert {"input", "frame: target"} <= drawn.keys()
    arrows = [patch for patch in figure.axes[0].patches if isinstance(patch, FancyArrowPatch)]
    for arrow, column, row in zip(arrows, (1, 2), (1, 2), strict=True):
        vertices = arrow.get_path().vertices
        assert vertices[0][0] == pytest.approx(drawn[f"c{column}"].get_position()[0]), "from the cell"
        name_x, name_y = drawn[f"r{row}"].get_position()
        assert vertices[4][1] == pytest.approx(name_y), "to the name of the next row"
        assert name_x < vertices[4][0] < vertices[0][0]
    (frame,) = [
        patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle) and patch.get_linewidth() == 2
    ]
    x, y = drawn[f"{numbers[0, 1]:.4f}"].get_position()
    assert frame.get_x() < x < frame.get_x() + frame.get_width()
    assert frame.get_y() < y < frame.get_y() + frame.get_height()
    assert overlaps(figure) == 0


def test_single_grids_below_each_other_have_their_columns_at_the_same_x() -> None:
    one, other = (Grid("p", "", [[number, 2]], [name], ["c", "d"]) for number, name in ((1, "a"), (1234567, "longer")))
    figure = draw_matrix_steps([[one], [other]], "{:g}".format)
    places = [text.get_position()[0] for text in figure.axes[0].texts if text.get_text() in ("c", "d")]
    assert places[:2] == places[2:]


@pytest.mark.parametrize("shape", [(1, 1), (7, 5), (19, 11), (23, 3), (2, 13), (47, 50)])
def test_nothing_overlaps_at_any_size_and_the_figure_stays_small(shape: tuple[int, int]) -> None:
    figure = draw_matrix_steps([[a_grid(*shape), a_grid(*reversed(shape))], [a_grid(*shape)]], "{:.4g}".format)
    assert overlaps(figure) == 0
    assert max(figure.get_size_inches()) < 30


def test_grids_of_many_columns_have_colors_only() -> None:
    assert "0.1257" in texts(draw_matrix_steps([[a_grid(3, 12)]], "{:.4f}".format))
    figure = draw_matrix_steps([[a_grid(3, 13)]], "{:.4f}".format)
    assert "0.1257" not in texts(figure)
    assert cells(figure)[0].get_array().shape == (3, 13)


def test_grids_are_placed_side_by_side_until_the_line_is_full() -> None:
    figure = draw_matrix_steps([[a_grid(2, 3)] * 7, [a_grid(2, 3)]], "{:g}".format)
    positions = [text.get_position() for text in figure.axes[0].texts if text.get_text() == "$E$"]
    tops = [y for _, y in positions]
    assert tops == sorted(tops)
    assert 1 < tops.count(tops[0]) < 7
    assert tops.count(tops[-1]) == 1
    assert figure.get_size_inches()[0] < USUAL_WIDTH + 0.1


def test_labels_are_drawn_literally() -> None:
    hostile = "$x^2$ \x1b[31m" + "long" * 20
    figure = draw_matrix_steps([[Grid(hostile, "", [[1]], [hostile], ["c"])]], "{:g}".format)
    symbol, name = (text for text in figure.axes[0].texts if text.get_text().startswith("$x^2$"))
    for text in (symbol, name):
        assert not text.get_parse_math()
        assert "\x1b" not in text.get_text()
    assert len(name.get_text()) == 28
    figures.render_figure(figure, ".png")


def test_a_grid_of_zeros_is_drawn() -> None:
    (mesh,) = cells(draw_matrix_steps([[Grid("E", "", [[0, 0]], ["a"], ["b", "c"])]], "{:g}".format))
    assert not np.any(mesh.get_array())
