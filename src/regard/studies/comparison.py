"""Comparisons of the conditions of a study: differences, their p-values and their significance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from regard.evaluation.metrics import Metric, find_metric
from regard.evaluation.significance import PairedTestResult, approximate_randomization, paired_bootstrap
from regard.evaluation.statistics import MeanDifference, holm_correction, paired_t_test, welch_test
from regard.studies.run_results import ConditionResults, same_sentences

SIGNIFICANCE_LEVEL = 0.05
METHODS: dict[str, Callable[..., PairedTestResult]] = {
    "bootstrap": paired_bootstrap,
    "randomization": approximate_randomization,
}


@dataclass(frozen=True)
class Comparison:
    """A cell compared with another, over two sources of randomness: training, and the choice of test sentences.

    Both p-values are corrected for the number of comparisons in their family; None if there is no test.

    Args:
        cell: The results of a condition.
        other: The results that they are compared with.
        metric: The metric.
        over_seeds: The difference, tested over the runs.
        over_sentences: The difference, tested over the sentences; None without per-sentence counts.
        p_seeds: Corrected p-value over the runs.
        p_sentences: Corrected p-value over the sentences.
    """

    cell: ConditionResults
    other: ConditionResults
    metric: Metric
    over_seeds: MeanDifference
    over_sentences: PairedTestResult | None
    p_seeds: float | None
    p_sentences: float | None

    @property
    def pair(self) -> tuple[ConditionResults, ConditionResults]:
        """The other cell, then the cell."""
        return self.other, self.cell

    @property
    def significant(self) -> bool | None:
        """True if the difference is significant over seeds and over sentences, with the same sign; None: unknown.

        A metric without per-sentence counts is tested over seeds alone.
        """
        if self.p_seeds is None:
            return None
        if not self.metric.by_sentence:
            return self.p_seeds < SIGNIFICANCE_LEVEL
        if self.p_sentences is None or self.over_sentences is None:
            return None
        agree = self.over_seeds.mean * self.over_sentences.difference > 0
        return agree and max(self.p_seeds, self.p_sentences) < SIGNIFICANCE_LEVEL


def compare_conditions(
    pairs: Iterable[tuple[ConditionResults, ConditionResults]], metric: str | Metric, method: str
) -> list[Comparison]:
    """Compare cells in pairs, as one family of tests for the correction of p-values.

    Args:
        pairs: Each cell with the one to compare it with. Pairs without results are left out.
        metric: The metric to compare, or its name.
        method: The test over sentences, a key of `METHODS`.
    """
    metric = find_metric(metric)
    known = [(cell, other) for cell, other in pairs if cell.values(metric) and other.values(metric)]
    over_seeds = [_compare_seeds(cell, other, metric) for cell, other in known]
    over_sentences = [_compare_sentences(cell, other, metric, method) for cell, other in known]
    p_seeds = _holm_corrected([difference.p for difference in over_seeds])
    p_sentences = _holm_corrected([test.p if test else None for test in over_sentences])
    columns = zip(known, over_seeds, over_sentences, p_seeds, p_sentences, strict=True)
    return [
        Comparison(cell, other, metric, seeds, sentences, p, p_too)
        for (cell, other), seeds, sentences, p, p_too in columns
    ]


def _compare_seeds(cell: ConditionResults, other: ConditionResults, metric: Metric) -> MeanDifference:
    """A paired test if the same runs were evaluated in two ways, and Welch's test of different runs."""
    if cell.condition.run_name(1) != other.condition.run_name(1):
        return welch_test(cell.values(metric), other.values(metric))
    ones, others = ({result.seed: result.value(metric) for result in each.results} for each in (cell, other))
    both = [(ones[seed], others[seed]) for seed in ones.keys() & others.keys()]
    known = [(one, two) for one, two in both if one is not None and two is not None]
    if not known:
        return MeanDifference(fmean(cell.values(metric)) - fmean(other.values(metric)), untested="0 pairs")
    return paired_t_test([one for one, _ in known], [two for _, two in known])


def _compare_sentences(
    cell: ConditionResults, other: ConditionResults, metric: Metric, method: str
) -> PairedTestResult | None:
    """A test with the seeds that both have; None without per-sentence counts or with different sentences."""
    if not metric.by_sentence:
        return None
    ones, others = ({result.seed: result for result in each.results} for each in (cell, other))
    both = sorted(ones.keys() & others.keys())
    if not both or any(not same_sentences(ones[seed], others[seed]) for seed in both):
        return None
    return METHODS[method](
        [ones[seed].statistics(metric) for seed in both], [others[seed].statistics(metric) for seed in both]
    )


def _holm_corrected(p_values: Sequence[float | None]) -> list[float | None]:
    """Comparisons without a test count as well: the size of a family must not depend on its results."""
    corrected = holm_correction([1.0 if p is None else p for p in p_values])
    return [None if p is None else adjusted for p, adjusted in zip(p_values, corrected, strict=True)]
