"""The task `text-line`: the characters in the picture of a line of text. Each source is a picture."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from random import Random
from string import digits
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, field_validator, model_validator

from regard.config.base import invalid_combination
from regard.errors import UserError, suggest
from regard.images import PatchGrid, picture_to_uri
from regard.images.drawing import FONTS, DrawnLine, load_font, missing_characters
from regard.images.patches import Box
from regard.tasks.copy import StringSection, random_string
from regard.tasks.generated import GeneratedDataset, GeneratedTask
from regard.tasks.random_text import Length
from regard.text import Pair, Tokenization, Vocabulary

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = Annotated[int, Field(ge=1, le=1_024)]
PAPER, INK = (200, 255), (0, 80)  # the shades of the background and of the characters
MARGIN = 2  # the least distance of ink from the border, in pixels
SPACING = 0.15  # the largest space between characters, as a share of the font size


class TextLineSection(StringSection):
    """Settings of the task `text-line`. Font, size, position, shades and noise of each picture are drawn at random.

    Attributes:
        task: Name of the task.
        train: Number of training pairs.
        alphabet: The characters, all equally likely.
        max_length: Largest length, in characters.
        fonts: The fonts, names in `regard.images.drawing.FONTS`.
        min_size: Smallest font size, as a share of the height of the picture.
        max_size: Largest font size.
        shift: How far the line may be from the middle of the picture: 0 not at all, 1 up to the border.
        noise: Largest noise, as a share of the difference between black and white.
        height: Height of the pictures that the model reads, in pixels.
        max_width: Their largest width.
        patch_width: Width of a patch, which is a position of the source.
        patch_height: Height of a patch; null: that of the picture, so that patches are columns.
    """

    task: str = "text-line"
    train: int = Field(default=10_000, ge=1, le=1_000_000)
    alphabet: str = Field(default=digits, min_length=1)
    max_length: Length = 8
    fonts: list[str] = Field(default=["sans", "sans-bold", "serif", "mono"], min_length=1)
    min_size: float = Field(default=0.6, ge=0.1, le=1)
    max_size: float = Field(default=0.9, ge=0.1, le=1)
    shift: float = Field(default=1.0, ge=0, le=1)
    noise: float = Field(default=0.15, ge=0, le=1)
    height: Pixels = 32
    max_width: Annotated[int, Field(ge=1, le=10_000)] = 256
    patch_width: Pixels = 4
    patch_height: Pixels | None = None

    @field_validator("fonts")
    @classmethod
    def _check_fonts(cls, fonts: list[str]) -> list[str]:
        for font in fonts:
            if font not in FONTS:
                raise ValueError(f"there is no font {font!r}; {suggest(font, FONTS)}")
        return fonts

    @property
    def patches(self) -> PatchGrid:
        """The patches of a picture."""
        return PatchGrid(self.height, self.max_width, self.patch_height or self.height, self.patch_width)

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.min_size > self.max_size:
            raise invalid_combination(
                "min_size", f"{self.min_size} is more than max_size, {self.max_size}; make it smaller"
            )
        if self.height % self.patches.patch_height:
            raise invalid_combination(
                "patch_height", f"patches of {self.patch_height} do not fill a height of {self.height}; give a divisor"
            )
        return self

    @model_validator(mode="after")
    def _check_characters(self) -> Self:
        if any(map(str.isspace, self.alphabet)):
            raise invalid_combination("alphabet", "white space leaves no ink; omit it")
        for font in self.fonts if not self.alphabet.isascii() else ():
            if missing := missing_characters(self.alphabet, font):
                raise invalid_combination("alphabet", f"the font '{font}' has no {missing!r}; omit it, or the font")
        return self


class TextLineDataset(GeneratedDataset[TextLineSection]):
    """Pictures of random strings, and the strings. No picture occurs twice, but a short string may.

    Args:
        section: The settings of the task.
    """

    def generate(self, random: Random) -> Pair:
        section, text = self.section, random_string(random, self.section)
        size = round(section.height * random.uniform(section.min_size, section.max_size))
        line = DrawnLine.of(text, load_font(random.choice(section.fonts), size), random.uniform(0, SPACING) * size)
        left, top, right, bottom = line.ink
        # The origin for which the ink begins at the margins, and the room around it.
        before, after = (MARGIN + round(random.uniform(0, section.shift) * size) for _ in range(2))
        room = section.height - (bottom - top)
        above = room / 2 + random.uniform(-section.shift, section.shift) * max(0, room / 2 - MARGIN)
        origin = before - left, round(above) - top
        width = before + (right - left) + after
        if width > section.max_width:
            raise UserError(
                f"data.max_width: the picture of {text!r} is {width} pixels wide, and pictures are at most "
                f"{section.max_width} wide; make this larger, or max_length or max_size smaller"
            )
        picture = self._with_noise(random, line.draw((width, section.height), origin))
        boxes = [(a + origin[0], b + origin[1], c + origin[0], d + origin[1]) for a, b, c, d in line.boxes]
        patches = section.patches.prepare(picture).boxes
        alignment = {(patch, index) for index, box in enumerate(boxes) for patch in covered(patches, box)}
        return Pair(picture_to_uri(picture), text, frozenset(alignment))

    def _with_noise(self, random: Random, ink: Image) -> Image:
        """The picture in random shades, with uniform noise: dark ink on light paper."""
        import numpy as np
        from PIL import Image

        paper, shade = random.uniform(*PAPER), random.uniform(*INK)
        covered = np.asarray(ink) / 255
        uniform = np.frombuffer(random.randbytes(covered.size), np.uint8).reshape(covered.shape) / 127.5 - 1
        gray = paper + (shade - paper) * covered + random.uniform(0, self.section.noise) * 255 * uniform
        return Image.fromarray(gray.round().clip(0, 255).astype(np.uint8))


def covered(patches: tuple[Box, ...], box: Box) -> list[int]:
    """The patches that belong to a box: those whose center it contains, else the one at its own center.

    Args:
        patches: The places of the patches.
        box: A place in the same picture.
    """
    left, top, right, bottom = box
    if patches[-1][1] == 0:  # there is one row: patches are columns
        top, bottom = 0, patches[0][3]
    centers = [((a + c) / 2, (b + d) / 2) for a, b, c, d in patches]
    inside = [index for index, (x, y) in enumerate(centers) if left <= x < right and top <= y < bottom]
    middle = (left + right) / 2, (top + bottom) / 2
    return inside or [min(range(len(centers)), key=lambda index: math.dist(centers[index], middle))]


@dataclass(frozen=True)
class PictureTokenization(Tokenization):
    """Sources are the patches of pictures; each character of a target is a token.

    Args:
        patches: How a picture is divided.
    """

    patches: PatchGrid

    def source_tokens(self, text: str) -> list[str]:
        return list(self.patches.read(text).labels)

    def vocabularies(self, sources: Counter[str], targets: Counter[str]) -> tuple[Vocabulary, Vocabulary]:
        return Vocabulary.from_list([]), Vocabulary.from_counts(targets)


class TextLineTask(GeneratedTask[TextLineSection]):
    """The picture of `2038` → `2038`.

    Shows attention over a picture, with a known correct answer: each character is aligned with the patches that have
    its ink.

    Args:
        section: The settings of the task.
    """

    Section = TextLineSection
    metrics = ("exact_match", "character_error")
    reads_pictures = True

    @property
    def dataset(self) -> TextLineDataset:
        return TextLineDataset(self.section)

    @property
    def tokenization(self) -> PictureTokenization:
        return PictureTokenization(self.section.patches)
