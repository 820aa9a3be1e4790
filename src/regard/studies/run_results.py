"""The stored results of the runs of a study, by condition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import isfinite
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from regard import files
from regard.errors import UserError
from regard.evaluation.metrics import (
    OLD_NAMES,
    Metric,
    find_metric,
    known_metrics,
    sentence_statistics,
    validation_metric,
)
from regard.evaluation.sentence_statistics import SentenceStatistics
from regard.evaluation.statistics import SampleSummary, summarize
from regard.runs import Run
from regard.studies.definition import Condition

MAX_RESULT_BYTES = 1_000_000_000  # of all translations of a test set


class StoredResult(BaseModel):
    """The content of the file that an evaluation has written.

    Attributes:
        evaluation: The metrics, by name.
        sources: The source texts.
        lengths: Their lengths, in tokens.
        targets: One reference or several for each sentence.
        outputs: The output texts.
    """

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
        for name in known_metrics().keys() & self.evaluation.keys():
            if not isinstance(self.evaluation[name], int | float) or not isfinite(self.evaluation[name]):
                raise ValueError(f"its {name} is not a number")
        return self


@dataclass(frozen=True, eq=False)
class Result:
    """The result of one evaluation of one run.

    Args:
        seed: Seed of the run.
        run: The run directory.
        evaluation: The metrics, by name.
        sources: The source texts.
        lengths: Their lengths, in tokens.
        targets: One reference or several for each sentence.
        outputs: The output texts.
        validations: The rows of `metrics.jsonl`.
        best: That of the best validation.
    """

    seed: int
    run: Path
    evaluation: Mapping[str, Any]
    sources: tuple[str, ...]
    lengths: tuple[int, ...]
    targets: tuple[tuple[str, ...], ...]
    outputs: tuple[str, ...]
    validations: tuple[Mapping[str, Any], ...]
    best: Mapping[str, Any]

    @classmethod
    def load(cls, run: Run, seed: int, path: Path) -> Result:
        """Read a stored result.

        Args:
            run: The run directory.
            seed: That of the run.
            path: The file of the evaluation.
        """

        def parse(content: bytes) -> StoredResult:
            try:
                return StoredResult.model_validate_json(content)
            except ValidationError:
                raise UserError(f"{path}: this file is damaged; remove it to repeat the evaluation") from None

        stored = files.read_file(path, parse, MAX_RESULT_BYTES)
        return cls(
            seed,
            run.path,
            stored.evaluation,
            tuple(stored.sources),
            tuple(stored.lengths),
            tuple(map(tuple, stored.targets)),
            tuple(stored.outputs),
            tuple(run.metrics()),
            _best_validation(run),
        )

    def with_metrics(self, metrics: Iterable[Metric]) -> Result:
        """The result with text metrics that were not computed when it was stored, from its outputs.

        Args:
            metrics: Those that a study names. Metrics of extensions are always computed, because they may have changed.
        """
        evaluation = dict(self.evaluation)
        result = replace(self, evaluation=evaluation)
        for metric in metrics:
            if metric.by_sentence and not (metric.name in evaluation and metric.name in known_metrics()):
                statistics = result.statistics(metric)
                evaluation[metric.name] = statistics.total
                if statistics.signature:
                    evaluation[f"{metric.name}_signature"] = statistics.signature
        return result

    def value(self, metric: str | Metric) -> float | None:
        """The value of a metric; None if this run does not have it.

        Args:
            metric: The metric, or its name.
        """
        metric = find_metric(metric)
        match metric.source:
            case "evaluation":
                # Before evaluations had the free-running loss, validations had it.
                return self.evaluation.get(metric.name, self.best.get(metric.name))
            case "validation":
                return self.best.get(metric.name)
            case "training":
                return self.validations[-1].get("seconds") if self.validations else None

    @cached_property
    def statistics(self) -> Callable[[str | Metric], SentenceStatistics]:
        """Counts for each sentence, by a text metric or its name."""
        return cache(lambda metric: sentence_statistics(metric, self.outputs, self.targets))


def _best_validation(run: Run) -> Mapping[str, Any]:
    metric = validation_metric(run.experiment.task, run.experiment.training.best)
    key = f"validation_{metric.name}"
    rows = [row for row in run.metrics() if key in row]
    return (max if metric.higher_is_better else min)(rows, key=lambda row: row[key], default={})


@dataclass(frozen=True, eq=False)
class ConditionResults:
    """A cell of the grid: a condition with the results of its finished runs.

    Args:
        condition: The condition.
        label: Its label.
        results: One result per finished run.
    """

    condition: Condition
    label: str
    results: tuple[Result, ...]

    def values(self, metric: str | Metric) -> list[float]:
        """The values of a metric, one for each run that has it.

        Args:
            metric: The metric, or its name.
        """
        values = (result.value(metric) for result in self.results)
        return [value for value in values if value is not None]

    def summary(self, metric: str | Metric) -> SampleSummary | None:
        """Mean and spread of a metric over seeds; None if no run has it.

        Args:
            metric: The metric, or its name.
        """
        values = self.values(metric)
        return summarize(values) if values else None


def same_sentences(one: Result, other: Result) -> bool:
    """True if two results are of the same sources and references.

    Args:
        one: A result.
        other: Another one.
    """
    return (one.sources, one.targets) == (other.sources, other.targets)
