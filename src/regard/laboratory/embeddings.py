"""Access to the source embeddings z_i, the vectors that an encoder reads: one per source position.

A token id is discrete; its embedding can be perturbed. Gradients and occlusion are therefore measured at z_i, which
holds everything that the encoder reads of position i: the token and its position encoding.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy

import torch
from torch import Tensor

from regard.devices import float64_device
from regard.nn import Encoder, Encoding, Seq2Seq


def model_device(model: Seq2Seq) -> torch.device:
    """The device of the model's parameters.

    Args:
        model: The model.
    """
    return next(model.parameters()).device


def double_precision_copy(model: Seq2Seq) -> Seq2Seq:
    """A copy of the model in double precision, in evaluation mode; on the CPU if the model's device has no float64.

    A confident model has log p just below 0; in single precision, differences of such values are mostly rounding.

    Args:
        model: The model; it is not changed.
    """
    return deepcopy(model).to(float64_device(model_device(model))).double().eval()


def source_embeddings(encoder: Encoder, tokens: Tensor) -> Tensor:
    """z_i, detached from the graph: [batch, positions, size].

    Args:
        encoder: The encoder.
        tokens: Source token ids [batch, positions].
    """
    return encoder.embedding(tokens).detach()


def encode_embeddings(encoder: Encoder, tokens: Tensor, valid: Tensor, embeddings: Tensor) -> Encoding:
    """The encoder's output for `embeddings` in place of the embeddings of `tokens`.

    Args:
        encoder: The encoder.
        tokens: Token ids [batch, positions]; only their shape matters.
        valid: True at positions that are not padding [batch, positions].
        embeddings: The vectors to encode [batch, positions, size].
    """
    with _embedding_output(encoder, embeddings):
        return encoder(tokens, valid)


@contextmanager
def _embedding_output(encoder: Encoder, embeddings: Tensor) -> Iterator[None]:
    """Within the block, the encoder's embedding layer returns these embeddings."""
    hook = encoder.embedding.register_forward_hook(lambda *_: embeddings)
    try:
        yield
    finally:
        hook.remove()
