"""The vectors z_i that an encoder reads, one for each source position: here a source can be changed a little.

A token is a number, which cannot be a little different. Its vector can, so that this is where one asks how much an
output depends on a source position. It holds all that the encoder gets of that position: the token and its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy

from torch import Tensor

from regard.nn import Encoder, Encoding, Seq2Seq


def precise(model: Seq2Seq) -> Seq2Seq:
    """A copy that computes in double precision, without dropout.

    A model that is sure has log p just below 0: in single precision, rounding would be all that is left of differences.
    """
    return deepcopy(model).double().eval()


def vectors_of(encoder: Encoder, tokens: Tensor) -> Tensor:
    """z_i, as if they had come from nowhere: [batch, positions, size]."""
    return encoder.embedding(tokens).detach()


def encode(encoder: Encoder, tokens: Tensor, valid: Tensor, vectors: Tensor) -> Encoding:
    """What the encoder makes of `vectors` in the place of its own; of `tokens` it sees only how many there are."""
    with _replaced(encoder, vectors):
        return encoder(tokens, valid)


@contextmanager
def _replaced(encoder: Encoder, vectors: Tensor) -> Iterator[None]:
    """As long as the block lasts, the encoder's embedding gives these vectors."""
    hook = encoder.embedding.register_forward_hook(lambda *_: vectors)
    try:
        yield
    finally:
        hook.remove()
