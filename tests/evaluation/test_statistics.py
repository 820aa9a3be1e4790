"""Statistics over seeds against closed forms and scipy; Holm's correction against its definition."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from regard.evaluation.statistics import (
    MeanDifference,
    SampleSummary,
    holm_correction,
    paired_t_test,
    summarize,
    welch_test,
)

scores = st.floats(-100, 100).map(lambda value: round(value, 3))
p_values = st.lists(st.floats(0, 1) | st.sampled_from([0.0, 0.01, 0.5, 1.0]), max_size=6)


def two_degrees(t: float) -> float:
    """P(|T| > t) with two degrees of freedom."""
    root = math.hypot(math.sqrt(2), t)
    return 2 / (root * (root + t))


def three_degrees(t: float) -> float:
    """P(|T| > t) with three degrees of freedom."""
    angle = math.atan2(math.sqrt(3), t)
    return 2 / math.pi * (angle - math.sin(angle) * math.cos(angle))


def spread(mean: float, t: float, count: int) -> list[float]:
    """Three or four values whose mean is `t` standard errors from 0."""
    values = {3: [-1.0, 0.0, 1.0], 4: [-2.0, -1.0, 1.0, 2.0]}[count]
    error = statistics.stdev(values) / math.sqrt(count)
    return [mean + value * mean / (t * error) for value in values]


CLOSED_FORMS = pytest.mark.parametrize(("count", "probability"), [(3, two_degrees), (4, three_degrees)])


@pytest.mark.parametrize("t", [0.01, 0.5, 2, 25, 1000])
@CLOSED_FORMS
def test_paired_p_values_in_closed_form(t: float, count: int, probability: Callable[[float], float]):
    """P(|T| ≤ t) is t / √(2 + t²) with two degrees of freedom."""
    values = spread(1, t, count)
    assert paired_t_test(values, [0.0] * count).p == pytest.approx(probability(t), rel=1e-6)


@pytest.mark.parametrize("t", [0.5, 2, 25])
@CLOSED_FORMS
def test_welch_p_values_in_closed_form(t: float, count: int, probability: Callable[[float], float]):
    """The other side does not vary: the degrees of freedom are those of the values, however many others there are."""
    for others in ([0.0] * 3, [0.0] * 7):
        assert welch_test(spread(1, t, count), others).p == pytest.approx(probability(t), rel=1e-6)
        assert welch_test(others, spread(1, t, count)).p == pytest.approx(probability(t), rel=1e-6)


def test_a_small_p_value_is_not_rounded_to_0():
    """t = 100 with four degrees of freedom."""
    values = [100 + 5**0.5 * value for value in statistics_with_unit_deviation(5)]
    assert paired_t_test(values, [0.0] * 5).p == pytest.approx(5.99e-8, rel=1e-2)


def statistics_with_unit_deviation(count: int) -> list[float]:
    values = [float(value) for value in range(count)]
    return [(value - statistics.mean(values)) / statistics.stdev(values) for value in values]


def test_intervals_have_the_quantiles_of_the_tables():
    """With a standard error of 1 the margin is t(95 %, n − 1)."""
    margins = []
    for count in (2, 3, 5, 10):
        summary = summarize([math.sqrt(count) * value for value in statistics_with_unit_deviation(count)])
        margins.append(round(summary.high, 3))
        assert summary.low == pytest.approx(-summary.high)
    assert margins == [12.706, 4.303, 2.776, 2.262]


@settings(max_examples=50)
@given(values=st.lists(scores, min_size=2, max_size=12))
def test_summary_matches_the_standard_library_and_scipy(values: list[float]):
    summary = summarize(values)
    assert summary.count == len(values)
    assert summary.mean == pytest.approx(statistics.mean(values), rel=1e-12, abs=1e-12)
    assert summary.variance == pytest.approx(statistics.variance(values), rel=1e-12, abs=1e-12)
    assert summary.deviation == pytest.approx(statistics.stdev(values), rel=1e-12, abs=1e-12)
    if len(set(values)) > 1:
        interval = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
        assert (summary.low, summary.high) == pytest.approx(interval, rel=1e-9, abs=1e-9)


def test_a_single_value_has_only_a_mean():
    assert summarize([3.5]) == SampleSummary(1, 3.5, None, None, None, None)


@given(value=st.floats(-1e6, 1e6), count=st.integers(2, 9))
def test_equal_values_have_exactly_no_spread(value: float, count: int):
    assert summarize([value] * count) == SampleSummary(count, value, 0.0, 0.0, value, value)


def test_empty_samples_are_refused():
    for call in (lambda: summarize([]), lambda: welch_test([], [1.0]), lambda: welch_test([1.0], [])):
        with pytest.raises(ValueError, match="no values"):
            call()


@given(st.lists(st.tuples(scores, scores), min_size=3, max_size=9))
def test_paired_t_test_matches_scipy(pairs: list[tuple[float, float]]):
    values, others = (list(side) for side in zip(*pairs, strict=True))
    differences = [value - other for value, other in pairs]
    assume(statistics.stdev(differences) > 1e-6 * max(map(abs, differences)))
    found = paired_t_test(values, others)
    expected = stats.ttest_rel(values, others)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-12)
    interval = expected.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-6, abs=1e-9)


def test_pairing_removes_differences_between_runs():
    greedy, beam = [39.1, 39.8, 40.6], [39.6, 40.4, 41.15]
    assert welch_test(beam, greedy).p == pytest.approx(0.43, abs=0.01)
    assert paired_t_test(beam, greedy).p == pytest.approx(0.003, abs=0.001)


def test_fewer_than_three_pairs_are_not_tested():
    assert paired_t_test([2.0], [1.0]) == MeanDifference(1.0, untested="1 pair")
    assert paired_t_test([3.0, 5.0], [2.0, 3.0]) == MeanDifference(1.5, untested="2 pairs")
    assert paired_t_test([3.0, 5.0, 7.0], [2.0, 3.0, 4.0]).untested is None
    with pytest.raises(ValueError, match="zip"):
        paired_t_test([1.0, 2.0], [1.0])


def test_equal_differences_are_not_tested():
    assert paired_t_test([2.0, 3.0, 5.0], [2.0, 3.0, 5.0]) == MeanDifference(0.0, untested="no variance")
    assert paired_t_test([3.0, 4.0, 6.0], [2.0, 3.0, 5.0]) == MeanDifference(1.0, untested="no variance")
    rounded = paired_t_test([0.952, 0.8, 0.3], [0.852, 0.7, 0.2])  # 0.1 each, but for the rounding of binary numbers
    assert (rounded.p, rounded.untested) == (None, "no variance")
    assert paired_t_test([0.952, 0.8, 0.3], [0.852, 0.7, 0.2001]).p is not None


@pytest.mark.filterwarnings("ignore:Precision loss")  # scipy's warning if one side does not vary
@settings(max_examples=50)
@given(values=st.lists(scores, min_size=3, max_size=8), others=st.lists(scores, min_size=3, max_size=8))
def test_welch_matches_scipy(values: list[float], others: list[float]):
    found = welch_test(values, others)
    if len(set(values)) == len(set(others)) == 1:
        return  # scipy returns nan
    expected = stats.ttest_ind(values, others, equal_var=False)
    interval = expected.confidence_interval(0.95)
    assert found.mean == pytest.approx(np.mean(values) - np.mean(others), rel=1e-12, abs=1e-12)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-7)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-8, abs=1e-8)


@given(values=st.lists(scores, min_size=1, max_size=5), others=st.lists(scores, min_size=1, max_size=5))
def test_swapping_the_sides_changes_the_sign(values: list[float], others: list[float]):
    one, other = welch_test(values, others), welch_test(others, values)
    assert one.mean == -other.mean
    assert one.p == (None if other.p is None else pytest.approx(other.p))


def test_an_interval_without_0_means_p_below_5_percent():
    """s² = 1/3 + 4/3, t = 5 / √(5/3), ν = (5/3)² / (1/18 + 16/18) = 50/17."""
    clear = welch_test([1, 2, 3], [5, 7, 9])
    assert clear.p == pytest.approx(2 * stats.t.sf(math.sqrt(15), 50 / 17))
    assert clear.p < 0.05
    assert clear.high < 0
    unclear = welch_test([1, 2, 3], [2, 4, 6])
    assert unclear.p > 0.05
    assert unclear.low < 0 < unclear.high


@pytest.mark.parametrize(
    ("values", "others", "untested"),
    [
        ([1.0], [2.0, 3.0, 4.0], "1 run"),
        ([1.0, 2.0, 3.0], [3.0], "1 run"),
        ([1.0, 2.0], [3.0, 4.0, 6.0], "2 runs"),
        ([1.0, 2.0], [3.0, 4.0], "2 runs"),
        ([1.0, 1.0], [0.0, 0.0], "2 runs"),
    ],
)
def test_fewer_than_three_runs_of_a_side_are_not_tested(values: list[float], others: list[float], untested: str):
    mean = statistics.mean(values) - statistics.mean(others)
    assert welch_test(values, others) == MeanDifference(mean, untested=untested)


def test_sides_that_do_not_vary_are_not_tested():
    assert welch_test([0.1] * 3, [0.1] * 3) == MeanDifference(0.0, untested="no variance")
    assert welch_test([3.0, 3.0, 3.0], [1.0, 1.0, 1.0]) == MeanDifference(2.0, untested="no variance")
    assert welch_test([3.0, 3.0, 3.0], [1.0, 1.0, 1.5]).p is not None
    assert welch_test([3.0, 3.0, 3.5], [1.0, 1.0, 1.0]).p is not None


def test_tiny_spreads_do_not_underflow():
    tiny, ones = ([1e-60, 2e-60, 4e-60], [3e-60, 5e-60, 9e-60]), ([1, 2, 4], [3, 5, 9])
    assert welch_test(*tiny).p == pytest.approx(welch_test(*ones).p)


def test_holm_by_hand():
    """4 · 0.005, then 3 · 0.01, then 2 · 0.03, and 1 · 0.04, which may not be less than the one before it."""
    assert holm_correction([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm_correction([0.5, 0.6]) == [1.0, 1.0]
    assert holm_correction([0.2]) == [0.2]
    assert holm_correction([]) == []


@given(p_values=p_values)
def test_holm_is_closed_testing_with_bonferroni(p_values: list[float]):
    """Closed testing: a hypothesis is rejected if every set of hypotheses with it is rejected, |S| · min p ≤ α."""
    indices = range(len(p_values))
    sets = [chosen for size in indices for chosen in combinations(indices, size + 1)]
    expected = [
        max(min(1.0, len(chosen) * min(p_values[other] for other in chosen)) for chosen in sets if index in chosen)
        for index in indices
    ]
    assert holm_correction(p_values) == expected


@given(p_values=p_values, level=st.floats(0.001, 1, exclude_max=True))
def test_holm_rejects_the_same_hypotheses_as_the_step_down_procedure(p_values: list[float], level: float):
    rejected = [False] * len(p_values)
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        if (len(p_values) - rank) * p_values[index] > level:
            break
        rejected[index] = True
    assert [adjusted <= level for adjusted in holm_correction(p_values)] == rejected


@given(p_values=p_values)
def test_holm_keeps_the_order_and_decreases_no_p_value(p_values: list[float]):
    adjusted = holm_correction(p_values)
    assert all(p <= one <= 1 for p, one in zip(p_values, adjusted, strict=True))
    for (p, one), (q, other) in combinations(zip(p_values, adjusted, strict=True), 2):
        assert p == q or (p < q) == (one < other) or one == other


@pytest.mark.parametrize("invalid", [-0.1, 1.1, math.nan])
def test_invalid_p_values_are_refused(invalid: float):
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm_correction([0.5, invalid])
