"""Examples: pairs as token ids."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    """A pair as token ids.

    Args:
        source: The encoder's input, ending with `<end>`.
        target: The decoder's first input, then its output, ending with `<end>`.
    """

    source: tuple[int, ...]
    target: tuple[int, ...]

    def to_array(self) -> array[int]:
        """The lengths of source and target, then the ids of both: the form in which examples are hashed."""
        return array("i", (len(self.source), len(self.target), *self.source, *self.target))


@dataclass(frozen=True)
class EncodedSource:
    """A source text, tokenized once.

    Args:
        text: The text.
        ids: The encoder's input, ending with `<end>`; () if the text has no tokens.
        tokens: The same tokens as they are spelled, also those that are not in the vocabulary; () like `ids`.
        start: The decoder's first input.
    """

    text: str
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    start: int


def digest_examples(examples: Iterable[Example]) -> str:
    """A SHA-256 digest, by which equal data sets are recognized; the same as `OnDiskExamples.digest`.

    Args:
        examples: The examples, in order.
    """
    digest = hashlib.sha256()
    for example in examples:
        digest.update(example.to_array().tobytes())
    return digest.hexdigest()
