"""The mechanisms whose scores depend on where the model attended before.

Symbols and shapes as in `regard.nn.attention`. Their steps are computed one by one. At the first step, the weights of
earlier steps are 0.
"""

from __future__ import annotations

from typing import Annotated, Unpack

import torch
from pydantic import Field, field_validator
from torch import Tensor, nn

from regard.config.base import Count
from regard.errors import UserError
from regard.nn.attention import AttentionOptions, Memory
from regard.nn.attention_history import QueryHistory
from regard.nn.mechanisms import AdditiveAttention, KeyedAttentionSection


class LocationAttentionSection(KeyedAttentionSection):
    """Settings of location-aware attention.

    Attributes:
        filters: Number of filters of the convolution.
        width: Number of positions that a filter covers; odd.
    """

    filters: Count = 10
    width: Count = 11

    @field_validator("width")
    @classmethod
    def _check_width(cls, width: int) -> int:
        if problem := even_width(width):
            raise ValueError(problem)
        return width


def even_width(width: int) -> str | None:
    """The problem if a filter has no central position; None if it has one.

    Args:
        width: Number of positions of the filter.
    """
    if width % 2 == 0:
        return f"a filter of {width} positions has no central one; choose {width - 1} or {width + 1}"
    return None


class LocationAttention(AdditiveAttention):
    """Location-aware attention (Chorowski et al. 2015): the score sees where the step before attended.

    f_t = F ∗ α_{t-1}        e_ti = wᵀ tanh(W_q s_t + W_k h_i + U f_ti)

    F ∗ α is a convolution over the source positions, with several filters.

    Args:
        query_size: Size of a query.
        memory_size: Size of a state of the memory.
        filters: Number of filters, the size of f_ti.
        width: Number of positions that a filter covers; odd.
        key_size: Size of the sum inside tanh; `query_size` if None.
        **options: Those of every mechanism, see `Attention`.
    """

    Section = LocationAttentionSection
    order_sensitive = True
    uses_history = True

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        *,
        filters: int = 10,
        width: int = 11,
        key_size: int | None = None,
        **options: Unpack[AttentionOptions],
    ) -> None:
        super().__init__(query_size, memory_size, key_size=key_size, **options)
        if problem := even_width(width):
            raise UserError(problem)
        self.convolution = nn.Conv1d(1, filters, width, padding=width // 2, bias=False)  # F
        self.location_layer = nn.Linear(filters, self.key_size, bias=False)  # U

    def score_with_history(self, query: Tensor, memory: Memory, history: QueryHistory) -> Tensor:
        if history.weights is None:
            return self.score(query, memory.keys)
        # Padding has weight 0, as has everything beyond the source.
        convolved = self.convolution(
            history.weights.flatten(0, 1).unsqueeze(1)
        )  # [batch · queries, filters, positions]
        locations = convolved.transpose(1, 2).unflatten(0, history.weights.shape[:2])
        return self.compare(query, memory.keys.unsqueeze(1) + self.location_layer(locations))


class CoverageAttentionSection(KeyedAttentionSection):
    """Settings of coverage attention.

    Attributes:
        max_fertility: The largest number of target tokens that a source token is expected to need; null: one for each.
    """

    max_fertility: Annotated[float, Field(ge=1, le=100)] | None = 2.0


MIN_FERTILITY = 0.01  # coverage is divided by it


class CoverageAttention(AdditiveAttention):
    """Attention with linguistic coverage (Tu et al. 2016): the score sees how much attention a state has had so far.

    Φ_i = N · σ(u · h_i)        C_ti = (1/Φ_i) Σ_{k<t} α_ki        e_ti = wᵀ tanh(W_q s_t + W_k h_i + v_c C_ti)

    Φ_i is the fertility, the number of target tokens that a source token is expected to need. Without it, Φ_i is 1, as
    in the coverage of See et al. (2017).

    Args:
        query_size: Size of a query.
        memory_size: Size of a state of the memory.
        max_fertility: N, the largest Φ_i; None: no fertility.
        key_size: Size of the sum inside tanh; `query_size` if None.
        **options: Those of every mechanism, see `Attention`.
    """

    Section = CoverageAttentionSection
    uses_history = True

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        *,
        max_fertility: float | None = 2.0,
        key_size: int | None = None,
        **options: Unpack[AttentionOptions],
    ) -> None:
        super().__init__(query_size, memory_size, key_size=key_size, **options)
        self.max_fertility = max_fertility
        self.coverage_layer = nn.Linear(1, self.key_size, bias=False)  # v_c
        if max_fertility is not None:
            self.fertility_layer = nn.Linear(memory_size, 1, bias=False)  # u

    def project_keys(self, states: Tensor) -> Tensor:
        """[W_k h_i ; Φ_i]: the fertility is the last number of a key.

        Args:
            states: h, [batch, positions, memory_size].
        """
        keys = super().project_keys(states)
        if self.max_fertility is None:
            return torch.cat([keys, torch.ones_like(keys[..., :1])], -1)
        fertility = self.max_fertility * torch.sigmoid(self.fertility_layer(states))
        return torch.cat([keys, fertility.clamp(min=MIN_FERTILITY)], -1)

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return super().score(query, keys[..., :-1])

    def score_with_history(self, query: Tensor, memory: Memory, history: QueryHistory) -> Tensor:
        if history.coverage is None:
            return self.score(query, memory.keys)
        keys, fertility = memory.keys[..., :-1].unsqueeze(1), memory.keys[..., -1].unsqueeze(1)
        coverage = history.coverage / fertility  # [batch, queries, positions]
        return self.compare(query, keys + self.coverage_layer(coverage.unsqueeze(-1)))
