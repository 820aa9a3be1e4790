"""Attention: a query asks a memory, and the answer is a weighted sum of what the memory holds.

    e_ti = score(s_t, h_i)        α_t = softmax(e_t)        c_t = Σ_i α_ti v_i

Symbols: s query, h states of the memory, k keys, v values, e scores, α weights, c context.
Shapes: [batch, steps, …] for queries, [batch, positions, …] for the memory; a mechanism with several heads has an
axis `heads` after `batch`. A mechanism is its score; masking, softmax and the weighted sum stand once, in `attend`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.errors import UserError


@dataclass(frozen=True)
class Memory:
    """What can be attended to, prepared once and passed on; nothing of it is kept in a module."""

    keys: Tensor  # [batch, (heads,) positions, key]
    values: Tensor  # [batch, (heads,) positions, value]
    valid: Tensor  # [batch, (1,) 1 or steps, positions]; True: this position may receive weight

    def select(self, index: Tensor) -> Memory:
        """The rows `index` of the batch; nothing is copied when these are all of them, in order."""
        if torch.equal(index, torch.arange(len(self.keys), device=index.device)):
            return self
        return Memory(*(part.index_select(0, index) for part in (self.keys, self.values, self.valid)))

    def after(self, past: Memory) -> Memory:
        """These positions behind those of `past`; `valid` already speaks of both."""
        keys = torch.cat([past.keys, self.keys], -2)
        values = torch.cat([past.values, self.values], -2)
        return Memory(keys, values, self.valid)


def attend(scores: Tensor, memory: Memory, *, hard: bool = False) -> tuple[Tensor, Tensor]:
    """α = softmax(e) over the valid positions, c = Σ_i α_i v_i; with `hard`, all weight on the highest score.

    Padding gets exactly no weight. A query that may look nowhere gets no weight at all and a context of zeros.
    """
    forbidden = ~memory.valid
    scores = scores.masked_fill(forbidden, torch.finfo(scores.dtype).min)
    if hard:
        best = scores.argmax(-1, keepdim=True)
        weights = torch.zeros_like(scores).scatter(-1, best, 1.0)
    else:
        weights = torch.softmax(scores, -1)
    weights = weights.masked_fill(forbidden, 0.0)
    return (
        weights @ memory.values,
        weights,
    )  # [batch, (heads,) steps, value], [batch, (heads,) steps, positions]


class Attention(nn.Module, ABC):
    """A mechanism is its `score`, and its `keys` where part of the score can be computed before any query comes."""

    weight_axes: tuple[str, ...] = ()  # the axes of its weights between batch and steps

    def __init__(self, query_size: int, memory_size: int, *, hard: bool = False, unit_norm: bool = False) -> None:
        super().__init__()
        self.query_size = query_size
        self.memory_size = memory_size
        self.context_size = memory_size
        self.hard = hard
        self.unit_norm = unit_norm

    def prepare(self, states: Tensor, valid: Tensor) -> Memory:
        """`valid` is [batch, positions], or [batch, steps, positions] where steps may look at different things."""
        if valid.dim() == 2:
            valid = valid.unsqueeze(1)
        return Memory(self.keys(self.normalize(states)), states, valid)

    def forward(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Context [batch, steps, context] and weights [batch, (heads,) steps, positions].

        A memory of fewer rows serves several rows of the query each, in succession. Their queries are asked as if
        they were further steps, so that the hypotheses of a beam share what was read and nothing is copied.
        """
        share = len(query) // len(memory.keys)
        if share == 1:
            return self.answer(query, memory)
        context, weights = self.answer(query.unflatten(0, (-1, share)).flatten(1, 2), memory)
        context = context.unflatten(1, (share, -1)).flatten(0, 1)
        return context, weights.unflatten(-2, (share, -1)).movedim(-3, 1).flatten(0, 1)

    def answer(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Context and weights where query and memory have the same rows."""
        return attend(self.score(self.normalize(query), memory.keys), memory, hard=self.hard)

    def normalize(self, states: Tensor) -> Tensor:
        return nn.functional.normalize(states, dim=-1) if self.unit_norm else states

    def keys(self, states: Tensor) -> Tensor:
        return states

    @abstractmethod
    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        """How well each position answers each query: [batch, (heads,) steps, positions]."""


class NoAttention(Attention):
    """No score: no weights, and a context of zeros. What is left is the bottleneck."""

    def __init__(self, query_size: int, memory_size: int) -> None:
        super().__init__(query_size, memory_size)

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return query.new_zeros(len(query), query.shape[1], keys.shape[1])

    def answer(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        context = query.new_zeros(len(query), query.shape[1], self.context_size)
        return context, self.score(query, memory.keys)


class MeanAttention(Attention):
    """Equal weight on every real position: the same score for all, e_ti = 0."""

    def __init__(self, query_size: int, memory_size: int) -> None:
        super().__init__(query_size, memory_size)

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return query.new_zeros(len(query), query.shape[1], keys.shape[1])


class DotAttention(Attention):
    """e_ti = s_t · h_i; query and memory have one size."""

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


class KeyedAttention(Attention):
    """Compares in a space of its own, of `key_size`: q_t = W_q s_t, k_i = W_k h_i. The value is h_i itself."""

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

    def keys(self, states: Tensor) -> Tensor:
        return self.key_layer(states)


class ScaledDotAttention(KeyedAttention):
    """e_ti = q_t · k_i / √d with q_t = W_q s_t and k_i = W_k h_i; d is `key_size`."""

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return self.query_layer(query) @ keys.transpose(-1, -2) / math.sqrt(self.key_size)


class AdditiveAttention(KeyedAttention):
    """e_ti = w_2ᵀ tanh(W_1 [h_i ; s_t]) = w_2ᵀ tanh(W_k h_i + W_q s_t), W_1 cut in two."""

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


class BilinearAttention(Attention):
    """e_ti = h_iᵀ W_g s_t / √m, where m is the size of h_i."""

    def __init__(self, query_size: int, memory_size: int, *, hard: bool = False, unit_norm: bool = False) -> None:
        super().__init__(query_size, memory_size, hard=hard, unit_norm=unit_norm)
        self.query_layer = nn.Linear(query_size, memory_size, bias=False)  # W_g

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return self.query_layer(query) @ keys.transpose(-1, -2) / math.sqrt(self.memory_size)


class MultiHeadAttention(Attention):
    """Several scaled-dot heads with their own projections of query, key and value.

    head_j = softmax(Q W_Q,j (X W_K,j)ᵀ / √d) X W_V,j        Y = [head_1 ; … ; head_n] W_O

    `key_size` is the size of all heads together, as in the original Transformer and in `torch.nn`.
    """

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
        return Memory(memory.keys, self.split(self.value_layer(states)), memory.valid.unsqueeze(1))

    def keys(self, states: Tensor) -> Tensor:
        return self.split(self.key_layer(states))

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        queries = self.split(self.query_layer(query))  # [batch, heads, steps, key]
        return queries @ keys.transpose(-1, -2) / math.sqrt(queries.shape[-1])

    def answer(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        contexts, weights = super().answer(query, memory)  # [batch, heads, steps, value]
        return self.output_layer(contexts.transpose(1, 2).flatten(2)), weights

    def split(self, vectors: Tensor) -> Tensor:
        return vectors.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # [batch, heads, positions, key]


MECHANISMS: dict[str, Callable[..., Attention]] = {
    "none": NoAttention,
    "mean": MeanAttention,
    "dot": DotAttention,
    "scaled-dot": ScaledDotAttention,
    "bilinear": BilinearAttention,
    "additive": AdditiveAttention,
    "multi-head": MultiHeadAttention,
}
