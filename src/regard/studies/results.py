"""What a study has found: every run's results, their spread over seeds, and how sure the differences are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.evaluation.catalogue import MEASURES
from regard.evaluation.significance import Counts, Paired, bootstrap, counted, randomise
from regard.evaluation.statistics import Difference, Summary, holm, summarise, welch
from regard.runs import Run
from regard.studies.conducting import Job
from regard.studies.definition import Condition, Expectation, Study
from regard.studies.exams import Exam

SURE_BELOW = 0.05
METHODS: dict[str, Callable[..., Paired]] = {"bootstrap": bootstrap, "randomisation": randomise}


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
    def read(cls, run: Run, seed: int, exam: Exam) -> Result:
        path = exam.file(run.path)
        try:
            known = json.loads(path.read_text(encoding="utf-8", errors="surrogatepass"))
            return cls(
                seed,
                run.path,
                dict(known["evaluation"]),
                tuple(known["sources"]),
                tuple(known["lengths"]),
                tuple(tuple(targets) for targets in known["targets"]),
                tuple(known["outputs"]),
                tuple(run.metrics()),
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise UserError(f"{path}: this file is damaged; remove it, and the exam is sat again") from None

    def value(self, measure: str) -> float | None:
        """None if this kind of run has no such measure."""
        match MEASURES[measure].source:
            case "evaluation":
                return self.evaluation.get(measure)
            case "validation":
                best = min(self.metrics, key=lambda row: row["validation_loss"], default={})
                return best.get(measure)
            case "training":
                return self.metrics[-1]["seconds"] if self.metrics else None

    @cached_property
    def counts(self) -> Callable[[str], Counts]:
        """By the name of a measure that goes by sentences."""
        return cache(lambda measure: counted(measure, self.outputs, self.targets))


@dataclass(frozen=True, eq=False)
class Cell:
    """A condition with the results of all its runs that are finished."""

    condition: Condition
    label: str
    results: tuple[Result, ...]

    def values(self, measure: str) -> list[float]:
        values = (result.value(measure) for result in self.results)
        return [value for value in values if value is not None]

    def summary(self, measure: str) -> Summary | None:
        values = self.values(measure)
        return summarise(values) if values else None


@dataclass(frozen=True)
class Comparison:
    """A cell held against another, by chance of two kinds: that of training, and that of choosing test sentences.

    Both p are corrected for the number of comparisons in the same family; None: it cannot be told.
    """

    cell: Cell
    other: Cell
    over_seeds: Difference
    over_sentences: Paired | None
    p_seeds: float | None
    p_sentences: float | None

    @property
    def pair(self) -> tuple[Cell, Cell]:
        """The other comes first."""
        return self.other, self.cell

    @property
    def sure(self) -> bool | None:
        """Is it a difference whichever way chance comes in? None: nothing is known of either."""
        known = [p for p in (self.p_seeds, self.p_sentences) if p is not None]
        return all(p < SURE_BELOW for p in known) if known else None


@dataclass(frozen=True)
class Verdict:
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
class Findings:
    study: Study
    cells: tuple[Cell, ...]
    wanted: int  # runs
    finished: int
    failures: tuple[Job, ...]

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
        return compare(pairs, self.measure, self.study.plan.method)

    @cached_property
    def verdicts(self) -> list[Verdict]:
        expected = list(self.study.expected())
        pairs = [(self.cell(better), self.cell(worse)) for _, worse, better in expected]
        known = [place for place, pair in enumerate(pairs) if all(cell.values(self.measure) for cell in pair)]
        compared = compare([pairs[place] for place in known], self.measure, self.study.plan.method)
        sign = 1 if MEASURES[self.measure].higher_is_better else -1
        return [
            Verdict(expected[place][0], comparison, sign * comparison.over_seeds.mean > 0)
            for place, comparison in zip(known, compared, strict=True)
        ]

    def cell(self, condition: Condition) -> Cell:
        return next(cell for cell in self.cells if cell.condition is condition)


def gather(study: Study, jobs: Sequence[Job]) -> Findings:
    """All results that are there."""
    folder = jobs[0].path.parent
    cells = []
    for condition in study.conditions:
        runs = [(folder / condition.run_name(seed), seed) for seed in study.seeds]
        done = [(run, seed) for run, seed in runs if condition.exam.file(run).is_file()]
        results = tuple(Result.read(Run(run), seed, condition.exam) for run, seed in done)
        cells.append(Cell(condition, study.label(condition), results))
    failures = tuple(job for job in jobs if job.state == "failed")
    return Findings(study, tuple(cells), len(jobs), sum(job.state == "done" for job in jobs), failures)


def compare(pairs: Iterable[tuple[Cell, Cell]], measure: str, method: str) -> list[Comparison]:
    """One family: the more is compared, the more must each p-value be corrected."""
    found = []
    for cell, other in pairs:
        values, others = cell.values(measure), other.values(measure)
        if values and others:
            found.append((cell, other, welch(values, others), _over_sentences(cell, other, measure, method)))
    seeds = _corrected([over_seeds.p for _, _, over_seeds, _ in found])
    sentences = _corrected([paired.p if paired else None for _, _, _, paired in found])
    return [Comparison(*each, *p) for each, *p in zip(found, seeds, sentences, strict=True)]


def _over_sentences(cell: Cell, other: Cell, measure: str, method: str) -> Paired | None:
    """A test with the seeds that both have; None if they were not tested on the same sentences by such a measure."""
    if not MEASURES[measure].by_sentence:
        return None
    ones, others = ({result.seed: result for result in each.results} for each in (cell, other))
    both = sorted(ones.keys() & others.keys())
    if not both or (ones[both[0]].sources, ones[both[0]].targets) != (others[both[0]].sources, others[both[0]].targets):
        return None
    return METHODS[method](
        [ones[seed].counts(measure) for seed in both], [others[seed].counts(measure) for seed in both]
    )


def _corrected(p_values: Sequence[float | None]) -> list[float | None]:
    corrected = iter(holm([p for p in p_values if p is not None]))
    return [None if p is None else next(corrected) for p in p_values]
