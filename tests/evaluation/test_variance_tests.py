"""Tests of equal variances, compared with scipy on samples and with closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from regard.evaluation import variance_tests
from regard.evaluation.variance_tests import bartlett_test, f_test


@pytest.mark.parametrize(("ratio", "p"), [(1.0, 1.0), (3.0, 0.5), (0.25, 0.4), (39.0, 0.05)])
def test_f_with_three_runs_has_a_closed_form(ratio: float, p: float) -> None:
    """F with 2 and 2 degrees of freedom: P(F ≥ f) = 1 / (1 + f)."""
    test = f_test(0.01 * ratio, 0.01, 3, 3)
    assert (test.statistic, test.p) == (pytest.approx(ratio), pytest.approx(p))


def test_f_is_symmetric_with_unequal_runs() -> None:
    assert f_test(2.0, 7.0, 5, 11).p == pytest.approx(f_test(7.0, 2.0, 11, 5).p)
    assert f_test(2.0, 7.0, 5, 11).p != pytest.approx(f_test(2.0, 7.0, 11, 5).p)


@pytest.mark.parametrize("sizes", [(3, 3, 3), (2, 5, 13), (7, 11)])
def test_bartlett_equals_scipy_on_samples(sizes: tuple[int, ...]) -> None:
    random = np.random.default_rng(1)
    samples = [random.normal(0, scale, size) for scale, size in zip((1, 2, 5), sizes, strict=False)]
    expected = stats.bartlett(*samples)
    test = bartlett_test([float(np.var(each, ddof=1)) for each in samples], list(sizes))
    assert (test.statistic, test.p) == (pytest.approx(expected.statistic), pytest.approx(expected.pvalue))


def test_equal_variances_have_p_1() -> None:
    assert bartlett_test([0.3] * 3, [3, 5, 7]).p == 1
    assert f_test(0.3, 0.3, 5, 5).p == 1


def test_the_interval_covers_the_variance_in_95_percent() -> None:
    random = np.random.default_rng(2)
    samples = random.normal(0, 3, (4000, 5))
    intervals = [variance_tests.variance_interval(float(v), 5) for v in np.var(samples, axis=1, ddof=1)]
    assert np.mean([low <= 9 <= high for low, high in intervals]) == pytest.approx(0.95, abs=0.015)


def test_significant_ratio_and_number_of_runs_agree() -> None:
    assert variance_tests.significant_ratio(3) == pytest.approx(39)
    for ratio in (1.452, 6.714, 39.1):
        runs = variance_tests.runs_for_significance(ratio)
        assert runs is not None
        assert f_test(ratio, 1.0, runs, runs).p <= 0.05 < f_test(ratio, 1.0, runs - 1, runs - 1).p
        assert variance_tests.runs_for_significance(1 / ratio) == runs
    assert variance_tests.runs_for_significance(1.0) is None


def test_the_power_is_that_of_a_simulation() -> None:
    runs = variance_tests.runs_for_power(4.0)
    assert runs == 19
    random = np.random.default_rng(3)
    first, second = (np.var(random.normal(0, scale, (4000, 19)), axis=1, ddof=1) for scale in (2, 1))
    significant = [f_test(float(a), float(b), 19, 19).p < 0.05 for a, b in zip(first, second, strict=True)]
    assert np.mean(significant) == pytest.approx(0.8, abs=0.025)
    assert variance_tests.runs_for_power(1.0) is None


@pytest.mark.parametrize(("variances", "runs"), [([0.0, 1.0], [3, 3]), ([1.0, 1.0], [3, 1]), ([1.0, 1.0], [3])])
def test_invalid_values_are_refused(variances: list[float], runs: list[int]) -> None:
    with pytest.raises(ValueError, match="variance"):
        bartlett_test(variances, runs)
