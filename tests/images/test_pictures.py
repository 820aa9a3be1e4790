"""Reading pictures that are not trusted."""

from __future__ import annotations

import base64
import struct
import zlib
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.errors import UserError
from regard.images import is_picture, picture_from_uri, picture_to_uri, picture_uri, read_picture, source_label

PIXELS = np.arange(6, dtype=np.uint8).reshape(2, 3) * 40


def uri(content: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def encoded(picture: Image.Image, form: str) -> bytes:
    buffer = BytesIO()
    picture.save(buffer, form)
    return buffer.getvalue()


def chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def png_of(width: int, height: int) -> bytes:
    """A PNG file whose header names a size, without as many pixels."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")


def test_a_picture_survives_its_data_uri() -> None:
    text = picture_to_uri(Image.fromarray(PIXELS))
    assert is_picture(text)
    assert not is_picture("data: a word")
    assert np.array_equal(np.asarray(picture_from_uri(text)), PIXELS)


def test_jpeg_is_read_and_turned_as_its_camera_says(tmp_path: Path) -> None:
    picture, exif = Image.new("RGB", (8, 4), "white"), Image.Exif()
    exif[0x0112] = 6  # turned by 90°
    picture.save(tmp_path / "a.jpg", exif=exif)
    text = read_picture(tmp_path / "a.jpg")
    assert text.startswith("data:image/jpeg;base64,")
    assert picture_from_uri(text).size == (4, 8)


def test_pictures_of_python(tmp_path: Path) -> None:
    picture = Image.fromarray(PIXELS)
    picture.save(tmp_path / "a.png")
    for form in (picture, tmp_path / "a.png"):
        assert np.array_equal(np.asarray(picture_from_uri(picture_uri(form))), PIXELS)
    with pytest.raises(UserError, match="3 is neither a text nor a picture; give a PNG or JPEG picture as a pathlib"):
        picture_uri(3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello", "'hello' is not a picture: give a PNG or JPEG picture as a data URI"),
        ("/etc/passwd", "is not a picture"),
        ("file:///etc/passwd", "is not a picture"),
        ("data:image/svg+xml;base64,PHN2Zz4=", "is not a picture: give a PNG or JPEG"),
        ("data:image/png;base64,?", "the base64 code of this picture is damaged"),
        ("data:image/png;base64,é", "the base64 code of this picture is damaged"),
        ("data:image/png;base64,", "neither PNG nor JPEG"),
        (uri(b"hello"), "neither PNG nor JPEG"),
        (uri(encoded(Image.fromarray(PIXELS), "GIF")), "neither PNG nor JPEG"),
        (uri(encoded(Image.fromarray(PIXELS), "PNG")[:-30]), "this picture"),
        (uri(png_of(40, 40)), "this picture"),
        (uri(png_of(5_000, 5_000)), "5,000 × 5,000 pixels; at most 16,000,000 are read, make it smaller"),
        (uri(png_of(30_000, 30_000)), "pixels"),
        (uri(png_of(0, 5)), "this picture|neither"),
        ("data:image/png;base64," + "A" * 20_000_000, "more than 8,000,000 bytes; make it smaller"),
    ],
    ids=lambda text: text[:40],
)
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_what_is_not_a_picture_is_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        picture_from_uri(text)
    assert len(str(error.value)) < 300


def test_files_that_are_no_pictures_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("hello")
    with pytest.raises(UserError, match=r"a\.png: this is neither PNG nor JPEG; give a PNG or JPEG picture"):
        read_picture(tmp_path / "a.png")
    with pytest.raises(UserError, match=r"b\.png: there is no such file; give a PNG or JPEG picture"):
        read_picture(tmp_path / "b.png")
    (tmp_path / "c.png").write_bytes(bytes(8_000_001))
    with pytest.raises(UserError, match=r"c\.png: this file has 8,000,001 bytes; at most 8,000,000"):
        read_picture(tmp_path / "c.png")


def test_labels_do_not_spell_pictures() -> None:
    assert source_label(picture_to_uri(Image.fromarray(PIXELS))) == "[picture]"
    assert source_label("a text") == "a text"
