"""The attention mechanisms that compute scores, with their settings. Symbols and shapes as in `regard.nn.attention`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Self, Unpack

import torch
from pydantic import BeforeValidator
from torch import Tensor, nn

from regard.config.base import Count, Size, invalid_combination
from regard.config.kinds import AttentionSection
from regard.errors import UserError
from regard.nn.attention import Attention, AttentionOptions, Memory, Temperature, check_temperature
from regard.nn.attention_history import QueryHistory
from regard.nn.normalizers import Normalizer


class ScoredAttentionSection(AttentionSection):
    """Settings of a mechanism that computes scores.

    Attributes:
        normalizer: How weights follow from scores: `softmax`, `sparsemax`, `entmax15` or `hard`.
        unit_norm: Divide queries and states by their norms before scoring.
        temperature: Divide scores by this before they are normalized; `learned` makes it a parameter. Null means 1, or
            learned with `unit_norm`.
        value_size: Size of the projected values W_V h_i; null means that the values are the states.
    """

    renamed: ClassVar[Mapping[str, str]] = {"hard": "normalizer: hard"}
    normalizer: Normalizer = "softmax"
    unit_norm: bool = False
    temperature: Annotated[Temperature | None, BeforeValidator(check_temperature)] = None
    value_size: Size | None = None

    def of_format(self, format: int) -> Self:
        is_former = format < 4 and self.unit_norm and self.temperature is None
        return self.model_copy(update={"temperature": 1.0}) if is_former else self

    def changed_training(self, format: int) -> str | None:
        if format < 4 and self.normalizer == "hard":
            return "hard attention now passes a straight-through gradient to its scores, which it did not before"
        return None


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
        **options: Those of every mechanism, see `Attention`.
    """

    Section = DotAttentionSection

    def __init__(self, query_size: int, memory_size: int, **options: Unpack[AttentionOptions]) -> None:
        if query_size != memory_size:
            raise UserError(
                f"dot attention multiplies a query of size {query_size} with states of size {memory_size}; they must "
                "be equal (a bidirectional encoder's states are twice its size), or choose scaled-dot, bilinear, "
                "additive or multi-head"
            )
        super().__init__(query_size, memory_size, **options)

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.transpose(-1, -2)


class BilinearAttention(Attention):
    """e_ti = h_iᵀ W_g s_t / √m, where m is the size of h_i.

    Args:
        query_size: Size of a query.
        memory_size: Size of a state of the memory.
        **options: Those of every mechanism, see `Attention`.
    """

    Section = ScoredAttentionSection

    def __init__(self, query_size: int, memory_size: int, **options: Unpack[AttentionOptions]) -> None:
        super().__init__(query_size, memory_size, **options)
        self.query_layer = nn.Linear(query_size, memory_size, bias=False)  # W_g

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return self.query_layer(query) @ keys.transpose(-1, -2) / math.sqrt(self.memory_size)


class KeyedAttentionSection(ScoredAttentionSection):
    """Settings of a mechanism that projects queries and states.

    Attributes:
        key_size: Size of the projections; null means the decoder's size.
    """

    key_size: Size | None = None


