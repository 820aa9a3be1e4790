"""Patches: a picture as the sequence that an encoder reads, as a text is a sequence of tokens.

    picture → gray → scaled to the model's height → ink (0 background … 255) → patches, row by row → empty patch

The empty patch at the end plays the part of `<end>`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from regard.errors import UserError
from regard.images.pictures import picture_from_uri, picture_to_uri

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

Box = tuple[int, int, int, int]  # left, top, right, bottom; pixels, counted from the upper left corner
BLACK = 255


@dataclass(frozen=True)
class PatchGrid:
    """The size of the pictures that a model reads, and of their patches.

    Args:
        height: Height of a picture in pixels.
        max_width: Its largest width.
        patch_height: Height of a patch, which divides that of the picture; the same height makes patches columns.
        patch_width: Width of a patch.
    """

    height: int
    max_width: int
    patch_height: int
    patch_width: int

    @property
    def rows(self) -> int:
        """The number of patches above each other."""
        return self.height // self.patch_height

    @property
    def pixels(self) -> int:
        """The number of pixels of a patch."""
        return self.patch_height * self.patch_width

    @property
    def end(self) -> bytes:
        """The patch that ends a source: an empty one."""
        return bytes(self.pixels)

    def read(self, text: str) -> SourceImage:
        """A picture as an encoder reads it.

        Args:
            text: Its data URI.

        Raises:
            UserError: It is not a picture, or is too wide.
        """
        return self.prepare(picture_from_uri(text))

    def prepare(self, picture: Image) -> SourceImage:
        """A picture as an encoder reads it: gray, scaled to the height, its width filled up to whole patches.

        Args:
            picture: Any picture of dark ink on light ground, or of light ink on dark ground.

        Raises:
            UserError: It is too wide.
        """
        import numpy as np
        from PIL.Image import Resampling

        width = max(1, round(picture.width * self.height / picture.height))
        if width > self.max_width:
            raise UserError(
                f"this picture of {picture.width} × {picture.height} pixels would be {width} pixels wide at the height "
                f"of {self.height} that the model reads, which is more than {self.max_width}; cut it into shorter ones"
            )
        gray = to_gray(picture)
        if gray.size != (width, self.height):
            gray = gray.resize((width, self.height), Resampling.BILINEAR)
        filling = -width % self.patch_width
        return SourceImage(self, np.pad(to_ink(np.asarray(gray)), ((0, 0), (0, filling))))


@dataclass(frozen=True, eq=False)
class SourceImage:
    """A picture as an encoder reads it.

    Args:
        grid: How it is divided into patches.
        pixels: Ink from 0, the background, to 255, [height, width].
    """

    grid: PatchGrid
    pixels: NDArray[np.uint8]

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        height, width = self.pixels.shape
        return width, height

    @cached_property
    def patches(self) -> tuple[bytes, ...]:
        """The pixels of each patch, row by row, from left to right."""
        grid = self.grid
        squares = self.pixels.reshape(grid.rows, grid.patch_height, -1, grid.patch_width).swapaxes(1, 2)
        return tuple(patch.tobytes() for patch in squares.reshape(-1, grid.pixels))

    @cached_property
    def boxes(self) -> tuple[Box, ...]:
        """The place of each patch."""
        width, height = self.grid.patch_width, self.grid.patch_height
        return tuple(
            (left, top, left + width, top + height)
            for top in range(0, self.size[1], height)
            for left in range(0, self.size[0], width)
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the patches: numbers of columns, or of row and column, counted from 1."""
        columns = self.size[0] // self.grid.patch_width
        names = range(1, columns + 1)
        if self.grid.rows == 1:
            return tuple(map(str, names))
        return tuple(f"{row},{column}" for row in range(1, self.grid.rows + 1) for column in names)

    @cached_property
    def uri(self) -> str:
        """A PNG file as a data URI, with dark ink on white; a model reads the same patches from it."""
        from PIL import Image

        return picture_to_uri(Image.fromarray(BLACK - self.pixels))

    def to_dict(self) -> dict[str, Any]:
        """Plain values: a `regard.inference.schema.ImageSchema`."""
        width, height = self.size
        return {"width": width, "height": height, "uri": self.uri, "boxes": [list(box) for box in self.boxes]}


def to_gray(picture: Image) -> Image:
    """A picture in 256 shades of gray; what is transparent becomes white.

    Args:
        picture: A picture of any mode.
    """
    import numpy as np
    from PIL import Image

    if picture.mode.startswith("I"):  # 16 bits, which `convert` would clip
        return Image.fromarray((np.asarray(picture).clip(0, 65_535) // 257).astype(np.uint8))
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture)
    return picture.convert("L")


def to_ink(gray: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The ink of a picture, from 0, the background, to 255, its strongest ink.

    The background b is the median of the border. What differs from b more, the brightest or the darkest pixel, is ink:

        ink = 255 · max(0, b − gray) / max(b − gray)        for dark ink; with 255 − gray and 255 − b for light ink

    Args:
        gray: Shades of gray, [height, width].
    """
    import numpy as np

    shades = gray.astype(np.int16)
    background = _background(shades)
    if shades.max() - background > background - shades.min():
        shades = BLACK - shades
        background = _background(shades)
    ink = (background - shades).clip(0)
    return np.rint(ink * (BLACK / max(1, ink.max()))).astype(np.uint8)


def _background(shades: NDArray[np.int16]) -> int:
    import numpy as np

    border = np.concatenate([shades[0], shades[-1], shades[:, 0], shades[:, -1]])
    return int(np.sort(border)[(len(border) - 1) // 2])
