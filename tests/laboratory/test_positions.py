"""How alike the vectors of positions are, against what sums of cosines say."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.errors import UserError
from regard.laboratory.positions import position_report, similarities, unevenness, wavelengths

Regard = Callable[..., Any]


def test_wavelengths_are_a_geometric_progression() -> None:
    waves = wavelengths(22)
    assert waves == pytest.approx([2 * math.pi * 10_000 ** (2 * k / 22) for k in range(11)], rel=1e-6)


def test_sines_are_alike_as_their_distance_says() -> None:
    """cos(PE(t), PE(t + n)) = (2/size) Σ_k cos(ω_k n)."""
    data = position_report(14, 31).data
    for row in data["similarity"]["sine"]:
        expected = sum(math.cos(row["distance"] / 10_000 ** (2 * k / 14)) for k in range(7)) / 7
        assert (row["least"], row["mean"], row["greatest"]) == pytest.approx((expected,) * 3, abs=1e-6)
    assert data["largest_deviation"] < 1e-5
    assert [row["mean"] for row in data["similarity"]["one-hot"]] == [1] + [0] * 30


def test_what_depends_on_the_place_is_noticed() -> None:
    vectors = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    assert unevenness(vectors) == 3  # 1, 1 and 4 at a distance of 0
    near = similarities(vectors)[1]
    assert (near.least, near.mean, near.greatest) == (0, 0.5, 1)


@pytest.mark.parametrize(
    ("size", "length", "problem"),
    [
        (63, 100, "--size is 63; it can be an even number from 2 to 1,000"),
        (0, 100, "--size is 0"),
        (1002, 100, "--size is 1,002"),
        (64, 1, "--length is 1; it can be from 2 to 1,000"),
        (64, 10**9, "--length is 1,000,000,000"),
    ],
)
def test_what_is_refused(size: int, length: int, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        position_report(size, length)


def test_the_smallest_is_drawn() -> None:
    position_report(2, 2).figure.draw_without_rendering()


def test_the_command_line(regard: Regard, tmp_path: Path) -> None:
    answer = regard("lab", "positions", "--size", 14, "--length", 31, "--out", tmp_path / "it.png")
    assert answer.code == 0, answer.err
    assert (tmp_path / "it.png").stat().st_size > 1000
    rows = [line.split() for line in answer.out.splitlines()]
    assert ["0", "0,", "1", "6.283", "1"] in rows
    data = json.loads(regard("lab", "positions", "--size", 14, "--length", 31, "--json").out)
    assert (len(data["wavelengths"]), len(data["sine"]), len(data["sine"][0])) == (7, 31, 14)
