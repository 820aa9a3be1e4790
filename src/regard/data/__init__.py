"""From pairs of texts to batches of numbers."""

from regard.data.batches import Batch, Batches, collate, pad
from regard.data.codec import Codec, Example

__all__ = ["Batch", "Batches", "Codec", "Example", "collate", "pad"]
