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
from regard.laboratory.head_experiments import EXPERIMENTS, Heads, HeadShares, RandomKeys, Subset, subset_shares
from regard.laboratory.head_options import head_options
from regard.laboratory.head_report import head_report
from regard.laboratory.lab_report import LabReport

Regard = Callable[..., Any]
COPY, ONE_HEAD, TWO_HEADS = (Heads(keys) for keys in (((0,),), ((0, 1),), ((0,), (1,))))
A, B, OTHER = 0, 1, 2  # shares of a subset of two values


def run_experiment(name: str, **options: Any) -> LabReport:
    return head_report(EXPERIMENTS[name], head_options(EXPERIMENTS[name], **{"draws": 211} | options))


def random_keys(count: int = 5, size: int | None = None, noise: float = 0.1, orientation: float = 0.0) -> RandomKeys:
    return RandomKeys(count, size or count, noise, orientation, draws=1_003, seed=1)


@pytest.mark.parametrize("size", [7, 11])
def test_keys_are_orthonormal_means_of_varying_length(size: int) -> None:
    keys = RandomKeys(7, size, 0.1, 0.0, 100_003, seed=3)
    means = keys.means()
    assert means.shape == (7, size)
    assert torch.allclose(means @ means.mT, torch.eye(7, dtype=torch.float64), atol=1e-12)
    lengths = torch.cat(list(keys.lengths()))
    assert lengths.shape == (100_003, 7)
    assert lengths.mean().item() == pytest.approx(1, abs=0.001)
    assert lengths.std().item() == pytest.approx(0.1, abs=0.001)
    assert torch.equal(lengths, torch.cat(list(keys.lengths()))), "the same draws each time"
    assert not torch.equal(lengths, torch.cat(list(RandomKeys(7, size, 0.1, 0.0, 100_003, seed=4).lengths())))


def test_noise_in_orientation_has_its_length_in_all_directions() -> None:
    keys = random_keys(5, 11, noise=0.0, orientation=0.3)
    noise = torch.cat([each for _, each in keys.noisy_keys()]) - keys.means()  # [draws, keys, d]
    assert noise.square().sum(-1).mean().sqrt().item() == pytest.approx(0.3, rel=0.02)
    assert noise.square().mean((0, 1)).sqrt().tolist() == pytest.approx([0.3 / math.sqrt(11)] * 11, rel=0.1)
    assert torch.equal(noise, torch.cat([each for _, each in keys.noisy_keys()]) - keys.means())


def test_draws_are_computed_in_chunks() -> None:
    keys = random_keys(50, orientation=0.1)
    chunks = list(keys.noisy_keys())
    assert [len(lengths) for lengths, _ in chunks] == [400, 400, 203]
    for lengths, others in zip(chunks[0], chunks[1], strict=True):
        assert not torch.equal(lengths, others)
    noise = [each - lengths.unsqueeze(-1) * keys.means() for lengths, each in chunks]
    assert not torch.equal(noise[0], noise[1])
    assert HeadShares.of_heads(ONE_HEAD, 50, keys, (0, 1)).measured.shape == (1_003, 3)


@settings(max_examples=60)
@given(
    data=st.data(),
    one_per_value=st.booleans(),
    from_keys=st.booleans(),
    scale=st.floats(0, 1e4),
    noise=st.floats(0, 3),
    keys=st.integers(2, 13),
    seed=st.integers(0, 99),
)
def test_measured_shares_match_the_closed_form(
    data: st.DataObject, one_per_value: bool, from_keys: bool, scale: float, noise: float, keys: int, seed: int
) -> None:
    size = data.draw(st.integers(keys, 23), "size")
    subset: Subset = tuple(data.draw(st.lists(st.integers(0, keys - 1), min_size=1, unique=True), "subset"))
    heads = Heads.over(subset, one_per_value, from_keys)
    shares = HeadShares.of_heads(heads, scale, RandomKeys(keys, size, noise, 0.0, 13, seed), subset)
    assert shares.exact is not None
    assert torch.allclose(shares.measured, shares.exact, atol=1e-8)
    total = shares.measured[:, : len(subset)].sum(1)
    if len(subset) < keys:
        total = total + (keys - len(subset)) * shares.measured[:, -1]
    assert torch.allclose(total, torch.ones(13, dtype=torch.float64))


