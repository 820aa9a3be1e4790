"""Statistics over seeds: mean and confidence interval of repeated training runs, and tests of their difference.

The distributions and tests are scipy's; the module is imported only where they are needed, since importing
`scipy.stats` takes about a second. Holm's correction is our own: scipy has `false_discovery_control`, which controls
the share of false discoveries instead of the probability of any.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scipy import stats

CONFIDENCE = 0.95
MIN_RUNS = 3  # of each side of a test: two values do not give a reliable variance
NO_VARIANCE = "no variance"
ROUNDING = 10 * sys.float_info.epsilon  # relative to the scores


@dataclass(frozen=True)
class SampleSummary:
    """Summary of a sample. A single value has a mean but no spread: the rest is None.

    Args:
        count: Number of values.
        mean: Their mean.
        variance: Their variance.
        deviation: Their standard deviation.
        low: Lower end of the 95 % confidence interval of the mean.
        high: Upper end of the interval.
    """

    count: int
    mean: float
    variance: float | None
    deviation: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class MeanDifference:
    """Difference of two means with its confidence interval and p-value, which are None if there is no test.

    Args:
        mean: Mean of the values − mean of the others.
        low: Lower end of its 95 % confidence interval.
        high: Upper end of the interval.
        p: The p-value.
        untested: Why there is no test, such as "2 runs" or "no variance"; None if there is one.
    """

    mean: float
    low: float | None = None
    high: float | None = None
    p: float | None = None
    untested: str | None = None


def summarize(values: Sequence[float]) -> SampleSummary:
    """Mean, variance, standard deviation and 95 % confidence interval of the mean.

    mean = Σ x / n        variance = Σ (x − mean)² / (n − 1)        interval = mean ± t(95 %, n − 1) · √(variance / n)

    Args:
        values: At least one value.
    """
    if not values:
        raise ValueError("there are no values to summarize")
    count, first = len(values), float(values[0])
    mean = first + math.fsum(value - first for value in values) / count  # so that equal values have exactly that mean
    if count == 1:
        return SampleSummary(count, mean, None, None, None, None)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    margin = float(stats.t.ppf((1 + CONFIDENCE) / 2, count - 1)) * math.sqrt(variance / count)
    return SampleSummary(count, mean, variance, math.sqrt(variance), mean - margin, mean + margin)


def welch_test(values: Sequence[float], others: Sequence[float]) -> MeanDifference:
    """Welch's t-test of the difference of two means, without assuming equal variances.

    s² = variance / n + variance' / n'        t = (mean − mean') / s        interval = mean − mean' ± t(95 %, ν) · s
    ν = 1 / (u² / (n − 1) + (1 − u)² / (n' − 1)), where u is the share of the values in s²

    There is no test with fewer than `MIN_RUNS` values on a side, or if neither side varies. If one side varies, ν is
    that of its values alone.

    Args:
        values: The scores of one setting, one for each seed.
        others: The scores of the other setting.
    """
    mean = summarize(values).mean - summarize(others).mean
    fewest = min(len(values), len(others))
    if fewest < MIN_RUNS:
        return MeanDifference(mean, untested=f"{fewest} run{'' if fewest == 1 else 's'}")
    if not any(_varies(side, [*values, *others]) for side in (values, others)):
        return MeanDifference(mean, untested=NO_VARIANCE)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Precision loss", RuntimeWarning)  # if one side does not vary
        return _from_scipy(mean, stats.ttest_ind(values, others, equal_var=False))


def paired_t_test(values: Sequence[float], others: Sequence[float]) -> MeanDifference:
    """Student's paired t-test: the same runs, evaluated in two ways. Differences between runs cancel out.

    d = value − other        t = mean of d / √(variance of d / n)        interval = that of the mean of d

    There is no test with fewer than `MIN_RUNS` pairs, or if all differences are equal.

    Args:
        values: The scores of one evaluation, one for each run.
        others: The scores of the other evaluation of the same runs.
    """
    differences = [value - other for value, other in zip(values, others, strict=True)]
    mean, count = summarize(differences).mean, len(differences)
    if count < MIN_RUNS:
        return MeanDifference(mean, untested=f"{count} pair{'' if count == 1 else 's'}")
    if not _varies(differences, [*values, *others]):
        return MeanDifference(mean, untested=NO_VARIANCE)
    return _from_scipy(mean, stats.ttest_rel(values, others))


def _varies(values: Sequence[float], scores: Sequence[float]) -> bool:
    """True if values differ by more than the rounding of the scores that they were computed from."""
    return max(values) - min(values) > ROUNDING * max(map(abs, scores))


def _from_scipy(mean: float, result: Any) -> MeanDifference:
    interval = result.confidence_interval(CONFIDENCE)
    return MeanDifference(mean, float(interval.low), float(interval.high), float(result.pvalue))


def holm_correction(p_values: Sequence[float]) -> list[float]:
    """p-values of m tests adjusted for multiple testing by the Holm-Bonferroni method, in the order given.

    With the p-values in ascending order, p_(1) ≤ … ≤ p_(m):

    adjusted_(i) = max over j ≤ i of min(1, (m − j + 1) · p_(j))

    Rejecting every hypothesis with an adjusted p below 5 % makes one or more false rejections with a probability of at
    most 5 %.

    Args:
        p_values: Each between 0 and 1.
    """
    if not all(0 <= p <= 1 for p in p_values):
        raise ValueError(f"a p-value is between 0 and 1: {list(p_values)}")
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted
