"""The results of a study: those of every run, and which differences were expected and found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from reprlib import repr as short_repr
from typing import TYPE_CHECKING, Any

from regard.errors import UserError, suggest
from regard.evaluation.metrics import Metric
from regard.runs import Run
from regard.studies.comparison import Comparison, compare_conditions
from regard.studies.definition import Condition, Expectation, Study
from regard.studies.evaluations import EvaluationSpec
from regard.studies.jobs import TrainingJob
from regard.studies.run_results import ConditionResults, Result, same_sentences

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.reports.report_page import Table


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


@dataclass(frozen=True, repr=False)
class StudyResults:
    """All results of a study. In a notebook, they are shown as tables.

    Args:
        study: Its definition.
        cells: The results of each condition.
        wanted: The number of runs.
        finished: The number of finished runs.
        failures: The jobs that have failed.
        runs: The opened run directories, by path.
        folder: The folder of the study, with its report in `index.html`.
    """

    study: Study
    cells: tuple[ConditionResults, ...]
    wanted: int
    finished: int
    failures: tuple[TrainingJob, ...]
    runs: Mapping[Path, Run] = field(default_factory=dict)
    folder: Path | None = None

    @property
    def has_scores(self) -> bool:
        """True if at least one evaluation of a run is finished."""
        return any(cell.results for cell in self.cells)

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

    def table(self, name: str = "main") -> Table:
        """A table of the results, as `regard compare` prints it: `print(study.table())`. In a notebook, it is HTML.

        Args:
            name: "main": the main metric of each condition, and how significant differences are; "metrics": the other
                metrics; "expected": the differences that a study file expects; "runs": every run; "failures": the runs
                that have failed.

        Raises:
            UserError: There is no such table, or this study has nothing to show in it.
        """
        from regard.studies.tables import TABLES

        if name not in TABLES:
            raise UserError(f"table: {short_repr(name)} is not a table; {suggest(name, TABLES)}")
        table = TABLES[name](self)
        if table is None:
            raise UserError(f"table: the table {name!r} of this study is empty")
        return table

    def to_dict(self) -> dict[str, Any]:
        """All results in plain values that `json` can write, as `regard compare --json` prints them."""
        from regard.studies.export import results_to_dict

        return results_to_dict(self)

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame` with a row for each evaluation of each run.

        It has a column for each axis, `seed`, `run` (the name of the run directory), and a column for each metric that
        at least one run has. An axis whose values are all numbers or truth values has these, any other has labels.

        Raises:
            UserError: pandas is not installed.
        """
        from regard.studies.export import run_records

        try:
            pandas = import_module("pandas")
        except ModuleNotFoundError:
            raise UserError("to_pandas needs pandas: pip install 'regard[pandas]'") from None
        head, rows = run_records(self)
        return pandas.DataFrame(rows, columns=head)

    def plot(self) -> Figure:
        """The main metric as a matplotlib figure: every run, their mean and its 95 % interval.

        Raises:
            UserError: No run has this metric.
        """
        from regard.studies.plots import score_plot

        picture = score_plot(self, self.main_metric)
        if picture is None:
            raise UserError(f"plot: no run has {self.main_metric}")
        return picture.figure

    def __repr__(self) -> str:
        report = f", report in {self.folder}" if self.folder else ""
        return f"<study {self.study.name}: {self.finished} of {self.wanted} runs finished{report}>"

    def _repr_html_(self) -> str:
        """In a notebook: the tables that `regard compare` prints, and the failures."""
        from regard.studies.tables import all_tables, failure_table

        shown = (*all_tables(self), failure_table(self))
        return "".join(table._repr_html_() for table in shown if table)


def collect_results(study: Study, jobs: Sequence[TrainingJob], folder: Path | None = None) -> StudyResults:
    """Read all stored results. A run whose results are damaged counts as failed.

    Args:
        study: The study.
        jobs: Its jobs, as `training_jobs` returns them.
        folder: Its folder.
    """
    results: dict[tuple[Path, EvaluationSpec], Result] = {}
    runs: dict[Path, Run] = {}
    for job in jobs:
        stored = {spec: path for spec in job.request.evaluations if (path := spec.find(job.path))}
        try:
            if stored:
                runs[job.path] = job.run or Run(job.path)
                if changes := runs[job.path].code_changes():
                    raise UserError("; ".join(changes))
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
    return StudyResults(study, tuple(cells), len(jobs), finished, failures, runs, folder)


def _check_same_texts(results: Sequence[Result], runs: Mapping[Path, Run]) -> None:
    """Runs that differ in their seed must have been trained and evaluated on the same texts."""
    for result in results[1:]:
        first = results[0]
        if not same_sentences(first, result) or runs[first.run].data_digests != runs[result.run].data_digests:
            raise UserError(f"{first.run} and {result.run} have different texts; remove the older one")
