"""Mechanisms whose scores depend on earlier steps, against their formulas in plain Python, step by step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from regard import nn
from regard.errors import UserError
from regard.nn.attention_history import NO_HISTORY

BATCH, STEPS, POSITIONS, QUERY, MEMORY, KEY = 2, 4, 5, 7, 11, 13
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
LENGTHS = (5, 3)
VALID = torch.arange(POSITIONS) < torch.tensor(LENGTHS).unsqueeze(1)

Score = Callable[[Tensor, list[Tensor], list[float], list[float]], list[float]]


def inputs() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    return (
        torch.randn(BATCH, STEPS, QUERY, generator=generator) * 2,
        torch.randn(BATCH, POSITIONS, MEMORY, generator=generator),
    )


def softmax(scores: list[float]) -> list[float]:
    powers = [math.exp(score - max(scores)) for score in scores]
    return [power / sum(powers) for power in powers]


def check_formula(attention: nn.Attention, score: Score) -> None:
    """`score` gets s_t, all h_i, α_{t−1} and Σ_{k<t} α_k, and returns all e_ti."""
    query, states = inputs()
    with torch.no_grad():
        context, weights = attention(query, attention.prepare(states, VALID))
        for row, length in enumerate(LENGTHS):
            all_h, latest, total = list(states[row, :length]), [0.0] * length, [0.0] * length
            for step in range(STEPS):
                latest = softmax(score(query[row, step], all_h, latest, total))
                total = [past + new for past, new in zip(total, latest, strict=True)]
                assert weights[row, step, :length].tolist() == pytest.approx(latest, abs=1e-5)
                assert not weights[row, step, length:].any()
                expected = sum(weight * h for weight, h in zip(latest, all_h, strict=True))
                torch.testing.assert_close(context[row, step], expected, **CLOSE)


def compare(attention: Any, s: Tensor, h: Tensor, more: Tensor) -> float:
    """wᵀ tanh(W_q s + W_k h + more)."""
    inner = attention.query_layer.weight @ s + attention.key_layer.weight @ h + more
    return float(attention.score_layer.weight[0] @ inner.tanh())


@pytest.mark.parametrize("width", [1, 3, 7])
def test_location_attention_sees_the_weights_of_the_step_before_around_each_position(width: int) -> None:
    torch.manual_seed(3)
    attention = nn.LocationAttention(QUERY, MEMORY, filters=2, width=width, key_size=KEY)
    filters = attention.convolution.weight[:, 0]  # F, [filters, width]

    def score(s: Tensor, all_h: list[Tensor], latest: list[float], total: list[float]) -> list[float]:
        scores = []
        for i, h in enumerate(all_h):
            f = torch.zeros(2)
            for offset in range(width):
                if 0 <= (j := i + offset - width // 2) < len(latest):
                    f = f + filters[:, offset] * latest[j]
            scores.append(compare(attention, s, h, attention.location_layer.weight @ f))
        return scores

    check_formula(attention, score)


@pytest.mark.parametrize("max_fertility", [None, 1.0, 3.5])
def test_coverage_attention_sees_how_much_each_position_has_been_attended(max_fertility: float | None) -> None:
    torch.manual_seed(3)
    attention = nn.CoverageAttention(QUERY, MEMORY, max_fertility=max_fertility, key_size=KEY)
    v = attention.coverage_layer.weight[:, 0]  # v_c

    def score(s: Tensor, all_h: list[Tensor], latest: list[float], total: list[float]) -> list[float]:
        scores = []
        for h, covered in zip(all_h, total, strict=True):
            fertility = 1.0
            if max_fertility is not None:
                fertility = max_fertility / (1 + math.exp(-float(attention.fertility_layer.weight[0] @ h)))
            scores.append(compare(attention, s, h, v * covered / fertility))
        return scores

    check_formula(attention, score)


def test_coverage_discourages_what_has_been_attended() -> None:
    """All states are equal and v_c points against w: the more coverage, the lower the score."""
    attention = nn.CoverageAttention(1, 1, max_fertility=None, key_size=1).requires_grad_(False)
    for parameter, value in ((attention.score_layer.weight, 4.0), (attention.coverage_layer.weight, -1.0)):
        parameter.fill_(value)
    history = nn.AttentionHistory(1, torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[1.0, 0.0, 0.0]]))
    memory = attention.prepare(torch.zeros(1, 3, 1), torch.ones(1, 3, dtype=torch.bool))
    _, weights = attention(torch.zeros(1, 1, 1), memory, history)
    low = math.exp(4 * math.tanh(-1))
    assert weights.flatten().tolist() == pytest.approx([low / (low + 2), 1 / (low + 2), 1 / (low + 2)])


def test_fertility_is_never_so_small_that_coverage_is_infinite() -> None:
    attention = nn.CoverageAttention(1, 1, max_fertility=2.0).requires_grad_(False)
    attention.fertility_layer.weight.fill_(-1e4)
    memory = attention.prepare(torch.ones(1, 3, 1), torch.ones(1, 3, dtype=torch.bool))
    context, _ = attention(torch.ones(1, 5, 1), memory)
    assert context.isfinite().all()


@pytest.mark.parametrize("kind", [nn.LocationAttention, nn.CoverageAttention, nn.MonotonicAttention])
@torch.inference_mode()
def test_hypotheses_keep_their_own_history(kind: type[nn.Attention]) -> None:
    """Rows that are reordered between two steps continue as the sequences of queries that led to them."""
    torch.manual_seed(3)
    attention = kind(QUERY, MEMORY).eval()
    query, states = inputs()
    memory = attention.prepare(states, VALID)
    order = torch.tensor([1, 1, 0, 4, 3, 3])  # of three hypotheses for each source
    several = torch.cat([query, query.flip(0), -query], 1).unflatten(1, (3, STEPS)).flatten(0, 1)
    history = NO_HISTORY
    for step in range(2):
        _, weights = attention(several[:, step : step + 1], memory, history)
        history = attention.extend_history(history, weights)
    _, weights = attention(several[:, 2:3], memory, history.select(order))
    continued = torch.cat([several[order, :2], several[:, 2:3]], 1)
    for row in range(len(order)):
        source = slice(row // 3, row // 3 + 1)
        alone = attention.prepare(states[source], VALID[source])
        _, all_weights = attention(continued[row : row + 1], alone)
        torch.testing.assert_close(weights[row, 0], all_weights[0, -1], **CLOSE)


def test_a_mechanism_without_history_keeps_only_the_number_of_steps() -> None:
    attention = nn.DotAttention(QUERY, QUERY)
    history = attention.extend_history(NO_HISTORY, torch.ones(BATCH, STEPS, POSITIONS))
    assert (history.steps, history.weights, history.coverage) == (STEPS, None, None)


def test_a_filter_without_a_center_is_refused() -> None:
    with pytest.raises(UserError, match="a filter of 4 positions has no central one; choose 3 or 5"):
        nn.LocationAttention(QUERY, MEMORY, width=4)
