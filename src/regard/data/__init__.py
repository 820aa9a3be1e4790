"""From pairs of texts to batches of numbers."""

from regard.data.batches import Batch, Batches, collate, pad
from regard.data.codec import Codec, Example
from regard.data.corpus import Corpus, digest_of, lengths_of

__all__ = ["Batch", "Batches", "Codec", "Corpus", "Example", "collate", "digest_of", "lengths_of", "pad"]
