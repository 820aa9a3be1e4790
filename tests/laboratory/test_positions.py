"""The similarity of position encodings compared with sums of cosines."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.errors import UserError
from regard.laboratory.positions import (
    frequency_deviation,
    position_report,
    product_deviation,
    similarity_by_distance,
    wavelengths,
)
from regard.nn.positions import FirstFrequency

Regard = Callable[..., Any]


@pytest.mark.parametrize("first", [0, 1])
def test_wavelengths_are_a_geometric_progression(first: FirstFrequency) -> None:
    expected = [2 * math.pi * 10_000 ** (2 * k / 22) for k in range(first, first + 11)]
    assert wavelengths(22, first) == pytest.approx(expected, rel=1e-6)
    assert position_report(22, 31, first).data["wavelengths"] == pytest.approx(expected, rel=1e-6)


def test_the_ends_of_both_progressions_are_reported() -> None:
    data = position_report(22, 31).data
    turns = [end / (2 * math.pi) for first in "01" for end in data["wavelength_ranges"][first]]
    assert turns == pytest.approx([1, 10_000 ** (20 / 22), 10_000 ** (2 / 22), 10_000], rel=1e-6)


def test_a_frequency_does_not_depend_on_the_position() -> None:
    angles = torch.tensor([[0.0, 0.0], [0.5, 1.0], [1.0, 2.5]], dtype=torch.float64)  # the second wave changes by 0.5
    waves = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
    assert frequency_deviation(waves) == pytest.approx(0.5)
    assert frequency_deviation(waves[:, :2]) == pytest.approx(0, abs=1e-9)
    for first in (0, 1):
        assert position_report(14, 31, first).data["max_frequency_deviation"] < 1e-6


def test_sinusoidal_similarity_depends_on_the_distance() -> None:
    """cos(PE(t), PE(t + n)) = (2/size) Σ_k cos(ω_k n)."""
    data = position_report(14, 31).data
    for row in data["similarity"]["sine"]:
        expected = sum(math.cos(row["distance"] / 10_000 ** (2 * k / 14)) for k in range(7)) / 7
        assert (row["min"], row["mean"], row["max"]) == pytest.approx((expected,) * 3, abs=1e-6)
    assert data["max_deviation"] < 1e-5
    assert [row["mean"] for row in data["similarity"]["one-hot"]] == [1] + [0] * 30


def test_dependence_on_the_position_is_measured() -> None:
    vectors = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    assert product_deviation(vectors) == 3  # 1, 1 and 4 at a distance of 0
    near = similarity_by_distance(vectors)[1]
    assert (near.min, near.mean, near.max) == (0, 0.5, 1)


@pytest.mark.parametrize(
    ("size", "length", "first", "problem"),
    [
        (63, 100, 0, "--size is 63; it can be an even number from 2 to 1,000"),
        (0, 100, 0, "--size is 0"),
        (1002, 100, 0, "--size is 1,002"),
        (64, 1, 0, "--length is 1; it can be from 2 to 1,000"),
        (64, 10**9, 0, "--length is 1,000,000,000"),
        (64, 100, 2, "--first-frequency is 2; it can be 0, as in the Transformer, or 1, as in EECS 182"),
    ],
)
def test_invalid_options_are_refused(size: int, length: int, first: int, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        position_report(size, length, first)


def test_smallest_encoding_is_drawn() -> None:
    position_report(2, 2).figure.draw_without_rendering()


def test_the_command_line(regard: Regard, tmp_path: Path) -> None:
    answer = regard("lab", "positions", "--size", 14, "--length", 31, "--out", tmp_path / "it.png")
    assert answer.code == 0, answer.err
    assert (tmp_path / "it.png").stat().st_size > 1000
    rows = [line.split() for line in answer.out.splitlines()]
    assert ["0", "0,", "1", "6.283", "1"] in rows
    assert ["k", "from", "1", "to", "7", "3.728", "10,000"] in rows
    from_one = regard("lab", "positions", "--size", 14, "--length", 31, "--first-frequency", 1).out
    assert ["1", "0,", "1", "23.42", "3.728"] in [line.split() for line in from_one.splitlines()]
    data = json.loads(regard("lab", "positions", "--size", 14, "--length", 31, "--json").out)
    assert (len(data["wavelengths"]), len(data["sine"]), len(data["sine"][0])) == (7, 31, 14)
