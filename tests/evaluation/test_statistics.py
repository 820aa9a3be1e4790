"""Statistics over seeds against scipy and the standard library, and Holm's correction against its definition."""

from __future__ import annotations

import math
import statistics
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
    student,
    student_quantile,
    summarize,
    welch_test,
)

freedoms = st.floats(1, 1e6)
scores = st.floats(-100, 100).map(lambda value: round(value, 3))
p_values = st.lists(st.floats(0, 1) | st.sampled_from([0.0, 0.01, 0.5, 1.0]), max_size=6)


@given(t=st.floats(0, 30), freedom=freedoms)
def test_the_probability_is_that_of_scipy(t: float, freedom: float):
    assert student(t, freedom) == pytest.approx(2 * stats.t.sf(t, freedom), rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("freedom", [1, 1.0001, 1.5, 2, 2.7, 30, 1e5, 1e10])
@pytest.mark.parametrize("t", [0, 1e-6, 0.5, 6, 25, 1e4, 1e8])
def test_the_probability_is_right_far_out_and_for_many_degrees_of_freedom(t: float, freedom: float):
    assert student(t, freedom) == pytest.approx(2 * stats.t.sf(t, freedom), rel=1e-9, abs=1e-290)


@given(t=st.floats(0, 1e90))
def test_probabilities_in_closed_form(t: float):
    """P(|T| ≤ t) is 2/π · arctan t for one degree of freedom, and t / √(2 + t²) for two."""
    assert student(t, 1) == pytest.approx(2 / math.pi * math.atan2(1, t), rel=1e-11)
    root = math.hypot(math.sqrt(2), t)
    assert student(t, 2) == pytest.approx(2 / (root * (root + t)), rel=1e-11)


def test_a_small_probability_is_small_and_not_nothing():
    assert student(100, 4) == pytest.approx(5.99e-8, rel=1e-2)
    assert student(1e12, 1) == pytest.approx(2 / math.pi * 1e-12)
    assert 0 < student(math.inf, 1) < 1e-99
    assert student(1e300, 50) == 0


@given(freedom=freedoms)
def test_nothing_is_surely_exceeded(freedom: float):
    assert student(0, freedom) == 1


@pytest.mark.parametrize(("t", "freedom"), [(-0.1, 3), (1, 0.9), (1, -2)])
def test_what_is_not_a_distribution_is_refused(t: float, freedom: float):
    with pytest.raises(ValueError, match="degree of freedom"):
        student(t, freedom)


@settings(max_examples=40)
@given(share=st.floats(0.001, 0.9999), freedom=freedoms)
def test_the_quantile_is_that_of_scipy(share: float, freedom: float):
    assert student_quantile(share, freedom) == pytest.approx(stats.t.ppf((1 + share) / 2, freedom), rel=1e-8)


def test_the_quantile_of_the_tables():
    assert [round(student_quantile(0.95, freedom), 3) for freedom in (1, 2, 4, 9)] == [12.706, 4.303, 2.776, 2.262]
    assert student_quantile(0, 3) == 0


@pytest.mark.parametrize("share", [-0.1, 1, math.nan])
def test_a_share_that_nothing_reaches_is_refused(share: float):
    with pytest.raises(ValueError, match="share"):
        student_quantile(share, 3)


@settings(max_examples=50)
@given(values=st.lists(scores, min_size=2, max_size=12))
def test_a_summary_is_that_of_the_standard_library_and_scipy(values: list[float]):
    summary = summarize(values)
    assert summary.count == len(values)
    assert summary.mean == pytest.approx(statistics.mean(values), rel=1e-12, abs=1e-12)
    assert summary.variance == pytest.approx(statistics.variance(values), rel=1e-12, abs=1e-12)
    assert summary.deviation == pytest.approx(statistics.stdev(values), rel=1e-12, abs=1e-12)
    if len(set(values)) > 1:
        interval = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
        assert (summary.low, summary.high) == pytest.approx(interval, rel=1e-9, abs=1e-9)


def test_one_value_has_a_mean_alone():
    assert summarize([3.5]) == SampleSummary(1, 3.5, None, None, None, None)


@given(value=st.floats(-1e6, 1e6), count=st.integers(2, 9))
def test_equal_values_have_no_spread_at_all(value: float, count: int):
    assert summarize([value] * count) == SampleSummary(count, value, 0.0, 0.0, value, value)


def test_no_values_are_refused():
    for call in (lambda: summarize([]), lambda: welch_test([], [1.0]), lambda: welch_test([1.0], [])):
        with pytest.raises(ValueError, match="no values"):
            call()


@given(st.lists(st.tuples(scores, scores), min_size=2, max_size=9))
def test_the_test_of_pairs_is_that_of_scipy(pairs: list[tuple[float, float]]):
    values, others = (list(side) for side in zip(*pairs, strict=True))
    differences = [value - other for value, other in pairs]
    assume(statistics.stdev(differences) > 1e-6 * max(map(abs, differences)))
    found = paired_t_test(values, others)
    expected = stats.ttest_rel(values, others)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-12)
    interval = expected.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-6, abs=1e-9)


