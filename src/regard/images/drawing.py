"""Lines of text as pictures, drawn with the DejaVu fonts that matplotlib contains."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from regard.images.patches import Box

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont

FONTS = {
    "sans": "DejaVuSans",
    "sans-bold": "DejaVuSans-Bold",
    "sans-italic": "DejaVuSans-Oblique",
    "serif": "DejaVuSerif",
    "serif-bold": "DejaVuSerif-Bold",
    "serif-italic": "DejaVuSerif-Italic",
    "mono": "DejaVuSansMono",
    "mono-bold": "DejaVuSansMono-Bold",
}


def font_file(name: str) -> Path:
    """The file of a font.

    Args:
        name: One of `FONTS`.
    """
    import matplotlib

    return Path(matplotlib.get_data_path(), "fonts", "ttf", f"{FONTS[name]}.ttf")


@lru_cache
def load_font(name: str, size: int) -> FreeTypeFont:
    """A font in one size.

    Args:
        name: One of `FONTS`.
        size: The size in pixels.
    """
    from PIL import ImageFont

    # The basic layout places character by character, whichever libraries Pillow was built with.
    return ImageFont.truetype(font_file(name), size, layout_engine=ImageFont.Layout.BASIC)


def missing_characters(alphabet: str, name: str) -> str:
    """The characters that a font cannot draw.

    Args:
        alphabet: Characters.
        name: One of `FONTS`.
    """
    from matplotlib.ft2font import FT2Font

    known = FT2Font(font_file(name)).get_charmap()
    return "".join(character for character in alphabet if ord(character) not in known)


@dataclass(frozen=True)
class DrawnLine:
    """The places of the characters of a line, in pixels from the beginning of its baseline.

    Args:
        text: The characters.
        font: Their font.
        lefts: Where each character begins.
        boxes: The ink of each character.
    """

    text: str
    font: FreeTypeFont
    lefts: tuple[int, ...]
    boxes: tuple[Box, ...]

    @classmethod
    def of(cls, text: str, font: FreeTypeFont, spacing: float = 0.0) -> DrawnLine:
        """The line of a text.

        Args:
            text: The characters, at least one.
            font: Their font.
            spacing: Pixels between two characters, besides what the font has.
        """
        lefts, boxes, left = [], [], 0.0
        for character in text:
            lefts.append(round(left))
            box = font.getbbox(character, anchor="ls")
            boxes.append((round(left) + int(box[0]), int(box[1]), round(left) + int(box[2]), int(box[3])))
            left += font.getlength(character) + spacing
        return cls(text, font, tuple(lefts), tuple(boxes))

    @property
    def ink(self) -> Box:
        """The smallest box around all ink."""
        lefts, tops, rights, bottoms = zip(*self.boxes, strict=True)
        return min(lefts), min(tops), max(rights), max(bottoms)

    def draw(self, size: tuple[int, int], origin: tuple[int, int]) -> Image:
        """A picture with this line, 255 where ink is.

        Args:
            size: Width and height of the picture.
            origin: Where the baseline begins.
        """
        from PIL import Image, ImageDraw

        picture = Image.new("L", size)
        pen = ImageDraw.Draw(picture)
        for character, left in zip(self.text, self.lefts, strict=True):
            pen.text((origin[0] + left, origin[1]), character, fill=255, font=self.font, anchor="ls")
        return picture
