"""Local and monotonic attention against their formulas in plain Python."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from regard import nn

BATCH, STEPS, POSITIONS, QUERY, MEMORY, KEY = 2, 9, 8, 7, 11, 13
LENGTHS = (8, 5)
VALID = torch.arange(POSITIONS) < torch.tensor(LENGTHS).unsqueeze(1)


def inputs(scale: float = 2.0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    return (
        torch.randn(BATCH, STEPS, QUERY, generator=generator) * scale,
        torch.randn(BATCH, POSITIONS, MEMORY, generator=generator),
    )


def softmax(scores: list[float]) -> list[float]:
    powers = [math.exp(score - max(scores)) for score in scores]
    return [power / sum(powers) for power in powers]


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def bilinear(attention: Any, s: Tensor, h: Tensor) -> float:
    return float(h @ (attention.query_layer.weight @ s)) / math.sqrt(MEMORY)


@pytest.mark.parametrize("window", [1, 2, 20])
@pytest.mark.parametrize("center", ["monotonic", "predictive"])
@torch.no_grad()
def test_local_attention_computes_its_formula(center: Any, window: int) -> None:
    torch.manual_seed(3)
    attention = nn.LocalAttention(QUERY, MEMORY, center=center, window=window)
    query, states = inputs()
    context, weights = attention(query, attention.prepare(states, VALID))
    for row, length in enumerate(LENGTHS):
        for step in range(STEPS):
            s = query[row, step]
            if center == "monotonic":
                p = float(min(step, length - 1))
            else:
                inner, v = attention.center_layer[0].weight @ s, attention.center_layer[2].weight[0]
                p = (length - 1) * sigmoid(float(v @ inner.tanh()))
            inside = [i for i in range(length) if abs(i - p) <= window]
            scores = [bilinear(attention, s, states[row, i]) for i in inside]
            if center == "predictive":
                sigma = window / 2
                scores = [e - (i - p) ** 2 / (2 * sigma**2) for e, i in zip(scores, inside, strict=True)]
            expected = torch.zeros(POSITIONS)
            expected[inside] = torch.tensor(softmax(scores))
            torch.testing.assert_close(weights[row, step], expected, rtol=1e-5, atol=1e-5)
            assert torch.equal(weights[row, step] == 0, expected == 0), "exactly 0 outside the window"
    torch.testing.assert_close(context, weights @ states, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_local_attention_with_a_center_by_step_counts_the_steps_before() -> None:
    attention = nn.LocalAttention(QUERY, MEMORY, center="monotonic", window=1)
    query, states = inputs()
    _, weights = attention(query[:, :1], attention.prepare(states, VALID), nn.AttentionHistory(4))
    assert [row.nonzero().flatten().tolist() for row in weights[:, 0]] == [[3, 4, 5], [3, 4]]


def scores_of(attention: Any, query: Tensor, h: Tensor) -> float:
    inner = attention.query_layer.weight @ query + attention.key_layer.weight @ h
    return float(attention.score_layer.weight[0] @ inner.tanh() + attention.offset)


def monotonic(**options: Any) -> nn.MonotonicAttention:
    """With a large score layer, so that scans stop at different places."""
    torch.manual_seed(3)
    attention = nn.MonotonicAttention(QUERY, MEMORY, key_size=KEY, **options)
    torch.nn.init.normal_(attention.score_layer.weight, std=2.0)
    return attention


@torch.no_grad()
def test_monotonic_attention_scans_from_where_it_stopped_to_the_first_probable_state() -> None:
    attention = monotonic().eval()
    query, states = inputs()
    context, weights = attention(query, attention.prepare(states, VALID))
    stops = []
    for row, length in enumerate(LENGTHS):
        position = 0
        for step in range(STEPS):
            while position < length - 1 and scores_of(attention, query[row, step], states[row, position]) < 0:
                position += 1
            stops.append(position)
            assert weights[row, step].tolist() == [float(i == position) for i in range(POSITIONS)]
            assert torch.equal(context[row, step], states[row, position])
    assert len(set(stops)) > 3, "the scan moves in several steps"


@torch.no_grad()
def test_monotonic_attention_in_training_is_the_probability_of_stopping() -> None:
    """α_ti = p_ti Σ_{k≤i} α_{t−1,k} Π_{k≤l<i} (1 − p_tl), which is the expected weight of the scan."""
    attention = monotonic(noise=0.0)
    query, states = inputs(0.5)
    context, weights = attention(query, attention.prepare(states, VALID))
    for row, length in enumerate(LENGTHS):
        previous = [1.0] + [0.0] * (length - 1)
        for step in range(STEPS):
            p = [sigmoid(scores_of(attention, query[row, step], states[row, i])) for i in range(length)]
            p[-1] = 1.0
            previous = [
                p[i] * sum(previous[k] * math.prod(1 - p[j] for j in range(k, i)) for k in range(i + 1))
                for i in range(length)
            ]
            assert weights[row, step, :length].tolist() == pytest.approx(previous, abs=1e-5)
            assert not weights[row, step, length:].any()
            assert sum(previous) == pytest.approx(1.0)
    torch.testing.assert_close(context, weights @ states, rtol=1e-5, atol=1e-5)


def test_monotonic_attention_is_stable_where_products_vanish() -> None:
    """Of 300 states that are all skipped, products of 1 − p underflow; weights and gradients stay finite."""
    attention = monotonic(noise=0.0)
    with torch.no_grad():
        attention.offset.fill_(40.0)
    states = torch.randn(1, 300, MEMORY, requires_grad=True)
    _, weights = attention(torch.randn(1, 3, QUERY), attention.prepare(states, torch.ones(1, 300, dtype=torch.bool)))
    (gradient,) = torch.autograd.grad((weights * torch.arange(300)).sum(), states)
    assert weights.isfinite().all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 3))
    assert gradient.isfinite().all()


def test_noise_is_added_in_training_only() -> None:
    attention = monotonic(noise=1.0)
    query, states = inputs()
    memory = attention.prepare(states, VALID)
    first, second = (attention(query, memory)[1] for _ in range(2))
    assert not torch.equal(first, second)
    attention.eval()
    first, second = (attention(query, memory)[1] for _ in range(2))
    assert torch.equal(first, second)
