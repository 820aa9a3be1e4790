"""Statistics over seeds: mean and confidence interval of repeated training runs, and tests of their difference.

The distributions and tests are scipy's; the module is imported only where they are needed, since importing
`scipy.stats` takes about a second. Holm's correction is our own: scipy has `false_discovery_control`, which controls
the share of false discoveries instead of the probability of any.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scipy import stats

CONFIDENCE = 0.95


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
    """Difference of two means with its confidence interval and p-value; None where the spread is unknown.

    Args:
        mean: Mean of the values − mean of the others.
        low: Lower end of its 95 % confidence interval.
        high: Upper end of the interval.
        p: The p-value.
    """

    mean: float
    low: float | None
    high: float | None
    p: float | None


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

    With a single value on either side, the spread is unknown: the interval and p are None. If no value differs from
    the mean of its side, the spread is taken as 0: p is 1 for equal means and otherwise 0, the limit of ever smaller
    spreads, and the interval is the difference alone. (scipy has no answer there.)

    Args:
        values: The scores of one setting, one for each seed.
        others: The scores of the other setting.
    """
    one, other = summarize(values), summarize(others)
    mean = one.mean - other.mean
    if one.variance is None or other.variance is None:
        return MeanDifference(mean, None, None, None)
    if one.variance == other.variance == 0:
        return _without_spread(mean)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Precision loss", RuntimeWarning)  # if one side has no spread
        return _from_scipy(mean, stats.ttest_ind(values, others, equal_var=False))


def paired_t_test(values: Sequence[float], others: Sequence[float]) -> MeanDifference:
    """Student's paired t-test: the same runs, evaluated in two ways. Differences between runs cancel out.

    d = value − other        t = mean of d / √(variance of d / n)        interval = that of the mean of d

    Args:
        values: The scores of one evaluation, one for each run.
        others: The scores of the other evaluation of the same runs.
    """
    differences = summarize([value - other for value, other in zip(values, others, strict=True)])
    if differences.variance is None:
        return MeanDifference(differences.mean, None, None, None)
    if differences.variance == 0:
        return _without_spread(differences.mean)
    return _from_scipy(differences.mean, stats.ttest_rel(values, others))


def _without_spread(mean: float) -> MeanDifference:
    return MeanDifference(mean, mean, mean, 1.0 if mean == 0 else 0.0)


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