class KeyedAttention(Attention):
    """Base class of mechanisms that project first: q_t = W_q s_t, k_i = W_k h_i.

    Args:
        query_size: Size of a query.
        memory_size: Size of a state of the memory.
        key_size: Size of q_t and k_i; `query_size` if None.
        **options: Those of every mechanism, see `Attention`.
    """

    Section: ClassVar[type[AttentionSection]] = KeyedAttentionSection

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        *,
        key_size: int | None = None,
        **options: Unpack[AttentionOptions],
    ) -> None:
        super().__init__(query_size, memory_size, **options)
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
        **options: Those of every mechanism, see `Attention`.
    """

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return self.query_layer(query) @ keys.transpose(-1, -2) / math.sqrt(self.key_size)


class AdditiveAttention(KeyedAttention):
    """e_ti = w_2ᵀ tanh(W_1 [h_i ; s_t]) = w_2ᵀ tanh(W_k h_i + W_q s_t), with W_1 = [W_k, W_q].

    Args:
        query_size: Size of a query.
        memory_size: Size of a state of the memory.
        key_size: Size of W_k h_i and W_q s_t; `query_size` if None.
        **options: Those of every mechanism, see `Attention`.
    """

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        *,
        key_size: int | None = None,
        **options: Unpack[AttentionOptions],
    ) -> None:
        super().__init__(query_size, memory_size, key_size=key_size, **options)
        self.score_layer = nn.Linear(self.key_size, 1, bias=False)  # w_2

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return self.compare(query, keys.unsqueeze(1))

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """The scores of keys that may differ between queries, [batch, steps, positions].

        Args:
            query: s, [batch, steps, query_size].
            keys: [batch, 1 or steps, positions, key_size].
        """
        both = self.query_layer(query).unsqueeze(2) + keys  # [batch, steps, positions, key]
        return self.score_layer(torch.tanh(both)).squeeze(-1)


class MultiHeadAttentionSection(KeyedAttentionSection):
    """Settings of multi-head attention.

    Attributes:
        heads: Number of heads, which share `key_size` and `value_size` equally.
    """

    heads: Count = 4

    def check_sizes(self, query_size: int, memory_size: int) -> None:
        if problem := unequal_heads(self.heads, self.key_size or query_size, self.value_size):
            raise invalid_combination("heads", problem)


def unequal_heads(heads: int, key_size: int, value_size: int | None) -> str | None:
    """The problem if heads cannot have the same size; None if they can.

    Args:
        heads: Number of heads.
        key_size: Size of the keys of all heads together.
        value_size: Size of the values of all heads together; None: the key size.
    """
    for name, size in (("key", key_size), ("value", value_size or key_size)):
        if size % heads:
            return f"{heads} heads cannot share a {name} size of {size} equally: it must be a multiple of {heads}"
    return None


class MultiHeadAttention(Attention):
    """Scaled dot-product attention in several heads, each with its own projections of query, key and value.

    head_j = softmax(Q W_Q,j (X W_K,j)ᵀ / √d) X W_V,j        Y = [head_1 ; … ; head_n] W_O

    Args:
        query_size: Size of a query.
        memory_size: Size of a state of the memory.
        heads: Number of heads.
        key_size: Size of all heads together, as in `torch.nn.MultiheadAttention`; `query_size` if None.
        **options: Those of every mechanism, see `Attention`; `value_size` is that of all heads together, `key_size` if
            None.
    """

    Section = MultiHeadAttentionSection
    weight_axes = ("head",)
    value_layer: nn.Linear

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        *,
        heads: int = 1,
        key_size: int | None = None,
        **options: Unpack[AttentionOptions],
    ) -> None:
        key_size = key_size or query_size
        value_size = options.pop("value_size", None) or key_size
        if problem := unequal_heads(heads, key_size, value_size):
            raise UserError(problem)
        super().__init__(query_size, memory_size, **options)
        self.heads = heads
        self.context_size = query_size
        self.query_layer = nn.Linear(query_size, key_size)
        self.key_layer = nn.Linear(memory_size, key_size)
        self.value_layer = nn.Linear(memory_size, value_size)
        self.output_layer = nn.Linear(value_size, query_size)
        for layer in (self.query_layer, self.key_layer, self.value_layer):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def prepare(self, states: Tensor, valid: Tensor) -> Memory:
        memory = super().prepare(states, valid)
        return replace(memory, valid=memory.valid.unsqueeze(1))  # the same for all heads

    def project_keys(self, states: Tensor) -> Tensor:
        return self.split_heads(self.key_layer(states))

    def project_values(self, states: Tensor) -> Tensor:
        return self.split_heads(self.value_layer(states))

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return self.score_heads(self.split_heads(self.query_layer(query)), keys)

    def score_heads(self, queries: Tensor, keys: Tensor) -> Tensor:
        """The scores q · k / √d of each head, [batch, heads, steps, positions].

        Args:
            queries: The projected queries q, [batch, heads, steps, key_size / heads].
            keys: What `project_keys` returned, [batch, heads, positions, key_size / heads].
        """
        return queries @ keys.transpose(-1, -2) / math.sqrt(queries.shape[-1])

    def attend_rows(self, query: Tensor, memory: Memory, history: QueryHistory) -> tuple[Tensor, Tensor]:
        contexts, weights = super().attend_rows(query, memory, history)  # [batch, heads, steps, value]
        return self.output_layer(contexts.transpose(1, 2).flatten(2)), weights

    def split_heads(self, vectors: Tensor) -> Tensor:
        """Divide vectors among the heads: [batch, heads, positions, key_size / heads].

        Args:
            vectors: [batch, positions, key_size].
        """
        return vectors.unflatten(-1, (self.heads, -1)).transpose(1, 2)
