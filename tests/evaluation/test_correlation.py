"""Rank correlations, by hand and against scipy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from regard.evaluation.correlation import kendall, same_top_position, spearman

# Few different values, so that there are many ties, and any values, so that there are few.
NUMBERS = st.one_of(st.integers(0, 3).map(float), st.floats(-1e6, 1e6))
PAIRS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=17)


def test_tied_values_share_their_mean_rank() -> None:
    """Ranks 3, 1, 3, 5, 3 against 1, 2, 3, 4, 5: ρ = 4 / √(8 · 10)."""
    assert spearman([0.3, 0.1, 0.3, 0.9, 0.3], [1, 2, 3, 4, 5]) == pytest.approx(4 / np.sqrt(80))


def test_worked_by_hand() -> None:
    values, others = [1, 2, 3, 4, 5], [2, 1, 4, 3, 5]
    assert spearman(values, others) == pytest.approx(1 - 6 * 4 / (5 * 24))
    assert kendall(values, others) == pytest.approx((8 - 2) / 10)
    # One tie on the left: of the three pairs, two are in the same order.
    assert kendall([1, 1, 2], [1, 2, 3]) == pytest.approx(2 / np.sqrt(2 * 3))
    assert spearman([1, 1, 2], [1, 2, 3]) == pytest.approx(np.sqrt(3) / 2)


@pytest.mark.parametrize("correlation", [spearman, kendall])
def test_equal_and_reversed_orders(correlation) -> None:
    values = [0.1, 0.7, 0.2, 3.0, 0.4]
    assert correlation(values, np.exp(values)) == pytest.approx(1), "only the order counts"
    assert correlation(values, [-value for value in values]) == pytest.approx(-1)


@pytest.mark.parametrize("correlation", [spearman, kendall])
def test_a_constant_has_no_correlation(correlation) -> None:
    assert correlation([1 / 3] * 5, [1, 2, 3, 4, 5]) is None
    assert correlation([1, 2, 3, 4, 5], [0.0] * 5) is None
    assert correlation([1], [2]) is None


@pytest.mark.parametrize("correlation", [spearman, kendall])
def test_vectors_of_different_lengths_are_refused(correlation) -> None:
    for values, others in (([1, 2, 3], [1, 2]), ([], []), ([[1, 2]], [[1, 2]])):
        with pytest.raises(ValueError, match="of equal length"):
            correlation(values, others)


@given(PAIRS)
def test_coefficients_match_scipy_and_stay_in_range(pairs: list[tuple[float, float]]) -> None:
    values, others = zip(*pairs, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy warns about constants and returns nan
        expected = {spearman: stats.spearmanr(values, others).statistic, kendall: stats.kendalltau(values, others)[0]}
    for correlation, value in expected.items():
        found = correlation(values, others)
        if found is None:
            assert np.isnan(value)
        else:
            assert -1 <= found <= 1
            assert found == pytest.approx(value, abs=1e-12)


def test_same_top_position() -> None:
    assert same_top_position([1, 5, 2], [0.1, 0.3, 0.2]) == 1
    assert same_top_position([1, 5, 2], [0.4, 0.3, 0.2]) == 0
    assert same_top_position([5, 5, 2], [7, 3, 3]) == 1, "ties are broken by position"
    assert same_top_position([1, 1, 1], [7, 3, 3]) is same_top_position([7, 3, 3], [1, 1, 1]) is None
