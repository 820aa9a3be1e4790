"""The results of a study: those of every run, and which differences were expected and found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from regard.errors import UserError
from regard.evaluation.metrics import Metric
from regard.runs import Run
from regard.studies.comparison import Comparison, compare_conditions
from regard.studies.definition import Condition, Expectation, Study
from regard.studies.evaluations import EvaluationSpec
from regard.studies.run_results import ConditionResults, Result, same_sentences
from regard.studies.runner import TrainingJob


@dataclass(frozen=True)
class ExpectationOutcome:
    """Whether an expected difference was found.

    Args:
        expectation: The expectation.
        comparison: The better condition compared with the worse.
        holds: Whether the better one is better on average.
    """

    expectation: Expectation
    comparison: Comparison
    holds: bool

    @property
    def description(self) -> str:
        if self.comparison.significant:
            return "as expected" if self.holds else "opposite"
        unsure = "significance unknown" if self.comparison.significant is None else "not significant"
        return f"as expected, {unsure}" if self.holds else "not found"


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
    def main_metric(self) -> Metric:
        """The metric that is compared."""
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
        sign = 1 if self.main_metric.higher_is_better else -1
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
                runs[job.path] = job.run or Run(job.path)
            for spec, path in stored.items():
                results[job.path, spec] = Result.load(runs[job.path], job.seed, path).with_metrics(study.metrics)
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
        if not same_sentences(first, result) or runs[first.run].data_digests != runs[result.run].data_digests:
            raise UserError(f"{first.run} and {result.run} have different texts; remove the older one")
