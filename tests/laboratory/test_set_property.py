"""Permuted states: attention without positions does not depend on their order, with positions it does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.errors import UserError
from regard.laboratory.set_property import set_report

Regard = Callable[..., Any]
MECHANISMS = ["dot", "scaled-dot", "bilinear", "additive", "multi-head"]
STATES = ((1.0, 2.0), (-3.0, 0.5), (0.7, -1.1))


def effects(report: Any, positions: str) -> dict[str, dict[str, float]]:
    return {each["mechanism"]: each for each in report.data["effects"] if each["positions"] == positions}


@pytest.mark.parametrize(("states", "order"), [(None, None), (STATES, (3, 1, 2)), (STATES, (1, 3, 2))])
def test_order_matters_with_positions_only(states: Any, order: Any) -> None:
    report = set_report(states, order)
    without = effects(report, "none")
    assert list(without) == MECHANISMS
    assert all(max(each["weights"], each["context"]) < 1e-14 for each in without.values())
    for positions in ("sine, added", "sine, concatenated", "one-hot, concatenated"):
        assert all(each["context"] > 1e-6 for each in effects(report, positions).values()), positions


def test_weights_are_permuted_and_contexts_equal() -> None:
    steps = {step["symbol"]: torch.tensor(step["numbers"]) for step in set_report(STATES, (3, 1, 2)).data["steps"]}
    assert torch.equal(steps["H'"], steps["H"][[2, 0, 1]])
    assert len(steps["α"]) == 6, "multi-head attention has two heads"
    assert torch.allclose(steps["α'"], steps["α"][:, [2, 0, 1]])
    assert not torch.allclose(steps["α'"], steps["α"])
    assert torch.allclose(steps["c'"], steps["c"])


def test_equal_states_have_no_order() -> None:
    """The property is measured, not asserted: with equal states, positions make no difference either."""
    report = set_report(((1.0, 2.0),) * 3)
    assert all(each["context"] < 1e-14 for each in report.data["effects"])


def test_seeds() -> None:
    assert set_report(seed=3).data == set_report(seed=3).data
    assert set_report(seed=3).data["effects"] != set_report(seed=4).data["effects"]


@pytest.mark.parametrize(
    ("states", "order", "problem"),
    [
        (((1.0, 2.0),), None, "--states has 1 row; a permutation needs at least two states"),
        (
            STATES,
            (1, 2),
            "--permutation 1,2 is not a permutation of 3 states; it needs each of the numbers 1 to 3 once, such as 3,",
        ),
        (STATES, (0, 1, 2), "--permutation 0,1,2 is not a permutation"),
        (STATES, (1, 1, 2), "--permutation 1,1,2 is not a permutation"),
        (STATES, (1, 2, 3), "--permutation leaves every state in its place"),
    ],
)
def test_invalid_permutations_are_refused(states: Any, order: Any, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        set_report(states, order)


def test_the_command_line(regard: Regard, tmp_path: Path) -> None:
    path = tmp_path / "it.pdf"
    before = torch.random.get_rng_state()
    answer = regard("lab", "set", "--states", "1,2;3,4;5,7", "--permutation", "3,1,2", "--out", path)
    assert answer.code == 0, answer.err
    assert torch.equal(before, torch.random.get_rng_state())
    assert path.stat().st_size > 1000
    (order,) = (line for line in answer.out.splitlines() if line.startswith("order"))
    assert order.endswith("h_3, h_1, h_2"), "the rows of H' have the same names in this order"
    assert [row["rows"] for row in set_report(STATES, (3, 1, 2)).data["steps"]][1] == ["h_3", "h_1", "h_2"]
    assert json.loads(regard("lab", "set", "--json").out)["permutation"] == [5, 4, 3, 2, 1]
    for wrong in ("0.5,1", "1;0", "x"):
        assert regard("lab", "set", "--permutation", wrong).code == 2
