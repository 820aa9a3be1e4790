"""The results of a study: those of every run, their spread over seeds, and the significance of differences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import inf
from pathlib import Path
from statistics import fmean
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from regard.errors import UserError
from regard.evaluation.metrics import METRICS, OLD_NAMES, sentence_statistics
from regard.evaluation.sentence_statistics import SentenceStatistics
from regard.evaluation.significance import PairedTestResult, approximate_randomization, paired_bootstrap
from regard.evaluation.statistics import (
    MeanDifference,
    SampleSummary,
    holm_correction,
    paired_t_test,
    summarize,
    welch_test,
)
from regard.runs import Run
from regard.studies.definition import Condition, Expectation, Study
from regard.studies.evaluations import EvaluationSpec
from regard.studies.runner import TrainingJob

SIGNIFICANCE_LEVEL = 0.05
METHODS: dict[str, Callable[..., PairedTestResult]] = {
    "bootstrap": paired_bootstrap,
    "randomization": approximate_randomization,
}


class StoredResult(BaseModel):
    """The content of the file that an evaluation has written."""

    model_config = ConfigDict(strict=True)

    evaluation: dict[str, Any]
    sources: list[str] = Field(min_length=1)
    lengths: list[int]
    targets: list[list[str]]
    outputs: list[str]

    @field_validator("evaluation")
    @classmethod
    def _rename_metrics(cls, evaluation: dict[str, Any]) -> dict[str, Any]:
        return {OLD_NAMES.get(name, name): value for name, value in evaluation.items()}

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if not len(self.sources) == len(self.lengths) == len(self.targets) == len(self.outputs) or not all(
            self.targets
        ):
            raise ValueError("its columns differ in length")
        for name in METRICS.keys() & self.evaluation.keys():
            if not isinstance(self.evaluation[name], int | float):
                raise ValueError(f"its {name} is not a number")
        return self


@dataclass(frozen=True, eq=False)
class Result:
    """The result of one evaluation of one run."""

    seed: int
    run: Path
    evaluation: Mapping[str, Any]
    sources: tuple[str, ...]
    lengths: tuple[int, ...]  # of the sources, in tokens
    targets: tuple[tuple[str, ...], ...]  # of each sentence, one reference or several
    outputs: tuple[str, ...]
    validations: tuple[Mapping[str, Any], ...]  # the rows of metrics.jsonl

    @classmethod
    def load(cls, run: Run, seed: int, path: Path) -> Result:
        """Read a stored result.

        Args:
            run: The run directory.
            seed: That of the run.
            path: The file of the evaluation.
        """
        try:
            stored = StoredResult.model_validate_json(path.read_bytes())
        except ValidationError:
            raise UserError(f"{path}: this file is damaged; remove it to repeat the evaluation") from None
        return cls(
            seed,
            run.path,
            stored.evaluation,
            tuple(stored.sources),
            tuple(stored.lengths),
            tuple(map(tuple, stored.targets)),
            tuple(stored.outputs),
            tuple(run.metrics()),
        )

    def value(self, metric: str) -> float | None:
        """The value of a metric; None if this run does not have it.

        Args:
            metric: Its name.
        """
        match METRICS[metric].source:
            case "evaluation":
                return self.evaluation.get(metric)
            case "validation":
                best = min(self.validations, key=lambda row: row.get("validation_loss", inf), default={})
                return best.get(metric)
            case "training":
                return self.validations[-1].get("seconds") if self.validations else None

    @cached_property
    def statistics(self) -> Callable[[str], SentenceStatistics]:
        """Counts for each sentence, by the name of a text metric."""
        return cache(lambda metric: sentence_statistics(metric, self.outputs, self.targets))


@dataclass(frozen=True, eq=False)
class ConditionResults:
    """A cell of the grid: a condition with the results of its finished runs."""

    condition: Condition
    label: str
    results: tuple[Result, ...]

    def values(self, metric: str) -> list[float]:
        """The values of a metric, one for each run that has it.

        Args:
            metric: Its name.
        """
        values = (result.value(metric) for result in self.results)
        return [value for value in values if value is not None]

    def summary(self, metric: str) -> SampleSummary | None:
        """Mean and spread of a metric over seeds; None if no run has it.

        Args:
            metric: Its name.
        """
        values = self.values(metric)
        return summarize(values) if values else None


@dataclass(frozen=True)
class Comparison:
    """A cell compared with another, over two sources of chance: training, and the choice of test sentences.

    Both p-values are corrected for the number of comparisons in their family; None: unknown.
    """

    cell: ConditionResults
    other: ConditionResults
    metric: str
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
        if not METRICS[self.metric].by_sentence:
            return self.p_seeds < SIGNIFICANCE_LEVEL
        if self.p_sentences is None or self.over_sentences is None:
            return None
        agree = self.over_seeds.mean * self.over_sentences.difference > 0
        return agree and max(self.p_seeds, self.p_sentences) < SIGNIFICANCE_LEVEL


@dataclass(frozen=True)
class ExpectationOutcome:
    """Whether an expected difference was found."""

    expectation: Expectation
    comparison: Comparison  # of the better with the worse
    holds: bool  # on average

    @property
    def description(self) -> str:
        if self.comparison.significant:
            return "as expected" if self.holds else "opposite"
        return "as expected, not significant" if self.holds else "not found"


@dataclass(frozen=True)
class StudyResults:
    """All results of a study.

    Args:
        study: Its definition.
        cells: The results of each condition.
        wanted: The number of runs.
        finished: The number of finished runs.
        failures: The jobs that have failed.
        runs: The opened run directories, by path.
    """

    study: Study
    cells: tuple[ConditionResults, ...]
    wanted: int
    finished: int
    failures: tuple[TrainingJob, ...]
    runs: Mapping[Path, Run] = field(default_factory=dict)

    @property
    def main_metric(self) -> str:
        """The name of the metric that is compared."""
        return self.study.metrics[0]

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """Each cell with its baseline, by the main metric."""
        pairs = [
            (self.cell(c), self.cell(other)) for c in self.study.conditions if (other := self.study.baseline_of(c))
        ]
        return compare_conditions(pairs, self.main_metric, self.study.plan.method)

    @cached_property
    def expectation_outcomes(self) -> list[ExpectationOutcome]:
        """The outcome of each expected difference whose cells have results."""
        expected = list(self.study.expected_pairs())
        pairs = [(self.cell(better), self.cell(worse)) for _, worse, better in expected]
        known = [index for index, pair in enumerate(pairs) if all(cell.values(self.main_metric) for cell in pair)]
        compared = compare_conditions([pairs[index] for index in known], self.main_metric, self.study.plan.method)
        sign = 1 if METRICS[self.main_metric].higher_is_better else -1
        return [
            ExpectationOutcome(expected[index][0], comparison, sign * comparison.over_seeds.mean > 0)
            for index, comparison in zip(known, compared, strict=True)
        ]

    def cell(self, condition: Condition) -> ConditionResults:
        """The results of a condition.

        Args:
            condition: One of the study's.
        """
        return next(cell for cell in self.cells if cell.condition is condition)


def collect_results(study: Study, jobs: Sequence[TrainingJob]) -> StudyResults:
    """Read all stored results. A run whose results are damaged counts as failed.

    Args:
        study: The study.
        jobs: Its jobs, as `training_jobs` returns them.
    """
    results: dict[tuple[Path, EvaluationSpec], Result] = {}
    runs: dict[Path, Run] = {}
    for job in jobs:
        stored = {spec: path for spec in job.request.evaluations if (path := spec.find(job.path))}
        try:
            if stored:
                runs[job.path] = Run(job.path)
            for spec, path in stored.items():
                results[job.path, spec] = Result.load(runs[job.path], job.seed, path)
        except UserError as error:
            job.state, job.error = "failed", str(error)
    cells = []
    for condition in study.conditions:
        names = {condition.run_name(seed) for seed in study.seeds}
        keys = [(job.path, condition.evaluation) for job in jobs if job.run_name in names]
        found = tuple(results[key] for key in keys if key in results)
        _check_same_texts(found, runs)
        cells.append(ConditionResults(condition, study.label(condition), found))
    failures = tuple(job for job in jobs if job.state == "failed")
    finished = sum(job.state == "done" for job in jobs)
    return StudyResults(study, tuple(cells), len(jobs), finished, failures, runs)


def _check_same_texts(results: Sequence[Result], runs: Mapping[Path, Run]) -> None:
    """Runs that differ in their seed must have been trained and evaluated on the same texts."""
    for result in results[1:]:
        first = results[0]
        if not _same_sentences(first, result) or runs[first.run].data_digests != runs[result.run].data_digests:
            raise UserError(f"{first.run} and {result.run} have different texts; remove the older one")


def compare_conditions(
    pairs: Iterable[tuple[ConditionResults, ConditionResults]], metric: str, method: str
) -> list[Comparison]:
    """Compare cells in pairs, as one family of tests for the correction of p-values.

    Args:
        pairs: Each cell with the one to compare it with. Pairs without results are left out.
        metric: The name of the metric to compare.
        method: The test over sentences, a key of `METHODS`.
    """
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


def _compare_seeds(cell: ConditionResults, other: ConditionResults, metric: str) -> MeanDifference:
    """A paired test if the same runs were evaluated in two ways, and Welch's test of different runs."""
    if cell.condition.run_name(1) != other.condition.run_name(1):
        return welch_test(cell.values(metric), other.values(metric))
    ones, others = ({result.seed: result.value(metric) for result in each.results} for each in (cell, other))
    both = [(ones[seed], others[seed]) for seed in ones.keys() & others.keys()]
    known = [(one, two) for one, two in both if one is not None and two is not None]
    if not known:
        return MeanDifference(fmean(cell.values(metric)) - fmean(other.values(metric)), None, None, None)
    return paired_t_test([one for one, _ in known], [two for _, two in known])


def _compare_sentences(
    cell: ConditionResults, other: ConditionResults, metric: str, method: str
) -> PairedTestResult | None:
    """A test with the seeds that both have; None without per-sentence counts or with different sentences."""
    if not METRICS[metric].by_sentence:
        return None
    ones, others = ({result.seed: result for result in each.results} for each in (cell, other))
    both = sorted(ones.keys() & others.keys())
    if not both or any(not _same_sentences(ones[seed], others[seed]) for seed in both):
        return None
    return METHODS[method](
        [ones[seed].statistics(metric) for seed in both], [others[seed].statistics(metric) for seed in both]
    )


def _same_sentences(one: Result, other: Result) -> bool:
    return (one.sources, one.targets) == (other.sources, other.targets)


def _holm_corrected(p_values: Sequence[float | None]) -> list[float | None]:
    corrected = iter(holm_correction([p for p in p_values if p is not None]))
    return [None if p is None else next(corrected) for p in p_values]
