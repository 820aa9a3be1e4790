"""Attention over a picture."""

from __future__ import annotations

import numpy as np
import pytest

from regard.plotting.palette import ATTENTION_COLORMAP
from regard.plotting.picture_map import GAP, draw_picture_map, picture_strips

PIXELS = np.array([[0, 255, 0, 0], [0, 0, 0, 51]], dtype=np.uint8)
BOXES = ((0, 0, 2, 2), (2, 0, 4, 2))
WEIGHTS = np.array([[0.9, 0.1, 0.0], [0.0, 0.25, 0.75], [0.2, 0.3, 0.5]])


def test_strips_by_hand() -> None:
    """(1 − ink) · color of the weight + ink · black, or white on dark colors."""
    strips = picture_strips(WEIGHTS, PIXELS, BOXES)
    assert strips.shape == (4 * 2 + 3 * GAP, 4 + GAP + 2, 3)
    plain, first, second = strips[:2], strips[2 + GAP : 4 + GAP], strips[4 + 2 * GAP : 6 + 2 * GAP]
    np.testing.assert_allclose(plain[0, :2], [[1, 1, 1], [0.1, 0.1, 0.1]])
    np.testing.assert_allclose(first[0, 0], ATTENTION_COLORMAP(0.9)[:3])
    np.testing.assert_allclose(first[0, 1], [1, 1, 1])  # white ink
    np.testing.assert_allclose(first[1, 3], 0.8 * np.array(ATTENTION_COLORMAP(0.1)[:3]) + 0.2 * 0.1)
    np.testing.assert_allclose(second[0, 4 + GAP], ATTENTION_COLORMAP(0.75)[:3])  # the end of the source
    np.testing.assert_allclose(strips[2 : 2 + GAP], 1)


def test_squares_are_colored_at_their_places() -> None:
    boxes = ((0, 0, 4, 1), (0, 1, 4, 2))
    strips = picture_strips(np.array([[1.0, 0.0, 0.0]]), np.zeros((2, 4), np.uint8), boxes)
    np.testing.assert_allclose(strips[2 + GAP, :4], np.tile(ATTENTION_COLORMAP(1.0)[:3], (4, 1)))
    np.testing.assert_allclose(strips[3 + GAP, :4], 1)


@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
def test_there_is_a_column_of_strips_for_each_layer_and_head(lead: tuple[int, ...]) -> None:
    weights = np.broadcast_to(WEIGHTS, (*lead, 3, 3))
    axes = ("layer", "head")[-len(lead) :] if lead else ()
    figure = draw_picture_map(weights, PIXELS, BOXES, ["4", "2", "<end>"], title="$42$", axes=axes)
    panels = [panel for panel in figure.axes if panel.get_images()]
    assert len(panels) == max(1, int(np.prod(lead)))
    assert [label.get_text() for label in panels[0].get_yticklabels()] == ["", "4", "2", "<end>"]
    assert figure.texts[0].get_text() == "$42$"
    if lead:
        assert panels[1].get_title() == ("head 2" if len(lead) == 1 else "layer 1 · head 2")


def test_weights_must_fit_the_patches() -> None:
    with pytest.raises(ValueError, match=r"do not end in \[3 target tokens, 2 source tokens\]"):
        draw_picture_map(WEIGHTS, PIXELS, BOXES[:1], ["4", "2", "<end>"])
    assert draw_picture_map(np.zeros((0, 3)), PIXELS, BOXES, []).texts[0].get_text() == "empty output"
