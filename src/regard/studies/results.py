"""What a study has found: every run's results, their spread over seeds, and how sure the differences are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
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

SURE_BELOW = 0.05
METHODS: dict[str, Callable[..., PairedTestResult]] = {
    "bootstrap": paired_bootstrap,
    "randomisation": approximate_randomization,
}


class StoredResult(BaseModel):
    """What an exam has left in a file."""

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
    def _is_whole(self) -> Self:
        if not len(self.sources) == len(self.lengths) == len(self.targets) == len(self.outputs) or not all(
            self.targets
        ):
            raise ValueError("it has not as many of everything")
        for name in METRICS.keys() & self.evaluation.keys():
            if not isinstance(self.evaluation[name], int | float):
                raise ValueError(f"its {name} is not a number")
        return self


@dataclass(frozen=True, eq=False)
class Result:
    """What one run, of one seed, has made of an exam."""

    seed: int
    run: Path
    evaluation: Mapping[str, Any]
    sources: tuple[str, ...]
    lengths: tuple[int, ...]  # of the sources, in tokens
    targets: tuple[tuple[str, ...], ...]
    outputs: tuple[str, ...]
    metrics: tuple[Mapping[str, Any], ...]  # of its training, a row for each validation

    @classmethod
    def read(cls, run: Run, seed: int, exam: EvaluationSpec) -> Result:
        path = exam.file(run.path)
        try:
            kept = StoredResult.model_validate_json(path.read_bytes())
        except ValidationError:
            raise UserError(f"{path}: this file is damaged; remove it, and the exam is sat again") from None
        return cls(
            seed,
            run.path,
            kept.evaluation,
            tuple(kept.sources),
            tuple(kept.lengths),
            tuple(map(tuple, kept.targets)),
            tuple(kept.outputs),
            tuple(run.metrics()),
        )

    def value(self, measure: str) -> float | None:
        """None if this kind of run has no such measure."""
        match METRICS[measure].source:
            case "evaluation":
                return self.evaluation.get(measure)
            case "validation":
                best = min(self.metrics, key=lambda row: row.get("validation_loss", inf), default={})
                return best.get(measure)
            case "training":
                return self.metrics[-1].get("seconds") if self.metrics else None

    @cached_property
    def counts(self) -> Callable[[str], SentenceStatistics]:
        """By the name of a measure that goes by sentences."""
        return cache(lambda measure: sentence_statistics(measure, self.outputs, self.targets))


@dataclass(frozen=True, eq=False)
class ConditionResults:
    """A condition with the results of all its runs that are finished."""

    condition: Condition
    label: str
    results: tuple[Result, ...]

    def values(self, measure: str) -> list[float]:
        values = (result.value(measure) for result in self.results)
        return [value for value in values if value is not None]

    def summary(self, measure: str) -> SampleSummary | None:
        values = self.values(measure)
        return summarize(values) if values else None


@dataclass(frozen=True)
class Comparison:
    """A cell held against another, by chance of two kinds: that of training, and that of choosing test sentences.

    Both p are corrected for the number of comparisons in the same family; None: it cannot be told.
    """

    cell: ConditionResults
    other: ConditionResults
    measure: str
    over_seeds: MeanDifference
    over_sentences: PairedTestResult | None
    p_seeds: float | None
    p_sentences: float | None

    @property
    def pair(self) -> tuple[ConditionResults, ConditionResults]:
        """The other comes first."""
        return self.other, self.cell

    @property
    def sure(self) -> bool | None:
        """Is there a difference, the same one, whichever way chance comes in? None: it cannot be told.

        Of a measure that does not go by sentences, the seeds alone decide.
        """
        if self.p_seeds is None:
            return None
        if not METRICS[self.measure].by_sentence:
            return self.p_seeds < SURE_BELOW
        if self.p_sentences is None or self.over_sentences is None:
            return None
        agree = self.over_seeds.mean * self.over_sentences.difference > 0
        return agree and max(self.p_seeds, self.p_sentences) < SURE_BELOW


@dataclass(frozen=True)
class ExpectationOutcome:
    """What became of an expectation: is `better` better than `worse`, and is it sure?"""

    expectation: Expectation
    comparison: Comparison  # of the better with the worse
    holds: bool  # on average

    @property
    def words(self) -> str:
        if self.comparison.sure:
            return "as expected" if self.holds else "the other way round"
        return "as expected, but not sure" if self.holds else "not seen"


@dataclass(frozen=True)
class StudyResults:
    study: Study
    cells: tuple[ConditionResults, ...]
    wanted: int  # runs
    finished: int
    failures: tuple[TrainingJob, ...]

    @property
    def measure(self) -> str:
        """The one that decides."""
        return self.study.measures[0]

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """Each cell with its baseline, by the measure that decides."""
        pairs = [
            (self.cell(c), self.cell(other)) for c in self.study.conditions if (other := self.study.baseline_of(c))
        ]
        return compare_conditions(pairs, self.measure, self.study.plan.method)

    @cached_property
    def verdicts(self) -> list[ExpectationOutcome]:
        expected = list(self.study.expected())
        pairs = [(self.cell(better), self.cell(worse)) for _, worse, better in expected]
        known = [place for place, pair in enumerate(pairs) if all(cell.values(self.measure) for cell in pair)]
        compared = compare_conditions([pairs[place] for place in known], self.measure, self.study.plan.method)
        sign = 1 if METRICS[self.measure].higher_is_better else -1
        return [
            ExpectationOutcome(expected[place][0], comparison, sign * comparison.over_seeds.mean > 0)
            for place, comparison in zip(known, compared, strict=True)
        ]

    def cell(self, condition: Condition) -> ConditionResults:
        return next(cell for cell in self.cells if cell.condition is condition)


def collect_results(study: Study, jobs: Sequence[TrainingJob]) -> StudyResults:
    """All results that are there. A run whose results cannot be read has failed."""
    by_path = {job.path: job for job in jobs}
    results: dict[tuple[Path, EvaluationSpec], Result] = {}
    texts: dict[Path, dict[str, Any]] = {}
    for job in jobs:
        for exam in job.request.exams:
            if exam.file(job.path).is_file():
                try:
                    run = Run(job.path)
                    results[job.path, exam], texts[job.path] = Result.read(run, job.seed, exam), run.data_digests
                except UserError as error:
                    job.state, job.error = "failed", str(error)
    cells = []
    for condition in study.conditions:
        runs = [path for path in by_path if path.name in {condition.run_name(seed) for seed in study.seeds}]
        found = tuple(results[path, condition.exam] for path in runs if (path, condition.exam) in results)
        _check_texts(found, texts)
        cells.append(ConditionResults(condition, study.label(condition), found))
    failures = tuple(job for job in jobs if job.state == "failed")
    return StudyResults(study, tuple(cells), len(jobs), sum(job.state == "done" for job in jobs), failures)


def _check_texts(results: Sequence[Result], texts: Mapping[Path, Mapping[str, Any]]) -> None:
    """Runs that differ in their seed have learned from, and are tested on, the same texts."""
    for result in results[1:]:
        first = results[0]
        if not _same_sentences(first, result) or texts[first.run] != texts[result.run]:
            raise UserError(f"{first.run} and {result.run} are about different texts; remove the older one")


def compare_conditions(
    pairs: Iterable[tuple[ConditionResults, ConditionResults]], measure: str, method: str
) -> list[Comparison]:
    """One family: the more is compared, the more must each p-value be corrected."""
    known = [(cell, other) for cell, other in pairs if cell.values(measure) and other.values(measure)]
    over_seeds = [_over_seeds(cell, other, measure) for cell, other in known]
    over_sentences = [_over_sentences(cell, other, measure, method) for cell, other in known]
    p_seeds = _corrected([difference.p for difference in over_seeds])
    p_sentences = _corrected([test.p if test else None for test in over_sentences])
    columns = zip(known, over_seeds, over_sentences, p_seeds, p_sentences, strict=True)
    return [
        Comparison(cell, other, measure, seeds, sentences, p, p_too)
        for (cell, other), seeds, sentences, p, p_too in columns
    ]


def _over_seeds(cell: ConditionResults, other: ConditionResults, measure: str) -> MeanDifference:
    """The same runs, tested in two ways, are pairs; runs that were trained in two ways are not."""
    if cell.condition.run_name(1) != other.condition.run_name(1):
        return welch_test(cell.values(measure), other.values(measure))
    ones, others = ({result.seed: result.value(measure) for result in each.results} for each in (cell, other))
    both = [(ones[seed], others[seed]) for seed in ones.keys() & others.keys()]
    known = [(one, two) for one, two in both if one is not None and two is not None]
    if not known:
        return MeanDifference(fmean(cell.values(measure)) - fmean(other.values(measure)), None, None, None)
    return paired_t_test([one for one, _ in known], [two for _, two in known])


def _over_sentences(
    cell: ConditionResults, other: ConditionResults, measure: str, method: str
) -> PairedTestResult | None:
    """A test with the seeds that both have; None if they were not tested on the same sentences by such a measure."""
    if not METRICS[measure].by_sentence:
        return None
    ones, others = ({result.seed: result for result in each.results} for each in (cell, other))
    both = sorted(ones.keys() & others.keys())
    if not both or any(not _same_sentences(ones[seed], others[seed]) for seed in both):
        return None
    return METHODS[method](
        [ones[seed].counts(measure) for seed in both], [others[seed].counts(measure) for seed in both]
    )


def _same_sentences(one: Result, other: Result) -> bool:
    return (one.sources, one.targets) == (other.sources, other.targets)


def _corrected(p_values: Sequence[float | None]) -> list[float | None]:
    corrected = iter(holm_correction([p for p in p_values if p is not None]))
    return [None if p is None else next(corrected) for p in p_values]