def test_the_closed_form_by_hand() -> None:
    """s/√d = 2 for keys of size 4, two of them with lengths 1 and 1/2: scores 2, 1, 0, 0 for a query between both."""
    lengths = torch.tensor([[1.0, 0.5, 3.0, 7.0]], dtype=torch.float64)
    e, e2 = math.e, math.e**2
    between = ONE_HEAD.closed_form(4.0, lengths, size=4)[0].tolist()
    total = e2 + e + 2
    assert between == pytest.approx([e2 / total, e / total, 1 / total, 1 / total])
    assert subset_shares(torch.tensor([between]), (1, 0))[0].tolist() == pytest.approx(
        [e / total, e2 / total, 1 / total]
    )
    approximate = ONE_HEAD.closed_form(4.0, lengths, size=4, others=False)[0].tolist()
    assert approximate == pytest.approx([1 / (1 + math.exp(-1)), 1 / (1 + math.exp(1)), 0, 0])  # a sigmoid
    copies = TWO_HEADS.closed_form(4.0, lengths, size=4)[0].tolist()
    assert copies[0] == pytest.approx((e2 / (e2 + 3) + 1 / (e + 3)) / 2)
    assert TWO_HEADS.closed_form(4.0, lengths, size=4, others=False)[0].tolist() == [0.5, 0.5, 0, 0]


def test_two_keys_of_size_2_by_hand() -> None:
    """s/√d = 2, lengths 1 and 1/2: scores 2 and 1 with a query from means, 2 and 1/2 with one from the keys."""
    means = torch.eye(2, dtype=torch.float64)
    keys = torch.tensor([[[1.0, 0.0], [0.0, 0.5]]], dtype=torch.float64)
    scale = 2 * math.sqrt(2)
    for from_keys, difference in ((False, 1.0), (True, 1.5)):
        heads = Heads.over((0, 1), one_per_value=False, from_keys=from_keys)
        sigmoid = 1 / (1 + math.exp(-difference))
        assert heads.run(scale, means, keys)[0].tolist() == pytest.approx([sigmoid, 1 - sigmoid])
        lengths = keys.norm(dim=-1)
        assert heads.closed_form(scale, lengths, size=2)[0].tolist() == pytest.approx([sigmoid, 1 - sigmoid])


def test_a_long_query_copies_and_a_short_one_does_not() -> None:
    data = run_experiment("copy", subset=[3]).data
    assert data["heads"]["one head"]["mean"] == pytest.approx([1, 0], abs=1e-9)
    by_scale = {row["scale"]: row["heads"]["one head"] for row in data["by_scale"]}
    growth = math.exp(1 / math.sqrt(5))
    assert by_scale[1]["mean"] == pytest.approx([growth / (growth + 4), 1 / (growth + 4)])
    assert by_scale[1]["mean"][A] < 0.3


@pytest.mark.parametrize(("subset", "size"), [([1, 2], 5), ([5, 2, 3], 17), ([1, 2, 3, 4, 5], 7)])
def test_a_long_query_averages_a_subset_and_a_short_one_does_not(subset: list[int], size: int) -> None:
    data = run_experiment("average", subset=subset, size=size).data
    count, others = len(subset), 5 - len(subset)
    assert data["subset"] == subset
    assert data["by_scale"][-1]["heads"]["one head"]["mean"][:count] == pytest.approx([1 / count] * count)
    short = data["by_scale"][0]
    assert short["scale"] == data["unit_scale"] == pytest.approx(1 / math.sqrt(count)), "of length 1"
    growth = math.exp(1 / math.sqrt(count * size))
    expected = [growth / (count * growth + others)] * count
    assert short["heads"]["one head"]["mean"][:count] == pytest.approx(expected)
    assert len(short["heads"]["one head"]["mean"]) == count + bool(others)


