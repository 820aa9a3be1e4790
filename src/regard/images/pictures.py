"""Pictures as data URIs, `data:image/png;base64,…`: the form in which a source text holds a picture.

A picture comes from a user or a request and is not trusted: its bytes and its pixels are counted before it is decoded,
and it is PNG or JPEG. No path is ever taken from a text; `read_picture` is for paths of the command line and of Python.
"""

from __future__ import annotations

import base64
import binascii
import re
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from regard import files
from regard.errors import UserError, error_location

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG")
SUFFIXES = (".png", ".jpg", ".jpeg")
MAX_BYTES = 8_000_000  # of a file
MAX_PIXELS = 16_000_000
DATA_URI = re.compile(r"data:image/(?:png|jpeg);base64,")
REMEDY = "give a PNG or JPEG picture"


def is_picture(text: str) -> bool:
    """True if a source text is a picture.

    Args:
        text: A source text.
    """
    return text.startswith("data:image/")


def source_label(text: str) -> str:
    """A source text as a message or a title shows it: a picture is named, not spelled.

    Args:
        text: A source text.
    """
    return "[picture]" if is_picture(text) else text


def picture_from_uri(text: str) -> Image:
    """The decoded picture.

    Args:
        text: A data URI of a PNG or JPEG picture.

    Raises:
        UserError: It is something else, is too large, or is damaged.
    """
    header = DATA_URI.match(text)
    if not header:
        raise UserError(f"{text!r:.60} is not a picture: {REMEDY} as a data URI, data:image/png;base64,…")
    if len(text) > MAX_BYTES * 4 // 3 + 100:
        raise UserError(f"this picture has more than {MAX_BYTES:,} bytes; make it smaller")
    try:
        content = base64.b64decode(text[header.end() :], validate=True)
    except (binascii.Error, ValueError):
        raise UserError("the base64 code of this picture is damaged; encode the file again") from None
    return _decode(content)


def picture_to_uri(picture: Image) -> str:
    """A picture as the data URI of a PNG file.

    Args:
        picture: The picture.
    """
    buffer = BytesIO()
    picture.save(buffer, "PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def read_picture(path: Path) -> str:
    """A picture file as a data URI.

    Args:
        path: A PNG or JPEG file.

    Raises:
        UserError: The file cannot be read, or is not such a picture.
    """

    def parse(content: bytes) -> str:
        with error_location(str(path)):
            kind = str(_decode(content).format).lower()
        return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"

    try:
        return files.read_file(path, parse, MAX_BYTES)
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file; {REMEDY}") from None


def picture_uri(picture: object) -> str:
    """A picture of Python as a data URI.

    Args:
        picture: The path of a PNG or JPEG file, or a PIL image.

    Raises:
        UserError: It is neither, or the file cannot be read.
    """
    from PIL.Image import Image

    if isinstance(picture, Path):
        return read_picture(picture)
    if isinstance(picture, Image):
        return picture_to_uri(picture)
    raise UserError(f"{picture!r:.80} is neither a text nor a picture; {REMEDY} as a pathlib.Path or a PIL image")


def _decode(content: bytes) -> Image:
    """The picture in a file, upright and completely decoded."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    with files.damage_as_user_error("this picture"):
        try:
            picture = Image.open(BytesIO(content), formats=FORMATS)  # reads the header only
        except UnidentifiedImageError:
            raise UserError(f"this is neither PNG nor JPEG; {REMEDY}") from None
        if picture.width * picture.height > MAX_PIXELS:
            size = f"{picture.width:,} × {picture.height:,}"
            raise UserError(f"this picture has {size} pixels; at most {MAX_PIXELS:,} are read, make it smaller")
        picture.load()
        upright = ImageOps.exif_transpose(picture)
        upright.format = picture.format
        return upright
