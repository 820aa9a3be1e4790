"""Tests of equal variances over seeds, from the variances and the numbers of runs alone.

Both tests assume normal scores. The distributions are scipy's. scipy has Bartlett's test for scores only; a published
table has variances, so the formula is written here, and a test compares it with `scipy.stats.bartlett`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scipy import stats

from regard.evaluation.statistics import CONFIDENCE

POWER = 0.8
MAX_RUNS = 1_000_000


@dataclass(frozen=True)
class VarianceTest:
    """A test of equal variances.

    Args:
        statistic: The ratio F of two variances, or Bartlett's statistic.
        p: The p-value.
    """

    statistic: float
    p: float


def f_test(variance: float, other: float, runs: int, other_runs: int) -> VarianceTest:
    """The two-sided F-test of two variances.

    F = s² / s'²        p = 2 · min(P(F_{n-1, n'-1} ≤ F), P(F_{n-1, n'-1} ≥ F))

    Args:
        variance: s², above 0.
        other: s'², above 0.
        runs: n, at least 2.
        other_runs: n', at least 2.
    """
    _check_variances([variance, other], [runs, other_runs])
    ratio = variance / other
    distribution = stats.f(runs - 1, other_runs - 1)
    return VarianceTest(ratio, min(1.0, 2 * float(min(distribution.cdf(ratio), distribution.sf(ratio)))))


def bartlett_test(variances: Sequence[float], runs: Sequence[int]) -> VarianceTest:
    """Bartlett's test that k variances are equal.

    s_p² = Σ (n_i − 1) s_i² / (N − k)        C = 1 + (Σ 1/(n_i − 1) − 1/(N − k)) / (3 (k − 1))
    T = ((N − k) ln s_p² − Σ (n_i − 1) ln s_i²) / C        p = P(χ²_{k-1} ≥ T)

    Args:
        variances: s_i², two or more, each above 0.
        runs: n_i, at least 2 each.
    """
    _check_variances(variances, runs)
    groups, freedoms = len(variances), [count - 1 for count in runs]
    total = sum(freedoms)  # N − k
    pooled = math.fsum(f * v for f, v in zip(freedoms, variances, strict=True)) / total
    # Σ f_i ln(s_p² / s_i²), which is the difference above without cancellation.
    spread = math.fsum(f * math.log(pooled / v) for f, v in zip(freedoms, variances, strict=True))
    correction = 1 + (math.fsum(1 / f for f in freedoms) - 1 / total) / (3 * (groups - 1))
    statistic = max(0.0, spread / correction)
    return VarianceTest(statistic, float(stats.chi2.sf(statistic, groups - 1)))


def variance_interval(variance: float, runs: int) -> tuple[float, float]:
    """The 95 % confidence interval of a variance: (n − 1) s² / χ²_{n-1} at both ends.

    Args:
        variance: s², above 0.
        runs: n, at least 2.
    """
    _check_variances([variance], [runs])
    high, low = (float(stats.chi2.ppf((1 + sign * CONFIDENCE) / 2, runs - 1)) for sign in (-1, 1))
    return (runs - 1) * variance / low, (runs - 1) * variance / high


def significant_ratio(runs: int) -> float:
    """The smallest ratio of two variances that the F-test finds significant at 5 %, with n runs each.

    Args:
        runs: n, at least 2.
    """
    return float(stats.f.ppf((1 + CONFIDENCE) / 2, runs - 1, runs - 1))


def runs_for_significance(ratio: float) -> int | None:
    """The number of runs on each side at which the F-test finds this ratio significant at 5 %.

    Args:
        ratio: The ratio that is observed, above 0.

    Returns:
        None if it is more than `MAX_RUNS`.
    """
    larger = max(ratio, 1 / ratio)
    return _smallest(lambda runs: significant_ratio(runs) <= larger)


def runs_for_power(ratio: float) -> int | None:
    """The number of runs on each side at which the F-test finds a true ratio of variances with a probability of 80 %.

    Args:
        ratio: The true ratio ρ, above 0. An observed ratio is distributed as ρ F_{n-1, n-1}.

    Returns:
        None if it is more than `MAX_RUNS`.
    """
    larger = max(ratio, 1 / ratio)
    return _smallest(lambda runs: _power(larger, runs) >= POWER)


def _power(ratio: float, runs: int) -> float:
    critical, distribution = significant_ratio(runs), stats.f(runs - 1, runs - 1)
    return float(distribution.sf(critical / ratio) + distribution.cdf(1 / (critical * ratio)))


def _smallest(enough: Callable[[int], bool]) -> int | None:
    """The smallest number of runs that is enough; more runs than enough are enough."""
    candidates = range(2, MAX_RUNS + 1)
    index = bisect_left(candidates, True, key=enough)
    return candidates[index] if index < len(candidates) else None


def _check_variances(variances: Sequence[float], runs: Sequence[int]) -> None:
    if len(variances) != len(runs):
        raise ValueError(f"{len(variances)} variances need as many numbers of runs, not {len(runs)}")
    if not all(math.isfinite(variance) and variance > 0 for variance in variances):
        raise ValueError(f"a variance must be above 0: {list(variances)}")
    if min(runs) < 2:
        raise ValueError(f"a variance needs at least two runs: {list(runs)}")
