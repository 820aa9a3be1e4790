"""Learning rates and teacher forcing at exact values."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config.kinds import LEARNING_RATES, TEACHER_FORCING_SCHEDULES
from regard.config.schema import Experiment
from regard.errors import UserError
from regard.training.learning_rates import build_learning_rate
from regard.training.teacher_forcing import build_teacher_forcing


def rates(steps: int, losses: tuple[float, ...] = (), **settings: Any) -> list[float]:
    rate = build_learning_rate(LEARNING_RATES.parse_section(settings))
    return [rate(step, steps, losses) for step in range(steps)]


def test_constant_rate_warms_up_and_stays_at_its_peak():
    assert rates(10, kind="constant", peak=2.0, warmup=0.4) == [0.5, 1.0, 1.5, 2.0, 2, 2, 2, 2, 2, 2]
    assert rates(4, kind="constant", peak=2.0, warmup=0.0) == [2, 2, 2, 2]


def test_warm_up_can_be_given_in_steps():
    for kind in LEARNING_RATES:
        assert rates(10, kind=kind, warmup_steps=4) == rates(10, kind=kind, warmup=0.4)
        assert rates(1_000, kind=kind, peak=2.0, warmup_steps=4)[:4] == [0.5, 1.0, 1.5, 2.0]
        assert rates(3, kind=kind, warmup_steps=0)[0] == 0.003


def test_warm_up_in_steps_and_as_a_share_is_refused():
    message = r"training\.rate\.warmup_steps: warmup \(0\.2\) is a share of all steps and excludes it; set one to null"
    with pytest.raises(UserError, match=message):
        Experiment.load("copy", {"training.rate.warmup": 0.2, "training.rate.warmup_steps": 100})


def test_one_cycle_rises_to_its_peak_and_ends_just_above_zero():
    values = rates(10, kind="one-cycle", peak=2.0, warmup=0.2)
    assert values[:2] == [1.0, 2.0]
    assert values[1:] == pytest.approx([2 * 0.5 * (1 + math.cos(math.pi * k / 9)) for k in range(9)])
    assert 0 < values[-1] < 0.07
    assert max(values) == 2.0
    assert all(later < earlier for earlier, later in pairwise(values[1:]))


def test_inverse_square_root():
    values = rates(100, kind="inverse-square-root", peak=2.0, warmup=0.04)
    assert values[:4] == [0.5, 1.0, 1.5, 2.0]
    assert values[15] == pytest.approx(2.0 * math.sqrt(4 / 16))
    assert values[99] == pytest.approx(2.0 * math.sqrt(4 / 100))


@pytest.mark.parametrize(
    ("losses", "cuts"),
    [
        ((), 0),
        ((3.0, 2.0, 1.0), 0),
        ((1.0, 2.0), 0),
        ((1.0, 2.0, 3.0), 1),
        ((1.0, 1.0, 1.0), 1),  # an equal loss is no improvement
        ((1.0, 2.0, 0.5, 2.0), 0),  # an improvement resets the count
        ((1.0, 2.0, 2.0, 2.0, 2.0), 2),
        ((1.0, 2.0, 2.0, 2.0), 1),
        ((1.0, 2.0, 2.0, 0.5, 2.0, 2.0), 2),
    ],
)
def test_plateau_depends_only_on_the_validation_losses(losses: tuple[float, ...], cuts: int):
    values = rates(10, losses, kind="plateau", peak=2.0, warmup=0.2, factor=0.5, patience=2)
    assert values == [1.0 * 0.5**cuts, *[2.0 * 0.5**cuts] * 9]


@given(kind=st.sampled_from(list(LEARNING_RATES)), warmup=st.floats(0, 1), steps=st.integers(1, 200))
def test_every_rate_is_positive_and_reaches_at_most_its_peak(kind: str, warmup: float, steps: int):
    values = rates(steps, kind=kind, peak=0.5, warmup=warmup)
    assert all(0 < value <= 0.5 for value in values)
    assert max(values) == pytest.approx(0.5)
    peak = values.index(max(values))
    assert all(earlier <= later for earlier, later in pairwise(values[: peak + 1]))
    assert all(earlier >= later for earlier, later in pairwise(values[peak:]))


def ratios(count: int, **settings: Any) -> list[float]:
    ratio = build_teacher_forcing(TEACHER_FORCING_SCHEDULES.parse_section(settings))
    return [ratio(epoch) for epoch in range(count)]


def test_constant_teacher_forcing_does_not_change():
    assert ratios(3) == [1.0, 1.0, 1.0]
    assert ratios(3, ratio=0.3) == [0.3, 0.3, 0.3]


def test_stepped_is_1_then_a_half_then_0_for_10_epochs_each():
    assert ratios(40, kind="stepped") == [1.0] * 10 + [0.5] * 10 + [0.0] * 20
    assert ratios(7, kind="stepped", epochs=2, floor=0.2, ratio=0.8) == pytest.approx(
        [0.8, 0.8, 0.5, 0.5, 0.2, 0.2, 0.2]
    )


def test_linear_reaches_its_floor_after_the_given_epochs():
    assert ratios(6, kind="linear", epochs=4) == pytest.approx([1, 0.75, 0.5, 0.25, 0, 0])
    assert ratios(4, kind="linear", epochs=2, floor=0.5) == pytest.approx([1, 0.75, 0.5, 0.5])


def test_exponential_multiplies_in_each_epoch():
    assert ratios(4, kind="exponential", decay=0.5) == pytest.approx([1, 0.5, 0.25, 0.125])
    assert ratios(3, kind="exponential", decay=0.5, floor=0.2, ratio=0.6) == pytest.approx([0.6, 0.4, 0.3])


def test_inverse_sigmoid():
    k = 5.0
    expected = [(k + 1) / (k + math.exp(epoch / k)) for epoch in range(30)]
    assert ratios(30, kind="inverse-sigmoid", steepness=k) == pytest.approx(expected)
    assert expected[0] == 1
    assert ratios(10_000, kind="inverse-sigmoid", steepness=1.0)[-1] == pytest.approx(0, abs=1e-6)


@given(
    kind=st.sampled_from([kind for kind in TEACHER_FORCING_SCHEDULES if kind != "constant"]),
    bounds=st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted),
    epochs=st.integers(1, 50),
    decay=st.floats(0.01, 0.99),
    steepness=st.floats(1, 50),
)
def test_every_decay_begins_at_its_ratio_never_rises_and_stays_above_its_floor(
    kind: str, bounds: list[float], epochs: int, decay: float, steepness: float
):
    floor, ratio = bounds
    options = {"epochs": epochs, "decay": decay, "steepness": steepness}
    own = {name: value for name, value in options.items() if kind in TEACHER_FORCING_SCHEDULES.with_option(name)}
    values = ratios(300, kind=kind, ratio=ratio, floor=floor, **own)
    assert values[0] == pytest.approx(ratio)
    assert all(earlier >= later - 1e-12 for earlier, later in pairwise(values))
    assert all(floor - 1e-12 <= value <= ratio + 1e-12 for value in values)
