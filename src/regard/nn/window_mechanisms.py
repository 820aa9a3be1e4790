"""Mechanisms whose attention moves along the source: a window, or a scan.

Symbols and shapes as in `regard.nn.attention`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal, Unpack

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from regard.config.base import Count, Size
from regard.config.kinds import AttentionSection
from regard.devices import exact_products
from regard.nn.attention import AttentionOptions, Memory, attend, weighted_sum
from regard.nn.attention_history import QueryHistory
from regard.nn.mechanisms import AdditiveAttention, BilinearAttention, ScoredAttentionSection
from regard.nn.normalizers import at_least_float32

WindowCenter = Literal["predictive", "monotonic"]


class LocalAttentionSection(ScoredAttentionSection):
    """Settings of local attention.

    Attributes:
        center: How the center of the window is determined: `predictive` from the decoder's state, or `monotonic`: it
            is the number of the step.
        window: D, the number of positions on each side of the center.
    """

    center: WindowCenter = "predictive"
    window: Count = 5


class LocalAttention(BilinearAttention):
    """Attention to a window of the source (Luong et al. 2015), with a bilinear score ("general").

    monotonic     p_t = t                                  weights within [p_t − D, p_t + D]
    predictive    p_t = (S − 1) · σ(vᵀ tanh(W_p s_t))      the same, and e_ti − (i − p_t)² / 2σ², σ = D/2

    S is the number of source positions, counted from 0; after the end of the source, the monotonic center is its last
    position. The Gaussian is a term of the score, so that weights sum to 1; Luong et al. multiply the weights with it,
    so that they sum to less.

    Args:
        query_size: Size of a query.
        memory_size: Size of a state of the memory.
        center: How p_t is determined.
        window: D, the number of positions on each side of p_t.
        **options: Those of every mechanism, see `Attention`.
    """

    Section = LocalAttentionSection
    order_sensitive = True

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        *,
        center: WindowCenter = "predictive",
        window: int = 5,
        **options: Unpack[AttentionOptions],
    ) -> None:
        super().__init__(query_size, memory_size, **options)
        self.center = center
        self.window = window
        if center == "predictive":
            self.center_layer = nn.Sequential(
                nn.Linear(query_size, query_size, bias=False), nn.Tanh(), nn.Linear(query_size, 1, bias=False)
            )  # W_p and v

    def attend_rows(self, query: Tensor, memory: Memory, history: QueryHistory) -> tuple[Tensor, Tensor]:
        is_inside = self.distances(query, memory, history).abs() <= self.window
        window = replace(memory, valid=memory.valid & is_inside)
        return attend(self.scores(query, memory, history), window, self.normalizer, self.weight_dropout)

    def scores(self, query: Tensor, memory: Memory, history: QueryHistory) -> Tensor:
        scores = super().scores(query, memory, history)
        if self.center == "monotonic":
            return scores
        return scores - self.distances(query, memory, history).square() / (2 * (self.window / 2) ** 2)

    def distances(self, query: Tensor, memory: Memory, history: QueryHistory) -> Tensor:
        """i − p_t, [batch, queries, positions].

        Args:
            query: s, [batch, queries, query_size].
            memory: What `prepare` returned, with the same batch size.
            history: The steps before these queries.
        """
        positions = torch.arange(memory.keys.shape[1], device=query.device)
        return positions - self.centers(query, memory, history)

    def centers(self, query: Tensor, memory: Memory, history: QueryHistory) -> Tensor:
        """The centers p_t of the windows, [batch, queries, 1].

        Args:
            query: s, [batch, queries, query_size].
            memory: What `prepare` returned, with the same batch size.
            history: The steps before these queries.
        """
        last = last_position(memory.valid)  # S − 1, [batch, 1, 1]
        if self.center == "predictive":
            return last * torch.sigmoid(at_least_float32(self.center_layer(query)))  # bfloat16 counts up to 256
        return torch.minimum(history.step_numbers(query.device).unsqueeze(1), last)


class MonotonicAttentionSection(AttentionSection):
    """Settings of monotonic attention.

    Attributes:
        key_size: Size of the projections of queries and states; null means the decoder's size.
        value_size: Size of the projected values W_V h_i; null means that the values are the states.
        noise: Standard deviation of the noise that is added to the scores in training, which makes p_ti close to 0
            or 1.
    """

    key_size: Size | None = None
    value_size: Size | None = None
    noise: Annotated[float, Field(ge=0, le=100)] = 1.0


class MonotonicAttention(AdditiveAttention):
    """Hard monotonic attention (Raffel et al. 2017): scans the source, stops at one state, and never returns.

    e_ti = wᵀ tanh(W_q s_t + W_k h_i) + r    p_ti = σ(e_ti)    α_ti = p_ti Σ_{k≤i} α_{t-1,k} Π_{k≤l<i} (1 − p_tl)

    Step t starts where step t − 1 stopped, at the first position if t = 0. At state i, it stops with probability p_ti
    or moves on to state i + 1. In training, α_ti is the probability of stopping at i. Otherwise, the scan stops at the
    first state with p_ti ≥ ½, and its weight is 1; the scores get the gradient of the probabilities (straight-through).
    At the last position of the source, p_ti is 1, so that weights sum to 1.

    Args:
        query_size: Size of a query.
        memory_size: Size of a state of the memory.
        key_size: Size of W_k h_i and W_q s_t; `query_size` if None.
        value_size: Size of the values v_i = W_V h_i; None: the values are the states.
        noise: Standard deviation of the noise that is added to the scores in training.
    """

    Section = MonotonicAttentionSection
    order_sensitive = True
    uses_history = True
    exact_history = True  # what rounding adds to α_{t-1} or removes from it, α_t has, too

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        *,
        key_size: int | None = None,
        value_size: int | None = None,
        noise: float = 1.0,
    ) -> None:
        super().__init__(query_size, memory_size, key_size=key_size, value_size=value_size)
        self.offset = nn.Parameter(torch.tensor(-1.0))  # r: at first, p < ½, so that the scan continues
        self.noise = noise

    def attend_rows(self, query: Tensor, memory: Memory, history: QueryHistory) -> tuple[Tensor, Tensor]:
        positions = torch.arange(memory.keys.shape[1], device=query.device)
        scores = at_least_float32(self.scores(query, memory, history))
        previous = history.weights
        if previous is None:
            previous = (positions == 0).to(scores).expand_as(scores)
        if self.training:
            weights = stopping_probabilities(scores + self.noise * torch.randn_like(scores), previous, memory.valid)
        else:
            weights = first_stop(scores, previous, memory.valid)
            if scores.requires_grad:
                expected = stopping_probabilities(scores, previous, memory.valid)
                weights = weights + (expected - expected.detach())  # the difference is exactly 0
        return weighted_sum(weights, memory, self.weight_dropout), weights

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return super().score(query, keys) + self.offset


def last_position(valid: Tensor) -> Tensor:
    """The last valid position of each source, [..., 1].

    Args:
        valid: True where weight is allowed, [..., positions].
    """
    return (valid * torch.arange(valid.shape[-1], device=valid.device)).amax(-1, keepdim=True)


def stopping_probabilities(scores: Tensor, previous: Tensor, valid: Tensor) -> Tensor:
    """α_ti = p_ti Σ_{k≤i} α_{t-1,k} Π_{k≤l<i} (1 − p_tl), with p_ti = σ(e_ti), and 1 at the last position.

    Products are sums of logarithms, log(1 − p) = log σ(−e); Raffel et al. divide by products that vanish.

    Args:
        scores: e_t, [batch, queries, positions], at least float32, since sums of logarithms would be inexact in less.
        previous: α_{t-1}, of the same shape and type.
        valid: True where weight is allowed, [batch, 1, positions].
    """
    skipped = logsigmoid(-scores).masked_fill(~valid, 0.0)  # log(1 − p)
    before = skipped.cumsum(-1) - skipped  # S_i = Σ_{l<i} log(1 − p_l)
    between = before.unsqueeze(-2) - before.unsqueeze(-1)  # S_i − S_k, [..., k, i]
    later = torch.ones_like(between, dtype=torch.bool).tril(-1)  # k > i
    with exact_products(scores.device):
        reached = (previous.unsqueeze(-2) @ between.masked_fill(later, -torch.inf).exp()).squeeze(-2)
    is_last = torch.arange(scores.shape[-1], device=scores.device) == last_position(valid)
    return reached * torch.sigmoid(scores).masked_fill(is_last, 1.0).masked_fill(~valid, 0.0)


def first_stop(scores: Tensor, previous: Tensor, valid: Tensor) -> Tensor:
    """1 at the first position with p_ti ≥ ½, from where the step before stopped; at the last position if there is none.

    Args:
        scores: e_t, [batch, queries, positions].
        previous: α_{t-1}, 1 where the step before stopped, of the same shape.
        valid: True where weight is allowed, [batch, 1, positions].
    """
    is_last = torch.arange(scores.shape[-1], device=scores.device) == last_position(valid)
    stops = ((scores >= 0) | is_last) & valid & (previous.cumsum(-1) > 0.5)
    return (stops & (stops.cumsum(-1) == 1)).to(scores)
