"""Pictures: reading untrusted ones, and dividing them into the patches that an encoder reads."""

from regard.images.patches import PatchGrid, SourceImage
from regard.images.pictures import is_picture, picture_from_uri, picture_to_uri, picture_uri, read_picture, source_label

__all__ = [
    "PatchGrid",
    "SourceImage",
    "is_picture",
    "picture_from_uri",
    "picture_to_uri",
    "picture_uri",
    "read_picture",
    "source_label",
]
