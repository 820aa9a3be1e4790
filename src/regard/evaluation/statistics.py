"""Statistics over seeds: what trainings that differ in chance alone say together, and whether two settings differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
NEGLIGIBLE = 40.0  # e^-40 is less than the rounding of a float
NODES, WEIGHTS = np.polynomial.legendre.leggauss(200)  # Gauss-Legendre quadrature on [-1, 1]


@dataclass(frozen=True)
class SampleSummary:
    """Some values in short. One value alone has a mean, and says nothing about the others that might have been."""

    count: int
    mean: float
    variance: float | None
    deviation: float | None
    low: float | None  # of the 95 % interval of the mean
    high: float | None


@dataclass(frozen=True)
class MeanDifference:
    mean: float  # of the values minus that of the others
    low: float | None  # of its 95 % interval
    high: float | None
    p: float | None


def summarize(values: Sequence[float]) -> SampleSummary:
    """Mean, variance, standard deviation, and where the mean of ever more values would probably lie.

    mean = Σ x / n        variance = Σ (x − mean)² / (n − 1)        interval = mean ± t(95 %, n − 1) · √(variance / n)
    """
    if not values:
        raise ValueError("there are no values to summarise")
    count, first = len(values), float(values[0])
    mean = first + math.fsum(value - first for value in values) / count  # so that equal values have exactly that mean
    if count == 1:
        return SampleSummary(count, mean, None, None, None, None)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    margin = student_quantile(CONFIDENCE, count - 1) * math.sqrt(variance / count)
    return SampleSummary(count, mean, variance, math.sqrt(variance), mean - margin, mean + margin)


def welch_test(values: Sequence[float], others: Sequence[float]) -> MeanDifference:
    """Welch's t-test: do two means differ by more than the spread of their values explains? Variances may differ.

    s² = variance / n + variance' / n'        t = (mean − mean') / s        interval = mean − mean' ± t(95 %, ν) · s
    ν = 1 / (u² / (n − 1) + (1 − u)² / (n' − 1)), where u is the share of the values in s²

    Nothing is known of a spread where a side has one value: the interval and p are None. Where no value differs from
    its side's mean, the spread is taken to be 0, however few they are: p is 1 if the means are equal and otherwise 0,
    which is the limit of ever smaller spreads, and the interval is the difference alone.
    """
    one, other = summarize(values), summarize(others)
    mean = one.mean - other.mean
    if one.variance is None or other.variance is None:
        return MeanDifference(mean, None, None, None)
    own, total = one.variance / one.count, one.variance / one.count + other.variance / other.count
    if total == 0:
        return MeanDifference(mean, mean, mean, 1.0 if mean == 0 else 0.0)
    share = own / total
    freedom = 1 / (share**2 / (one.count - 1) + (1 - share) ** 2 / (other.count - 1))
    freedom = max(1.0, freedom)  # as it is but for rounding
    margin = student_quantile(CONFIDENCE, freedom) * math.sqrt(total)
    return MeanDifference(mean, mean - margin, mean + margin, student(abs(mean) / math.sqrt(total), freedom))


def paired_t_test(values: Sequence[float], others: Sequence[float]) -> MeanDifference:
    """Student's test of pairs: the same runs in two ways. What differs from run to run is left out of account.

    d = value − other        t = mean of d / √(variance of d / n)        interval = that of the mean of d
    """
    found = summarize([value - other for value, other in zip(values, others, strict=True)])
    if found.variance is None:
        return MeanDifference(found.mean, None, None, None)
    if found.variance == 0:
        return MeanDifference(found.mean, found.mean, found.mean, 1.0 if found.mean == 0 else 0.0)
    t = abs(found.mean) / math.sqrt(found.variance / found.count)
    return MeanDifference(found.mean, found.low, found.high, student(t, found.count - 1))


def student(t: float, freedom: float) -> float:
    """P(|T| > t) for Student's distribution with ν = `freedom` degrees of freedom, any real number from 1.

    Its density is in proportion to (1 + x²/ν)^(−(ν+1)/2). With x = √ν · sinh w, that is cosh^−ν w in w:

    P(|T| > t) = ∫_a^∞ cosh^−ν w dw / ∫_0^∞ cosh^−ν w dw        a = arsinh(t / √ν)

    Small probabilities keep all their digits, since it is the tail itself that is integrated.
    """
    if t < 0 or freedom < 1:
        raise ValueError(f"t is at least 0 and there is at least 1 degree of freedom: {t}, {freedom}")
    reach = min(float(t), 1e100)  # whose square is still a number
    return _tail(reach / math.sqrt(freedom), freedom) / _tail(0.0, freedom)


def _tail(start: float, freedom: float) -> float:
    """∫_a^∞ cosh^−ν w dw, where sinh a = `start`: from a to b, where the integrand is e^−40 of what it is at a.

    cosh b = e^(40/ν) · cosh a        therefore        sinh² b = e^(80/ν) · sinh² a + e^(80/ν) − 1
    """
    farther = NEGLIGIBLE / freedom
    end = math.hypot(math.exp(farther) * start, math.sqrt(math.expm1(2 * farther)))
    low, high = math.asinh(start), math.asinh(end)
    w = low + (high - low) * (1 + NODES) / 2
    log_cosh = np.log1p(np.sinh(w) ** 2) / 2  # exact near 0 too, where cosh w is 1 and a little
    return float((high - low) / 2 * WEIGHTS @ np.exp(-freedom * log_cosh))


def student_quantile(share: float, freedom: float) -> float:
    """The t with P(|T| ≤ t) = `share`, by halving an interval until there is no number in between."""
    if not 0 <= share < 1:
        raise ValueError(f"a share is at least 0 and less than 1: {share}")
    low, high = 0.0, 1.0
    while student(high, freedom) > 1 - share:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if student(middle, freedom) > 1 - share else (low, middle)
    return low


def holm_correction(p_values: Sequence[float]) -> list[float]:
    """p-values of m tests adjusted for their number by Holm and Bonferroni, in the order given.

    From the smallest on, the i-th counts m − i + 1 times, and none becomes smaller than one before it:

    adjusted_(i) = max over j ≤ i of min(1, (m − j + 1) · p_(j))

    Whoever calls what is below 5 % real is wrong at least once with a probability of at most 5 %.
    """
    if not all(0 <= p <= 1 for p in p_values):
        raise ValueError(f"a p-value is between 0 and 1: {list(p_values)}")
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for before, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        largest = max(largest, min(1.0, (len(p_values) - before) * p_values[place]))
        adjusted[place] = largest
    return adjusted
