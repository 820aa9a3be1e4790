"""From pairs of texts to batches of token ids."""

from regard.data.batches import Batch, Batches, collate, pad
from regard.data.codec import Codec
from regard.data.examples import EncodedSource, Example, digest_examples
from regard.data.on_disk import OnDiskExamples, example_lengths

__all__ = [
    "Batch",
    "Batches",
    "Codec",
    "EncodedSource",
    "Example",
    "OnDiskExamples",
    "collate",
    "digest_examples",
    "example_lengths",
    "pad",
]
