"""Normalizers against closed forms, against numbers computed by hand, and against the package `entmax`."""

from __future__ import annotations

import math
from typing import Any

import entmax
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard import nn
from regard.errors import UserError
from regard.nn.normalizers import NORMALIZERS

SPARSE = {"sparsemax": entmax.sparsemax, "entmax15": entmax.entmax15}
numbers = st.floats(-6, 6, width=32)


def weights_of(normalizer: str, *scores: float) -> list[float]:
    weights: list[float] = NORMALIZERS[normalizer](torch.tensor(scores, dtype=torch.float64)).tolist()
    return weights


def test_sparsemax_by_hand() -> None:
    """Of (1, 0.5, −0.2) the two highest are in the support: θ = (1.5 − 1) / 2 = 0.25."""
    assert weights_of("sparsemax", 1.0, 0.5, -0.2) == pytest.approx([0.75, 0.25, 0.0], abs=1e-12)


def test_entmax15_by_hand() -> None:
    """Of (0.4, 0, −4) the two highest are in the support; x = e/2 has M = 0.1, V = 0.01, and θ = 0.1 − √0.49 = −0.6."""
    assert weights_of("entmax15", 0.4, 0.0, -4.0) == pytest.approx([0.64, 0.36, 0.0], abs=1e-12)


@given(numbers)
def test_two_scores_have_closed_forms(difference: float) -> None:
    sparse = min(max((1 + difference) / 2, 0.0), 1.0)
    assert weights_of("sparsemax", difference, 0.0) == pytest.approx([sparse, 1 - sparse], abs=1e-12)
    half = difference / 2
    square = ((half + math.sqrt(max(2 - half**2, 0.0))) / 2) ** 2 if abs(half) < 1 else float(half > 0)
    assert weights_of("entmax15", difference, 0.0) == pytest.approx([square, 1 - square], abs=1e-12)
    logistic = 1 / (1 + math.exp(-difference))
    assert weights_of("softmax", difference, 0.0) == pytest.approx([logistic, 1 - logistic], abs=1e-12)


@pytest.mark.parametrize("name", SPARSE)
@given(rows=st.lists(st.lists(numbers, min_size=7, max_size=7), min_size=1, max_size=3))
@settings(deadline=None)
def test_values_and_gradients_are_those_of_the_package_entmax(name: str, rows: list[list[float]]) -> None:
    direction = torch.randn(len(rows), 7, dtype=torch.float64, generator=torch.Generator().manual_seed(3))

    def run(normalizer: Any) -> tuple[Tensor, Tensor]:
        scores = torch.tensor(rows, dtype=torch.float64, requires_grad=True)
        weights = normalizer(scores)
        (gradient,) = torch.autograd.grad((weights * direction).sum(), scores)
        return weights.detach(), gradient

    weights, gradient = run(NORMALIZERS[name])
    expected, expected_gradient = run(lambda scores: SPARSE[name](scores, dim=-1))
    torch.testing.assert_close(weights, expected, rtol=0, atol=1e-9)
    at_a_kink = ((weights > 0) != (expected > 0)).any() or (weights[weights > 0].min() < 1e-9)
    if not at_a_kink:  # where a score enters the support, sparsemax has two one-sided gradients
        torch.testing.assert_close(gradient, expected_gradient, rtol=0, atol=1e-7)


@pytest.mark.parametrize("name", ["softmax", *SPARSE])
def test_the_gradient_is_that_of_finite_differences(name: str) -> None:
    scores = torch.tensor([[1.0, 0.7, -0.3, 0.2, -2.0], [0.1, 0.0, 0.3, 0.25, 0.2]], dtype=torch.float64)
    assert torch.autograd.gradcheck(NORMALIZERS[name], scores.requires_grad_())


@pytest.mark.parametrize("name", NORMALIZERS)
@given(scores=st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=9))
def test_weights_are_a_distribution_whatever_the_scores(name: str, scores: list[float]) -> None:
    weights = NORMALIZERS[name](torch.tensor(scores))
    assert weights.isfinite().all()
    assert (weights >= 0).all()
    assert float(weights.sum()) == pytest.approx(1.0, abs=1e-5)
    assert float(weights[scores.index(max(scores))]) == pytest.approx(float(weights.max()), abs=1e-6)


@pytest.mark.parametrize(("name", "zeros"), [("softmax", 0), ("entmax15", 2), ("sparsemax", 3), ("hard", 4)])
def test_the_normalizers_of_a_mechanism_differ_in_their_zeros(name: Any, zeros: int) -> None:
    """Scores 2, 1.5, 1, 0, −1: the sparser the normalizer, the fewer states have weight."""
    attention = nn.DotAttention(1, 1, normalizer=name)
    states = torch.tensor([[[2.0], [1.5], [1.0], [0.0], [-1.0]]])
    memory = attention.prepare(states, torch.ones(1, 5, dtype=torch.bool))
    _, weights = attention(torch.ones(1, 1, 1), memory)
    assert int((weights == 0).sum()) == zeros


@pytest.mark.parametrize("name", ["sparsemax", "entmax15"])
def test_the_temperature_decides_how_many_states_have_weight(name: Any) -> None:
    states = torch.tensor([[[2.0], [1.5], [1.0], [0.0], [-1.0]]])
    counts = []
    for temperature in (0.1, 1.0, 100.0):
        attention = nn.DotAttention(1, 1, normalizer=name, temperature=temperature)
        _, weights = attention(torch.ones(1, 1, 1), attention.prepare(states, torch.ones(1, 5, dtype=torch.bool)))
        counts.append(int((weights > 0).sum()))
    assert counts[0] == 1 < counts[1] < counts[2] == 5


def test_an_unknown_normalizer_is_refused() -> None:
    with pytest.raises(UserError, match=r"'sparse' is not a normalizer: did you mean 'sparsemax'\? choices: softmax"):
        nn.DotAttention(7, 7, normalizer="sparse")  # type: ignore[arg-type]
