"""Examples: pairs as token ids. A source may also be a picture, as patches."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regard.images import SourceImage

if TYPE_CHECKING:
    from typing_extensions import TypeIs

# The elements of a source, one for each position: token ids, or the pixels of patches, from 0 to 255.
Source = tuple[int, ...] | tuple[bytes, ...]
ID_BYTES = array("i").itemsize


def is_patches(source: Source) -> TypeIs[tuple[bytes, ...]]:
    """True if the elements of a source are patches, False if they are token ids.

    Args:
        source: The elements.
    """
    return bool(source) and isinstance(source[0], bytes)


@dataclass(frozen=True)
class Example:
    """A pair as token ids, or as the patches of a picture and token ids.

    Args:
        source: The encoder's input, ending with `<end>` or an empty patch.
        target: The decoder's first input, then its output, ending with `<end>`.
        weight: How often a training sees it per epoch, on average.
    """

    source: Source
    target: tuple[int, ...]
    weight: float = 1.0

    def to_bytes(self) -> bytes:
        """The lengths of source and target, then the elements of both: the form in which examples are stored."""
        lengths = array("i", (len(self.source), len(self.target)))
        if is_patches(self.source):
            return b"".join((lengths.tobytes(), *self.source, array("i", self.target).tobytes()))
        return array("i", (*lengths, *self.source, *self.target)).tobytes()


@dataclass(frozen=True)
class EncodedSource:
    """A source text, tokenized once.

    Args:
        text: The text, or the data URI of a picture.
        ids: The encoder's input, ending with `<end>` or an empty patch; () if the text has no tokens.
        tokens: The same tokens as they are spelled, also those that are not in the vocabulary; () like `ids`.
        start: The decoder's first input.
        image: The picture that the patches are from; None if the source is a text.
    """

    text: str
    ids: Source
    tokens: tuple[str, ...]
    start: int
    image: SourceImage | None = None


def digest_examples(examples: Iterable[Example]) -> str:
    """A SHA-256 digest, by which equal data sets are recognized; the same as `OnDiskExamples.digest`.

    Args:
        examples: The examples, in order.
    """
    digest = hashlib.sha256()
    for example in examples:
        digest.update(example.to_bytes())
        digest.update(weight_to_bytes(example.weight))
    return digest.hexdigest()


def weight_to_bytes(weight: float) -> bytes:
    """The form in which a weight is hashed: nothing for 1, so that digests are those of data without weights.

    Args:
        weight: The weight of an example.
    """
    return b"" if weight == 1 else array("d", (weight,)).tobytes()
