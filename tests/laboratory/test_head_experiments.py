"""The output of attention heads compared with its closed form."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import UserError
from regard.laboratory import head_experiments
from regard.laboratory.head_experiments import (
    COPY,
    EXPERIMENTS,
    ONE_HEAD,
    OTHER,
    TWO_HEADS,
    A,
    B,
    HeadShares,
    RandomKeys,
    closed_form,
)
from regard.laboratory.head_report import head_report
from regard.laboratory.lab_report import LabReport

Regard = Callable[..., Any]


def run_experiment(name: str, **options: Any) -> LabReport:
    defaults: dict[str, Any] = {"beta": None, "sigma": None, "keys": 5, "draws": 211, "seed": 1}
    return head_report(EXPERIMENTS[name], **defaults | options)


def test_keys_are_orthonormal_directions_of_varying_length() -> None:
    keys = RandomKeys(7, 0.1, 100_003, seed=3)
    directions = keys.directions()
    assert torch.allclose(directions @ directions.mT, torch.eye(7, dtype=torch.float64), atol=1e-12)
    lengths = torch.cat(list(keys.lengths()))
    assert lengths.shape == (100_003, 7)
    assert lengths.mean().item() == pytest.approx(1, abs=0.001)
    assert lengths.std().item() == pytest.approx(0.1, abs=0.001)
    assert torch.equal(lengths, torch.cat(list(keys.lengths()))), "the same draws each time"
    assert not torch.equal(lengths, torch.cat(list(RandomKeys(7, 0.1, 100_003, seed=4).lengths())))


def test_draws_are_computed_in_chunks() -> None:
    chunks = list(RandomKeys(50, 0.1, 1_003, seed=1).lengths())
    assert [len(lengths) for lengths in chunks] == [400, 400, 203]
    assert not torch.equal(chunks[0], chunks[1])
    assert HeadShares.of_heads(ONE_HEAD, 50, RandomKeys(50, 0.1, 1_003, seed=1)).measured.shape == (1_003, 3)


@settings(max_examples=60)
@given(
    heads=st.sampled_from([COPY, ONE_HEAD, TWO_HEADS]),
    beta=st.floats(0, 1e4),
    sigma=st.floats(0, 3),
    keys=st.integers(3, 23),
    seed=st.integers(0, 99),
)
def test_measured_shares_match_the_closed_form(
    heads: tuple[head_experiments.Head, ...], beta: float, sigma: float, keys: int, seed: int
) -> None:
    shares = HeadShares.of_heads(heads, beta, RandomKeys(keys, sigma, 13, seed))
    assert torch.allclose(shares.measured, shares.exact, atol=1e-9)
    total = shares.measured[:, A] + shares.measured[:, B] + (keys - 2) * shares.measured[:, OTHER]
    assert torch.allclose(total, torch.ones(13, dtype=torch.float64))


def test_the_closed_form_by_hand() -> None:
    """β/√d = 2 for 4 keys, two of them with lengths 1 and 1/2: scores 2, 1, 0, 0 for a query between both."""
    lengths = torch.tensor([[1.0, 0.5, 3.0, 7.0]], dtype=torch.float64)
    e, e2 = math.e, math.e**2
    between = closed_form(ONE_HEAD, 4.0, lengths)[0].tolist()
    assert between == pytest.approx([e2 / (e2 + e + 2), e / (e2 + e + 2), 1 / (e2 + e + 2)])
    approximate = closed_form(ONE_HEAD, 4.0, lengths, others=False)[0].tolist()
    assert approximate == pytest.approx(
        [1 / (1 + math.exp(-1)), 1 / (1 + math.exp(1)), 0]
    )  # sigmoid(β (λ_a − λ_b) / √d)
    copies = closed_form(TWO_HEADS, 4.0, lengths)[0].tolist()
    assert copies[A] == pytest.approx((e2 / (e2 + 3) + 1 / (e + 3)) / 2)
    assert closed_form(TWO_HEADS, 4.0, lengths, others=False)[0].tolist() == [0.5, 0.5, 0]


def test_a_long_query_copies_and_a_short_one_does_not() -> None:
    data = run_experiment("copy").data
    assert data["heads"]["one head"]["mean"] == pytest.approx([1, 0, 0], abs=1e-9)
    by_beta = {row["beta"]: row["heads"]["one head"] for row in data["by_beta"]}
    growth = math.exp(1 / math.sqrt(5))
    assert by_beta[1]["mean"][A] == pytest.approx(growth / (growth + 4))
    assert by_beta[1]["mean"][A] < 0.3


def test_a_long_query_averages_two_values_and_a_short_one_does_not() -> None:
    data = run_experiment("average").data
    assert data["heads"]["one head"]["mean"] == pytest.approx([0.5, 0.5, 0], abs=1e-9)
    short = data["by_beta"][0]
    assert short["beta"] == pytest.approx(1 / math.sqrt(2)), "of length 1"
    growth = math.exp(1 / math.sqrt(10))
    assert short["heads"]["one head"]["mean"][:2] == pytest.approx([growth / (2 * growth + 3)] * 2)


@pytest.mark.parametrize("name", ["noisy-average", "two-heads"])
def test_one_head_varies_and_two_heads_are_stable(name: str) -> None:
    data = run_experiment(name).data
    one, two = data["heads"]["one head"], data["heads"]["two heads"]
    assert one["std"][A] > 0.3
    assert two["std"][A] < 1e-5 * one["std"][A]
    assert one["min"][A] < 0.01
    assert one["max"][A] > 0.99
    assert two["mean"][:2] == pytest.approx([0.5, 0.5], abs=1e-6)
    for summary in (one, two):
        assert summary["max_error"] < 1e-9
        assert summary["max_error_without_others"] < 5e-4, "the approximation holds to three digits"
    histogram = data["histogram"]
    assert histogram["two heads"][10] == 100, "all in the middle bin"
    assert sum(histogram["one head"]) == pytest.approx(100)
    assert len(data["first_draws"]["one head"]) == 60


def test_the_same_seed_gives_the_same_draws() -> None:
    assert run_experiment("noisy-average").data == run_experiment("noisy-average").data
    assert run_experiment("noisy-average").data["heads"] != run_experiment("noisy-average", seed=2).data["heads"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"beta": math.nan}, "--beta is nan; it can be from 0 to 1,000,000"),
        ({"beta": -1.0}, "--beta is -1; it can be from 0"),
        ({"beta": 1e7}, "--beta is 1e.07"),
        ({"sigma": -0.1}, "--sigma is -0.1; it can be from 0"),
        ({"sigma": math.inf}, "--sigma is inf"),
        ({"keys": 2}, "--keys is 2; it can be from 3 to 50"),
        ({"keys": 51}, "--keys is 51"),
        ({"draws": 0}, "--draws is 0; for 5 keys it can be from 1 to 1,000,000"),
        ({"draws": 1_000_001}, "--draws is 1,000,001"),
        ({"draws": 20_001, "keys": 50}, "--draws is 20,001; for 50 keys it can be from 1 to 20,000"),
        ({"seed": -1}, "--seed is -1; it can be 0 or more"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        run_experiment("copy", **options)


@pytest.mark.parametrize("options", [{"beta": 0.0}, {"beta": 1e6}, {"sigma": 0.0, "draws": 1}, {"draws": 1, "keys": 3}])
@pytest.mark.parametrize("name", ["average", "two-heads"])
def test_extreme_options_are_drawn(name: str, options: dict[str, Any]) -> None:
    found = run_experiment(name, **options)
    found.figure.draw_without_rendering()
    json.dumps(found.data, allow_nan=False)


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_the_command_line(regard: Regard, tmp_path: Path, name: str) -> None:
    path = tmp_path / "it.html"
    answer = regard("lab", name, "--draws", 17, "--out", path)
    assert answer.code == 0, answer.err
    assert answer.out.startswith(EXPERIMENTS[name].title)
    assert "draws: 17" in answer.out
    assert path.stat().st_size > 1000
    data = json.loads(regard("lab", name, "--draws", 17, "--beta", 3, "--json").out)
    assert (data["experiment"], data["beta"], data["draws"]) == (name, 3, 17)
    assert 3 in [row["beta"] for row in data["by_beta"]]
