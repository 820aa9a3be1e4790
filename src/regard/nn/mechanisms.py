"""The attention mechanisms, each with its settings. Symbols and shapes as in `regard.nn.attention`."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.config.base import Count, Size, invalid_combination
from regard.config.kinds import AttentionSection
from regard.errors import UserError
from regard.nn.attention import Attention, Memory


class UnscoredAttentionSection(AttentionSection):
    """Settings of a mechanism whose weights do not depend on the query: it has no options."""

    @property
    def has_scores(self) -> bool:
        return False


class UnscoredAttention(Attention):
    """Base class of the mechanisms whose weights do not depend on the query: e_ti = 0.

    Args:
        query_size: Size of a query.
        memory_size: Size of a state of the memory.
    """

    Section = UnscoredAttentionSection

    def __init__(self, query_size: int, memory_size: int) -> None:
        super().__init__(query_size, memory_size)

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return query.new_zeros(len(query), query.shape[1], keys.shape[1])


class NoAttention(UnscoredAttention):
    """No attention: all weights and the context are 0, so that only the encoder's final state is passed on.

    Args:
        query_size: Size of a query.
        memory_size: Size of a state of the memory.
    """

    def attend_rows(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        context = query.new_zeros(len(query), query.shape[1], self.context_size)
        return context, self.score(query, memory.keys)


class MeanAttention(UnscoredAttention):
    """Uniform weights over the valid positions.

    Args:
        query_size: Size of a query.
        memory_size: Size of a state of the memory.
    """


class ScoredAttentionSection(AttentionSection):
    """Settings of a mechanism that computes scores.

    Attributes:
        hard: Put all weight on the highest score.
        unit_norm: Divide queries and states by their norms before scoring.
    """

    hard: bool = False
    unit_norm: bool = False


class DotAttentionSection(ScoredAttentionSection):
    """Settings of dot-product attention."""

    def check_sizes(self, query_size: int, memory_size: int) -> None:
        if query_size != memory_size:
            raise invalid_combination(
                "kind",
                f"'{self.kind}' needs equal sizes, but the decoder's state has {query_size} and an encoder's state "
                f"{memory_size} (both directions count); make them equal, or choose scaled-dot, bilinear, additive or "
                "multi-head",
            )


class DotAttention(Attention):
    """e_ti = s_t · h_i. Query and memory have the same size.

    Args:
        query_size: Size of a query.
        memory_size: Size of a state of the memory; equal to `query_size`.
        hard: Put all weight on the highest score.
        unit_norm: Divide queries and states by their norms before scoring.
    """

    Section = DotAttentionSection

    def __init__(self, query_size: int, memory_size: int, *, hard: bool = False, unit_norm: bool = False) -> None:
        if query_size != memory_size:
            raise UserError(
                f"dot attention multiplies a query of size {query_size} with states of size {memory_size}; they must "
                "be equal (a bidirectional encoder's states are twice its size), or choose scaled-dot, bilinear, "
                "additive or multi-head"
            )
        super().__init__(query_size, memory_size, hard=hard, unit_norm=unit_norm)

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.transpose(-1, -2)


class BilinearAttention(Attention):
    """e_ti = h_iᵀ W_g s_t / √m, where m is the size of h_i.

    Args:
        query_size: Size of a query.
        memory_size: Size of a state of the memory.
        hard: Put all weight on the highest score.
        unit_norm: Divide queries and states by their norms before scoring.
    """

    Section = ScoredAttentionSection

    def __init__(self, query_size: int, memory_size: int, *, hard: bool = False, unit_norm: bool = False) -> None:
        super().__init__(query_size, memory_size, hard=hard, unit_norm=unit_norm)
        self.query_layer = nn.Linear(query_size, memory_size, bias=False)  # W_g

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return self.query_layer(query) @ keys.transpose(-1, -2) / math.sqrt(self.memory_size)


class KeyedAttentionSection(AttentionSection):
    """Settings of a mechanism that projects queries and states.

    Attributes:
        key_size: Size of the projections; null means the decoder's size.
        hard: Put all weight on the highest score.
        unit_norm: Divide queries and states by their norms before scoring.
    """

    key_size: Size | None = None
    hard: bool = False
    unit_norm: bool = False


class KeyedAttention(Attention):
    """Base class of mechanisms that project first: q_t = W_q s_t, k_i = W_k h_i. The value is h_i itself.

    Args:
        query_size: Size of a query.
        memory_size: Size of a state of the memory.
        key_size: Size of q_t and k_i; `query_size` if None.
        hard: Put all weight on the highest score.
        unit_norm: Divide queries and states by their norms before scoring.
    """

    Section = KeyedAttentionSection

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        *,
        key_size: int | None = None,
        hard: bool = False,
        unit_norm: bool = False,
    ) -> None:
        super().__init__(query_size, memory_size, hard=hard, unit_norm=unit_norm)
        self.key_size = key_size or query_size
        self.query_layer = nn.Linear(query_size, self.key_size, bias=False)
        self.key_layer = nn.Linear(memory_size, self.key_size, bias=False)

    def project_keys(self, states: Tensor) -> Tensor:
        return self.key_layer(states)


class ScaledDotAttention(KeyedAttention):
    """e_ti = q_t · k_i / √d with q_t = W_q s_t and k_i = W_k h_i; d is `key_size`.

    Args:
        query_size: Size of a query.
        memory_size: Size of a state of the memory.
        key_size: Size of q_t and k_i; `query_size` if None.
        hard: Put all weight on the highest score.
        unit_norm: Divide queries and states by their norms before scoring.
    """

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return self.query_layer(query) @ keys.transpose(-1, -2) / math.sqrt(self.key_size)


class AdditiveAttention(KeyedAttention):
    """e_ti = w_2ᵀ tanh(W_1 [h_i ; s_t]) = w_2ᵀ tanh(W_k h_i + W_q s_t), with W_1 = [W_k, W_q].

    Args:
        query_size: Size of a query.
        memory_size: Size of a state of the memory.
        key_size: Size of W_k h_i and W_q s_t; `query_size` if None.
        hard: Put all weight on the highest score.
        unit_norm: Divide queries and states by their norms before scoring.
    """

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        *,
        key_size: int | None = None,
        hard: bool = False,
        unit_norm: bool = False,
    ) -> None:
        super().__init__(query_size, memory_size, key_size=key_size, hard=hard, unit_norm=unit_norm)
        self.score_layer = nn.Linear(self.key_size, 1, bias=False)  # w_2

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        both = self.query_layer(query).unsqueeze(2) + keys.unsqueeze(1)  # [batch, steps, positions, key]
        return self.score_layer(torch.tanh(both)).squeeze(-1)


class MultiHeadAttentionSection(KeyedAttentionSection):
    """Settings of multi-head attention.

    Attributes:
        heads: Number of heads, which share `key_size` equally.
    """

    heads: Count = 4

    def check_sizes(self, query_size: int, memory_size: int) -> None:
        key_size = self.key_size or query_size
        if key_size % self.heads:
            raise invalid_combination("heads", f"{self.heads} heads cannot share a key size of {key_size} equally")


class MultiHeadAttention(Attention):
    """Scaled dot-product attention in several heads, each with its own projections of query, key and value.

    head_j = softmax(Q W_Q,j (X W_K,j)ᵀ / √d) X W_V,j        Y = [head_1 ; … ; head_n] W_O

    Args:
        query_size: Size of a query.
        memory_size: Size of a state of the memory.
        heads: Number of heads.
        key_size: Size of all heads together, as in `torch.nn.MultiheadAttention`; `query_size` if None.
        hard: Put all weight of each head on its highest score.
        unit_norm: Divide queries and states by their norms before scoring.
    """

    Section = MultiHeadAttentionSection
    weight_axes = ("head",)

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        *,
        heads: int = 1,
        key_size: int | None = None,
        hard: bool = False,
        unit_norm: bool = False,
    ) -> None:
        super().__init__(query_size, memory_size, hard=hard, unit_norm=unit_norm)
        key_size = key_size or query_size
        if key_size % heads:
            raise UserError(f"{heads} heads cannot share a key size of {key_size}: it must be a multiple of {heads}")
        self.heads = heads
        self.context_size = query_size
        self.query_layer = nn.Linear(query_size, key_size)
        self.key_layer = nn.Linear(memory_size, key_size)
        self.value_layer = nn.Linear(memory_size, key_size)
        self.output_layer = nn.Linear(key_size, query_size)
        for layer in (self.query_layer, self.key_layer, self.value_layer):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def prepare(self, states: Tensor, valid: Tensor) -> Memory:
        memory = super().prepare(states, valid)
        return Memory(memory.keys, self.split_heads(self.value_layer(states)), memory.valid.unsqueeze(1))

    def project_keys(self, states: Tensor) -> Tensor:
        return self.split_heads(self.key_layer(states))

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        queries = self.split_heads(self.query_layer(query))  # [batch, heads, steps, key]
        return queries @ keys.transpose(-1, -2) / math.sqrt(queries.shape[-1])

    def attend_rows(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        contexts, weights = super().attend_rows(query, memory)  # [batch, heads, steps, value]
        return self.output_layer(contexts.transpose(1, 2).flatten(2)), weights

    def split_heads(self, vectors: Tensor) -> Tensor:
        """Divide vectors among the heads: [batch, heads, positions, key_size / heads].

        Args:
            vectors: [batch, positions, key_size].
        """
        return vectors.unflatten(-1, (self.heads, -1)).transpose(1, 2)