def test_pairs_leave_out_what_differs_from_run_to_run():
    greedy, beam = [39.1, 39.8, 40.6], [39.6, 40.4, 41.15]
    assert welch_test(beam, greedy).p == pytest.approx(0.43, abs=0.01)
    assert paired_t_test(beam, greedy).p == pytest.approx(0.003, abs=0.001)


def test_pairs_without_a_spread():
    assert paired_t_test([2.0], [1.0]) == MeanDifference(1.0, None, None, None)
    assert paired_t_test([2.0, 3.0], [2.0, 3.0]) == MeanDifference(0.0, 0.0, 0.0, 1.0)
    assert paired_t_test([3.0, 4.0], [2.0, 3.0]) == MeanDifference(1.0, 1.0, 1.0, 0.0)
    with pytest.raises(ValueError, match="zip"):
        paired_t_test([1.0, 2.0], [1.0])


@pytest.mark.filterwarnings("ignore:Precision loss")  # what scipy says where one side has no spread
@settings(max_examples=50)
@given(values=st.lists(scores, min_size=2, max_size=8), others=st.lists(scores, min_size=2, max_size=8))
def test_welch_is_that_of_scipy(values: list[float], others: list[float]):
    found = welch_test(values, others)
    if len(set(values)) == len(set(others)) == 1:
        return  # scipy has no answer
    expected = stats.ttest_ind(values, others, equal_var=False)
    interval = expected.confidence_interval(0.95)
    assert found.mean == pytest.approx(np.mean(values) - np.mean(others), rel=1e-12, abs=1e-12)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-7)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-8, abs=1e-8)


@given(values=st.lists(scores, min_size=1, max_size=5), others=st.lists(scores, min_size=1, max_size=5))
def test_turned_round_the_difference_has_the_other_sign(values: list[float], others: list[float]):
    one, other = welch_test(values, others), welch_test(others, values)
    assert one.mean == -other.mean
    assert one.p == (None if other.p is None else pytest.approx(other.p))


def test_an_interval_without_0_is_a_p_below_5_percent():
    """s² = 1/3 + 4/3, t = 5 / √(5/3), ν = (5/3)² / (1/18 + 16/18) = 50/17."""
    clear = welch_test([1, 2, 3], [5, 7, 9])
    assert clear.p == pytest.approx(2 * stats.t.sf(math.sqrt(15), 50 / 17))
    assert clear.p < 0.05
    assert clear.high < 0
    unclear = welch_test([1, 2, 3], [2, 4, 6])
    assert unclear.p > 0.05
    assert unclear.low < 0 < unclear.high


@pytest.mark.parametrize(("values", "others"), [([1.0], [2.0, 3.0]), ([1.0, 2.0], [3.0]), ([1.0], [1.0])])
def test_one_value_on_a_side_says_nothing_of_the_spread(values: list[float], others: list[float]):
    assert welch_test(values, others) == MeanDifference(
        statistics.mean(values) - statistics.mean(others), None, None, None
    )


def test_without_any_spread_means_are_equal_or_not():
    assert welch_test([0.1] * 3, [0.1] * 3) == MeanDifference(0.0, 0.0, 0.0, 1.0)
    assert welch_test([3.0, 3.0], [1.0, 1.0, 1.0]) == MeanDifference(2.0, 2.0, 2.0, 0.0)


def test_the_smallest_of_spreads_is_not_lost():
    assert welch_test([1e-100, 2e-100], [3e-100, 5e-100]).p == pytest.approx(welch_test([1, 2], [3, 5]).p)


def test_holm_by_hand():
    """4 · 0.005, then 3 · 0.01, then 2 · 0.03, and 1 · 0.04, which may not be less than the one before it."""
    assert holm_correction([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm_correction([0.5, 0.6]) == [1.0, 1.0]
    assert holm_correction([0.2]) == [0.2]
    assert holm_correction([]) == []


@given(p_values=p_values)
def test_holm_is_bonferroni_in_every_family_that_a_test_is_in(p_values: list[float]):
    """Closed testing: a hypothesis falls if every set of hypotheses with it falls, |S| · min p ≤ α."""
    places = range(len(p_values))
    sets = [chosen for size in places for chosen in combinations(places, size + 1)]
    expected = [
        max(min(1.0, len(chosen) * min(p_values[other] for other in chosen)) for chosen in sets if place in chosen)
        for place in places
    ]
    assert holm_correction(p_values) == expected


@given(p_values=p_values, level=st.floats(0.001, 1, exclude_max=True))
def test_holm_rejects_what_his_procedure_does(p_values: list[float], level: float):
    rejected = [False] * len(p_values)
    for before, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        if (len(p_values) - before) * p_values[place] > level:
            break
        rejected[place] = True
    assert [adjusted <= level for adjusted in holm_correction(p_values)] == rejected


@given(p_values=p_values)
def test_holm_keeps_the_order_and_makes_nothing_smaller(p_values: list[float]):
    adjusted = holm_correction(p_values)
    assert all(p <= one <= 1 for p, one in zip(p_values, adjusted, strict=True))
    for (p, one), (q, other) in combinations(zip(p_values, adjusted, strict=True), 2):
        assert p == q or (p < q) == (one < other) or one == other


@pytest.mark.parametrize("wrong", [-0.1, 1.1, math.nan])
def test_what_is_no_probability_is_refused(wrong: float):
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm_correction([0.5, wrong])
