"""Attention with given weights and values, in double precision on the CPU: the basis of worked examples."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.laboratory.matrix_parsing import Matrix
from regard.nn import Memory, ScaledDotAttention


def matrix_tensor(matrix: Matrix) -> Tensor:
    """The matrix as a batch of one [1, rows, columns].

    Args:
        matrix: The rows.
    """
    return torch.tensor(matrix, dtype=torch.float64, device="cpu").unsqueeze(0)


def scaled_dot_attention(query_weights: Tensor, key_weights: Tensor) -> ScaledDotAttention:
    """Scaled dot-product attention, e_ti = W_q s_t · W_k h_i / √d, with these weights.

    Args:
        query_weights: W_q [key size, query size].
        key_weights: W_k [key size, state size].
    """
    key_size, query_size = query_weights.shape
    attention = ScaledDotAttention(query_size, key_weights.shape[1], key_size=key_size).double()
    attention.load_state_dict({"query_layer.weight": query_weights, "key_layer.weight": key_weights})
    return attention.requires_grad_(False)


def unmasked_memory(values: Tensor, keys: Tensor | None = None) -> Memory:
    """A memory without padding.

    Args:
        values: The values [batch, positions, size].
        keys: The keys [batch, positions, key size]; not needed if scores are given.
    """
    valid = torch.ones(1, 1, values.shape[1], dtype=torch.bool, device=values.device)
    return Memory(values if keys is None else keys, values, valid)
