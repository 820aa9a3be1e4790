import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from regard.plotting import figures
from regard.plotting.matrix_steps import Grid, draw_matrix_steps
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
    assert texts(figure) == ["$E$", "$e$ = $q$ · $k$", *values, *names], "symbols are typeset, other names are not"
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
    (mesh,) = cells(draw_matrix_steps([[a_grid(2, 3, tinted=False)]], "{:g}".format))
    assert not np.any(mesh.get_array())


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
    assert figure.get_size_inches()[0] < 15


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
