"""How a picture becomes patches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from regard.errors import UserError
from regard.images import PatchGrid, picture_to_uri
from regard.images.patches import to_gray, to_ink

COLUMNS = PatchGrid(height=2, max_width=11, patch_height=2, patch_width=3)
SQUARES = PatchGrid(height=4, max_width=100, patch_height=2, patch_width=3)


def picture(rows: list[list[int]]) -> Image.Image:
    return Image.fromarray(np.array(rows, dtype=np.uint8))


def test_columns_by_hand() -> None:
    """White is 200, the median of the border; 100 is the darkest and becomes 255, 160 is 40 % as dark."""
    image = COLUMNS.prepare(picture([[200, 100, 200, 200], [200, 200, 160, 255]]))
    assert image.pixels.tolist() == [[0, 255, 0, 0, 0, 0], [0, 0, 102, 0, 0, 0]]
    assert image.patches == (bytes([0, 255, 0, 0, 0, 102]), bytes(6))
    assert image.boxes == ((0, 0, 3, 2), (3, 0, 6, 2))
    assert image.labels == ("1", "2")
    assert image.size == (6, 2)
    assert COLUMNS.end == bytes(6)


def test_squares_are_in_reading_order() -> None:
    rows = (np.arange(24).reshape(4, 6) % 7 == 0) * 255
    image = SQUARES.prepare(Image.fromarray(rows.astype(np.uint8)))
    assert image.labels == ("1,1", "1,2", "2,1", "2,2")
    for patch, (left, top, right, bottom) in zip(image.patches, image.boxes, strict=True):
        assert patch == image.pixels[top:bottom, left:right].tobytes()
    assert image.boxes[1] == (3, 0, 6, 2)
    assert image.boxes[2] == (0, 2, 3, 4)


@given(st.lists(st.lists(st.integers(0, 255), min_size=8, max_size=8), min_size=2, max_size=2))
def test_dark_on_light_equals_light_on_dark_unless_both_differ_alike(rows: list[list[int]]) -> None:
    shades = np.array(rows, dtype=np.uint8)
    border = np.sort(np.concatenate([shades[0], shades[-1], shades[:, 0], shades[:, -1]]))
    middle = len(border) // 2
    if border[middle] == border[middle - 1] and shades.max() - border[middle] != border[middle] - shades.min():
        assert np.array_equal(to_ink(shades), to_ink(255 - shades))


@given(st.lists(st.lists(st.integers(0, 255), min_size=7, max_size=7), min_size=4, max_size=4))
def test_what_is_shown_is_read_as_the_same_patches(rows: list[list[int]]) -> None:
    image = SQUARES.prepare(picture(rows))
    assert SQUARES.read(image.uri).patches == image.patches
    assert image.to_dict()["uri"] == image.uri


def test_an_empty_picture_has_no_ink() -> None:
    assert not to_ink(np.full((3, 5), 77, dtype=np.uint8)).any()


def test_a_picture_is_scaled_to_the_height_and_keeps_its_shape() -> None:
    large = np.full((40, 60), 255, dtype=np.uint8)
    large[10:30, 20:40] = 0
    image = SQUARES.prepare(Image.fromarray(large))
    assert image.size == (6, 4)
    expected: NDArray[np.uint8] = np.zeros((4, 6), dtype=np.uint8)
    expected[1:3, 2:4] = 255
    assert np.abs(image.pixels.astype(int) - expected).max() < 110  # bilinear edges
    assert (image.pixels[1:3, 2:4] > 200).all()


def test_a_picture_that_is_too_wide_is_refused() -> None:
    with pytest.raises(UserError, match=r"120 × 10 pixels would be 24 pixels wide at the height of 2 .* more than 11"):
        COLUMNS.prepare(Image.new("L", (120, 10)))


def test_pictures_of_any_mode() -> None:
    black_on_white = np.full((4, 6), 255, dtype=np.uint8)
    black_on_white[1, 2] = 0
    gray = Image.fromarray(black_on_white)
    expected = SQUARES.prepare(gray).patches
    clear = Image.fromarray(np.dstack([np.zeros((4, 6, 3), np.uint8), 255 - black_on_white]))  # black, transparent
    deep = Image.fromarray(black_on_white.astype(np.uint16) * 257)
    for each in (gray.convert("RGB"), gray.convert("1"), gray.convert("P"), gray.convert("LA"), clear, deep):
        assert to_gray(each).mode == "L"
        assert SQUARES.read(picture_to_uri(each)).patches == expected
