"""Lines of text as pictures."""

from __future__ import annotations

import numpy as np
import pytest

from regard.images.drawing import FONTS, DrawnLine, load_font, missing_characters


@pytest.mark.parametrize("font", FONTS)
def test_boxes_have_all_ink_of_their_characters(font: str) -> None:
    line = DrawnLine.of("1f7g", load_font(font, 20), spacing=3.0)
    left, top, right, bottom = line.ink
    size, origin = (right - left + 4, bottom - top + 4), (2 - left, 2 - top)
    picture = np.asarray(line.draw(size, origin)) > 0
    inside = np.zeros_like(picture)
    for a, b, c, d in line.boxes:
        place = slice(b + origin[1], d + origin[1]), slice(a + origin[0], c + origin[0])
        inside[place] = True
        assert picture[place].any(1)[[0, -1]].all()  # the box is not higher than the ink
    assert picture.any()
    assert not (picture & ~inside).any()


def test_spacing_separates_characters() -> None:
    font = load_font("mono", 20)
    dense, wide = DrawnLine.of("123", font), DrawnLine.of("123", font, spacing=5)
    assert [b - a for a, b in zip(dense.lefts, wide.lefts, strict=True)] == [0, 5, 10]


def test_characters_that_a_font_lacks() -> None:
    assert missing_characters("aä漢字", "serif") == "漢字"