def test_the_report_names_the_scale_that_is_large_enough(regard: Regard) -> None:
    scale = math.sqrt(5) * math.log(99 * 3 / 2)
    assert f"= {scale:.4g} on" in " ".join(regard("lab", "average").out.split())
    mean = run_experiment("average", scale=scale).data["heads"]["one head"]["mean"]
    assert mean[A] + mean[B] == pytest.approx(0.99)


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
    assert len(data["first_draws"]["one head"][0]) == 3


def test_one_head_for_each_of_three_values() -> None:
    data = run_experiment("two-heads", subset=[1, 2, 4], size=7).data
    assert data["heads"]["one head"]["std"][0] > 0.25
    assert data["heads"]["3 heads"]["mean"][:3] == pytest.approx([1 / 3] * 3, abs=1e-5)
    assert data["heads"]["3 heads"]["std"][0] < 1e-5


def test_a_query_of_length_1_hardly_moves() -> None:
    """5 keys of size 5, β = 0.1: first-order error propagation gives a standard deviation of 0.006."""
    data = run_experiment("noisy-average", draws=1_000).data
    short = data["by_scale"][0]["heads"]["one head"]
    growth = math.exp(1 / math.sqrt(10))
    weight = growth / (2 * growth + 3)
    expected = 0.1 / math.sqrt(10) * weight * math.hypot(1 - weight, weight)
    assert expected == pytest.approx(0.006, abs=1e-4)
    assert short["std"][A] == pytest.approx(expected, rel=0.02)


def test_a_query_from_noisy_keys_varies_twice_as_much() -> None:
    data = run_experiment("noisy-average", query_from="keys", draws=1_000).data
    short = data["by_scale"][0]["heads"]
    assert short["one head"]["std"][A] == pytest.approx(2 * short["one head, query from means"]["std"][A], rel=0.03)
    assert data["heads"]["one head"]["max_error"] < 1e-9
    assert run_experiment("two-heads", query_from="keys").data["heads"]["two heads"]["std"][A] < 1e-4


def test_noise_in_orientation_acts_like_noise_in_length() -> None:
    """√(β² + 2 ε²/d) = 0.2 for β = 0.12, ε = 0.32, d = 8."""
    options: dict[str, Any] = {"keys": 3, "size": 8, "draws": 20_000}
    without = run_experiment("noisy-average", noise=0.12, **options).data["heads"]["one head"]
    oriented = run_experiment("noisy-average", noise=0.12, orientation_noise=0.32, **options)
    summary = oriented.data["heads"]["one head"]
    equivalent = run_experiment("noisy-average", noise=0.2, **options).data["heads"]["one head"]
    assert summary["std"][A] > without["std"][A] + 0.05
    assert summary["std"][A] == pytest.approx(equivalent["std"][A], abs=0.005)
    assert (summary["closed_form"], summary["max_error"]) == (None, None)
    texts = " ".join(oriented.page.sections[0].text)
    assert "have no closed form" in texts
    assert "= 0.2." in texts


