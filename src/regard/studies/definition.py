"""A study: one question, put to a grid of settings, with several seeds each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BeforeValidator, Field, field_validator

from regard.config import yaml_source
from regard.config.base import Section
from regard.config.loading import Override
from regard.config.schema import Experiment
from regard.config.yaml_source import YamlLeaf
from regard.errors import printable, suggest
from regard.evaluation.metrics import METRICS, OLD_NAMES, main_metric
from regard.studies.evaluations import EvaluationSpec, fingerprint


def label_of(value: object) -> str:
    """What an option is called: its value as it is written in YAML."""
    try:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    except TypeError:  # keys that JSON does not have
        return str(value)


def is_number(label: str) -> bool:
    try:
        return isfinite(float(label))
    except ValueError:
        return False


Label = Annotated[str, BeforeValidator(label_of)]


class Expectation(Section):
    """What a lecture would have us expect of the measure that decides."""

    order: list[Label] = Field(min_length=2)  # options of one axis, from worse to better
    where: dict[Label, Label] = Field(default_factory=dict)  # only at these options of other axes
    says: str = ""  # why

    @field_validator("order")
    @classmethod
    def _has_no_repetitions(cls, order: list[str]) -> list[str]:
        for label in order:
            if order.count(label) > 1:
                raise ValueError(f"{label!r} appears twice")
        return order

    def places(self, axes: Sequence[Axis]) -> list[int]:
        """The numbers of the axes that have these options; there should be one."""
        free = ((place, axis) for place, axis in enumerate(axes) if axis.name not in self.where)
        return [place for place, axis in free if set(self.order) <= set(axis.labels)]


class Plan(Section):
    """The keys of a study that are not settings of an experiment."""

    question: str = ""
    experiment: str
    seeds: int = Field(3, ge=1, le=1_000)
    baseline: dict[Label, Label] = Field(default_factory=dict)
    measures: list[str] = Field(default_factory=list)
    method: Literal["randomisation", "bootstrap"] = "randomisation"
    expect: list[Expectation] = Field(default_factory=list)

    @field_validator("measures")
    @classmethod
    def _know_measures(cls, measures: list[str]) -> list[str]:
        measures = [OLD_NAMES.get(name, name) for name in measures]
        for name in measures:
            if name not in METRICS:
                raise ValueError(f"{name!r} is no measure; {suggest(name, METRICS)}")
            if measures.count(name) > 1:
                raise ValueError(f"{name!r} appears twice")
        return measures


@dataclass(frozen=True)
class Option:
    label: str
    settings: tuple[Override, ...]


@dataclass(frozen=True)
class Axis:
    """One thing that differs from run to run or, of `test`, from exam to exam."""

    name: str
    options: tuple[Option, ...]
    origin: str
    trains: bool  # does it change what is trained?

    @property
    def title(self) -> str:
        """`model.attention.kind` is `attention.kind` to people."""
        section, dot, rest = self.name.partition(".")
        return rest if dot and section in Experiment.model_fields else self.name

    @property
    def is_about_texts(self) -> bool:
        """Does it change nothing but the texts of exams?"""
        settings = [setting for option in self.options for setting in option.settings]
        return not self.trains and all(setting.path[0] == "data" for setting in settings)

    @property
    def labels(self) -> list[str]:
        return [option.label for option in self.options]

    def name_of(self, label: str) -> str:
        """An option for those who do not see which axis it is of: a bare `3` or `false` says nothing."""
        bare = is_number(label) or label in ("true", "false", "null")
        return printable(f"{self.title} {label}" if bare else label)


@dataclass(frozen=True)
class Condition:
    """One point of the grid: what is trained, with any seed, and how it is tested."""

    labels: tuple[str, ...]  # the option of each axis
    experiment: Experiment
    exam: EvaluationSpec

    def with_seed(self, seed: int) -> Experiment:
        training = self.experiment.training.model_copy(update={"seed": seed})
        return self.experiment.model_copy(update={"training": training})

    def run_name(self, seed: int) -> str:
        """The same for the same settings, whatever a study calls them."""
        settings = self.experiment.model_dump(exclude={"description": True, "training": {"seed"}})
        return f"{settings['data']['task']}-{fingerprint(settings)}-{seed}"


@dataclass(frozen=True)
class Study:
    name: str
    plan: Plan
    axes: tuple[Axis, ...]
    conditions: tuple[Condition, ...]  # those of the first axis change slowest
    leaves: tuple[YamlLeaf, ...] = field(repr=False)

    @property
    def seeds(self) -> range:
        return range(1, self.plan.seeds + 1)

    @property
    def measures(self) -> list[str]:
        return self.plan.measures or [main_metric(self.conditions[0].experiment.task.scored_by)]

    @property
    def baseline(self) -> Mapping[str, str]:
        """For some axes, the option that the others are held against."""
        if self.plan.baseline:
            return self.plan.baseline
        first = next((axis for axis in self.axes if len(axis.options) > 1), None)
        return {first.name: first.options[0].label} if first else {}

    def baseline_of(self, condition: Condition) -> Condition | None:
        """The same with the baseline's options; None for a baseline itself."""
        labels = tuple(
            self.baseline.get(axis.name, label) for axis, label in zip(self.axes, condition.labels, strict=True)
        )
        return None if labels == condition.labels else self.at(labels)

    def at(self, labels: tuple[str, ...]) -> Condition:
        return next(condition for condition in self.conditions if condition.labels == labels)

    def options(self, condition: Condition) -> list[tuple[Axis, str]]:
        """Each axis with the name of its option."""
        pairs = zip(self.axes, condition.labels, strict=True)
        return [(axis, axis.name_of(label)) for axis, label in pairs]

    def label(self, condition: Condition) -> str:
        return " · ".join(name for _, name in self.options(condition)) or Path(self.plan.experiment).stem

    def training_label(self, condition: Condition) -> str:
        """The same without what is only about exams."""
        trained = [name for axis, name in self.options(condition) if axis.trains]
        return " · ".join(trained) or Path(self.plan.experiment).stem

    def expected(self) -> Iterator[tuple[Expectation, Condition, Condition]]:
        """Each pair of neighbours in an expected order: the worse and the better, all else being equal."""
        for expectation in self.plan.expect:
            (place,) = expectation.places(self.axes)  # any other order is refused when a study is read
            for condition in self.conditions:
                held = dict(zip((axis.name for axis in self.axes), condition.labels, strict=True))
                if condition.labels[place] == expectation.order[0] and expectation.where.items() <= held.items():
                    row = [
                        self.at((*condition.labels[:place], label, *condition.labels[place + 1 :]))
                        for label in expectation.order
                    ]
                    yield from ((expectation, worse, better) for worse, better in pairwise(row))

    def dump(self) -> str:
        """As YAML; reading it, wherever that is, gives the same study again."""
        tree: dict[str, Any] = {}
        for leaf in self.leaves:
            branch = tree
            for part in leaf.path[:-1]:
                branch = branch.setdefault(part, {})
            branch[leaf.path[-1]] = leaf.value
        return yaml.dump(tree, Dumper=yaml_source.YamlDumper, sort_keys=False, allow_unicode=True)
