"""From pairs of texts to batches of numbers."""

from regard.data.batches import Batch, Batches, collate, pad
from regard.data.codec import Codec, Example
from regard.data.memory_mapped import MemoryMappedExamples, digest_examples, example_lengths

__all__ = [
    "Batch",
    "Batches",
    "Codec",
    "Example",
    "MemoryMappedExamples",
    "collate",
    "digest_examples",
    "example_lengths",
    "pad",
]