def test_the_same_seed_gives_the_same_draws() -> None:
    assert run_experiment("noisy-average").data == run_experiment("noisy-average").data
    assert run_experiment("noisy-average").data["heads"] != run_experiment("noisy-average", seed=2).data["heads"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"scale": math.nan}, "--scale is nan; it can be from 0 to 1,000,000"),
        ({"scale": -1.0}, "--scale is -1; it can be from 0"),
        ({"scale": 1e7}, "--scale is 1e.07"),
        ({"noise": -0.1}, "--noise is -0.1; it can be from 0"),
        ({"noise": math.inf}, "--noise is inf"),
        ({"orientation_noise": -0.1}, "--orientation-noise is -0.1; it can be from 0"),
        ({"query_from": "values"}, "--query-from is 'values'; it can be means or keys"),
        ({"keys": 1}, "--keys is 1; it can be from 2 to 50"),
        ({"keys": 51}, "--keys is 51"),
        ({"size": 0}, "--size is 0; it can be from 5, the number of keys, to 512"),
        ({"size": 513}, "--size is 513; it can be from 5"),
        ({"size": 4}, "--keys is 5, but --size is 4: .* choose a size of 5 or more, or 4 keys or fewer"),
        ({"draws": 0}, "--draws is 0; for 5 keys of size 5 it can be from 1 to 1,000,000"),
        ({"draws": 1_000_001}, "--draws is 1,000,001"),
        ({"draws": 20_001, "keys": 50}, "--draws is 20,001; for 50 keys of size 50 it can be from 1 to 20,000"),
        ({"seed": -1}, "--seed is -1; it can be 0 or more"),
        ({"subset": [0, 1]}, "--subset has 0; the values are 1 to 5"),
        ({"subset": [1, 6]}, "--subset has 6; the values are 1 to 5"),
        ({"subset": [2, 2]}, "--subset has 2 more than once"),
        ({"subset": [2]}, "--subset has one value; `average` needs two or more, such as 1,2"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        head_options(EXPERIMENTS["average"], **options)


def test_only_one_value_is_copied() -> None:
    with pytest.raises(UserError, match="--subset has 2 values; `copy` needs one, such as 2"):
        head_options(EXPERIMENTS["copy"], subset=[1, 2])


@pytest.mark.parametrize(
    "options",
    [
        {"scale": 0.0},
        {"scale": 1e6},
        {"noise": 0.0, "draws": 1},
        {"draws": 1, "keys": 2},
        {"orientation_noise": 3.0, "query_from": "keys"},
        {"keys": 50, "draws": 3, "subset": list(range(1, 51))},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["average", "noisy-average", "two-heads"])
def test_extreme_options_are_drawn(name: str, options: dict[str, Any]) -> None:
    found = run_experiment(name, **options)
    found.figure.draw_without_rendering()
    json.dumps(found.data, allow_nan=False)


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_the_command_line(regard: Regard, tmp_path: Path, name: str) -> None:
    path = tmp_path / "it.html"
    answer = regard("lab", name, "--draws", 17, "--out", path)
    assert answer.code == 0, answer.err
    assert answer.out.startswith(EXPERIMENTS[name].title.format(heads="Two heads"))
    assert "draws: 17" in answer.out
    assert path.stat().st_size > 1000
    subset = "4" if name == "copy" else "4,1,2"
    options = ("--scale", 3, "--noise", 0.3, "--orientation-noise", 0.2, "--query-from", "keys", "--size", 11)
    data = json.loads(regard("lab", name, "--draws", 17, *options, "--subset", subset, "--json").out)
    assert (data["experiment"], data["scale"], data["noise"], data["draws"]) == (name, 3, 0.3, 17)
    assert (data["orientation_noise"], data["query_from"], data["size"]) == (0.2, "keys", 11)
    assert data["subset"] == [int(index) for index in subset.split(",")]
    assert 3 in [row["scale"] for row in data["by_scale"]]


@pytest.mark.parametrize(("subset", "problem"), [("1.5,2", "whole numbers"), ("a", "not a number"), ("1,9", "has 9")])
def test_a_subset_that_is_no_list_of_values_is_refused(regard: Regard, subset: str, problem: str) -> None:
    answer = regard("lab", "average", "--subset", subset)
    assert answer.code != 0
    assert problem in answer.err
    assert "--subset" in answer.err


def test_the_homework_is_told_apart_from_our_derivations(regard: Regard) -> None:
    text = " ".join(regard("lab", "two-heads", "--draws", 17).out.split())
    assert "The CS224n-style homework gives no queries; q_1 = s μ_1 and q_2 = s μ_2 are ours." in text
    assert "The closed forms are derivations of Regard, not of the CS224n-style homework." in text
    assert "With a query of length 1 (s = 0.7071), the share of v_1 with one head is" in text
