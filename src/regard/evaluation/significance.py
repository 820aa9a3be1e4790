"""Significance tests over sentences: is one system better than another on the same test set?

sacreBLEU has both tests, but compares one output per system by its own metrics, and only from its command line or
`sacrebleu.significance.PairedTest`. Here a system is several runs that differ in their seed, whose scores are
averaged, and any metric with per-sentence counts will do. With one run each, p is that of sacreBLEU; a test checks it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.evaluation.sentence_statistics import Floats, SentenceStatistics

BLOCK = 256  # resamples at once, or fewer of many sentences; a multiple of 32 uses the same random bits as all at once
MAX_BLOCK_SIZE = 10_000_000  # numbers in memory, for each of a few arrays
TOLERANCE = 1e-9  # two differences that are not further apart are equal


@dataclass(frozen=True)
class PairedTestResult:
    """Result of a paired test of a system against a baseline. For error rates, a negative difference is good.

    Args:
        method: Name of the test.
        difference: Score of the system − score of the baseline, each the mean over its seeds.
        p: The p-value.
        low: Lower end of the 95 % interval of the difference; None if the test has none.
        high: Upper end of the interval.
        samples: Number of resampled test sets or random swaps.
    """

    method: str
    difference: float
    p: float
    low: float | None
    high: float | None
    samples: int


def paired_bootstrap(
    system: Sequence[SentenceStatistics], baseline: Sequence[SentenceStatistics], samples: int = 1000, seed: int = 12345
) -> PairedTestResult:
    """Paired bootstrap resampling (Koehn 2004): test sets of the same size, drawn from this one with replacement.

    D_b = score of the system − score of the baseline, on the b-th of B test sets        D: on the real one
    p = (1 + number of b with |D_b| − mean |D_b| ≥ |D|) / (1 + B)

    The interval is the middle 95 % of the D_b. p is sacreBLEU's, which is one-sided: of pairs of equally good systems,
    more than 10 % get a p below 0.05.

    Args:
        system: The outputs of each run of the system.
        baseline: The outputs of as many runs of the baseline, for the same sentences.
        samples: B.
        seed: Of the random numbers; the default is sacreBLEU's.
    """
    sentences = _count_sentences(system, baseline)
    random = np.random.default_rng(seed)
    drawn = (random.choice(sentences, size=(size, sentences)) for size in _block_sizes(samples, sentences))
    counts = (_count_draws(indices) for indices in drawn)
    differences = np.concatenate([_mean_score(system, each) - _mean_score(baseline, each) for each in counts])
    low, high = np.quantile(differences, [0.025, 0.975])
    observed = _observed_difference(system, baseline)
    p = _p_value(np.abs(differences) - np.abs(differences).mean(), observed)
    return PairedTestResult("paired bootstrap", observed, p, float(low), float(high), samples)


def approximate_randomization(
    system: Sequence[SentenceStatistics],
    baseline: Sequence[SentenceStatistics],
    samples: int = 10_000,
    seed: int = 12345,
) -> PairedTestResult:
    """Approximate randomization (Noreen 1989): if the systems are equal, swapping their outputs changes nothing.

    D_r = difference after the outputs of each sentence are swapped with probability ½        D: the observed one
    p = (1 + number of r with |D_r| ≥ |D|) / (1 + R)

    Args:
        system: The outputs of each run of the system.
        baseline: The outputs of as many runs of the baseline, for the same sentences.
        samples: R.
        seed: Of the random numbers; the default is sacreBLEU's.
    """
    sentences = _count_sentences(system, baseline)
    random = np.random.default_rng(seed)
    sizes = _block_sizes(samples, sentences)
    swaps = (random.integers(2, size=(size, sentences), dtype=bool).astype(float) for size in sizes)
    differences = np.concatenate(
        [_swapped_score(system, baseline, swap) - _swapped_score(baseline, system, swap) for swap in swaps]
    )
    observed = _observed_difference(system, baseline)
    p = _p_value(np.abs(differences), observed)
    return PairedTestResult("approximate randomization", observed, p, None, None, samples)


def _count_sentences(system: Sequence[SentenceStatistics], baseline: Sequence[SentenceStatistics]) -> int:
    """The number of sentences, which must be the same in all runs."""
    if not system or len(system) != len(baseline):
        raise ValueError(f"expected the same number of seeds on both sides, not {len(system)} and {len(baseline)}")
    counts = {len(statistics.rows) for statistics in (*system, *baseline)}
    if len(counts) > 1:
        raise ValueError(f"expected the same sentences in all runs, but they have {sorted(counts)}")
    return counts.pop()


def _block_sizes(samples: int, sentences: int) -> list[int]:
    """How many samples to draw at a time."""
    if samples < 1:
        raise ValueError(f"expected at least one sample, not {samples}")
    size = min(BLOCK, 32 * max(1, MAX_BLOCK_SIZE // sentences // 32))
    return [min(size, samples - begin) for begin in range(0, samples, size)]


def _count_draws(indices: NDArray[np.int64]) -> Floats:
    """For the indices of drawn sentences, [samples, sentences]: how often each was drawn, [samples, sentences]."""
    samples, sentences = indices.shape
    cells = indices + sentences * np.arange(samples)[:, None]
    return np.bincount(cells.ravel(), minlength=indices.size).reshape(indices.shape).astype(float)


def _mean_score(runs: Sequence[SentenceStatistics], counts: Floats) -> Floats:
    """Mean over runs of the score, [samples], with each sentence counted that often, [samples, sentences]."""
    return np.mean([run.score(counts @ run.rows) for run in runs], axis=0)


def _swapped_score(ones: Sequence[SentenceStatistics], others: Sequence[SentenceStatistics], swap: Floats) -> Floats:
    """Mean over runs of the score, [samples], of `ones` with the sentences of `others` where `swap` is 1."""
    pairs = zip(ones, others, strict=True)
    return np.mean([one.score(one.rows.sum(0) + swap @ (other.rows - one.rows)) for one, other in pairs], axis=0)


def _observed_difference(system: Sequence[SentenceStatistics], baseline: Sequence[SentenceStatistics]) -> float:
    return float(np.mean([run.total for run in system]) - np.mean([run.total for run in baseline]))


def _p_value(differences: Floats, observed: float) -> float:
    """The share of samples at least as extreme as the observed difference, which counts as a sample itself.

    sacreBLEU counts only what is more extreme. The two differ in ties alone, which it takes as evidence: exact matches
    tie often, and a system compared with itself does so always.
    """
    as_extreme = int(np.sum(differences >= abs(observed) - TOLERANCE))
    return (1 + as_extreme) / (1 + len(differences))
