import numpy as np

from regard.plotting import figures
from regard.plotting.position_encodings import draw_position_encodings


def test_vectors_are_images_and_similarities_lines() -> None:
    vectors = {"sine": np.sin(np.arange(35.0)).reshape(5, 7), "one-hot": np.eye(5)}
    figure = draw_position_encodings(vectors, {"sine": [1, 0.5, 0.2, 0.1, 0], "one-hot": [1, 0, 0, 0, 0]})
    sine, one_hot, *_, lines = figure.axes
    np.testing.assert_array_equal(sine.images[0].get_array(), vectors["sine"])
    np.testing.assert_array_equal(one_hot.images[0].get_array(), vectors["one-hot"])
    assert sine.images[0].get_clim() == one_hot.images[0].get_clim() == (-1, 1)
    assert sine.images[0].origin == "upper", "the first position is the first row"
    assert [sine.get_title("left"), one_hot.get_title("left")] == ["sine", "one-hot"]
    assert [list(line.get_ydata()) for line in lines.lines] == [[1, 0.5, 0.2, 0.1, 0], [1, 0, 0, 0, 0]]
    assert [text.get_text() for text in lines.get_legend().get_texts()] == ["sine", "one-hot"]
    figures.render_figure(figure, ".svg")
