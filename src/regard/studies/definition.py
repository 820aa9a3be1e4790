"""The definition of a study: a question, a grid of settings, and several seeds for each point of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BeforeValidator, Field, field_validator, model_validator

from regard.config import plugins, yaml_source
from regard.config.base import Section
from regard.config.families import plugin_names
from regard.config.references import short_reference
from regard.config.schema import Experiment
from regard.config.yaml_source import YamlLeaf
from regard.evaluation.metrics import OLD_NAMES, Metric, find_metric, task_metrics
from regard.studies.axes import Axis, option_label
from regard.studies.evaluations import EvaluationSpec, fingerprint, identifying_settings

Label = Annotated[str, BeforeValidator(option_label)]
Method = Literal["randomization", "bootstrap"]


class Expectation(Section):
    """An expected order of some options of one axis, by the main metric.

    Attributes:
        order: The options, from worse to better.
        where: Only with these options of other axes.
        reason: Why this is expected.
    """

    order: list[Label] = Field(min_length=2)
    where: dict[Label, Label] = Field(default_factory=dict)
    reason: str = ""

    @model_validator(mode="before")
    @classmethod
    def _accept_old_key(cls, values: Any) -> Any:
        """`says` is `reason` in Regard 0.5."""
        if isinstance(values, dict) and "says" in values and "reason" not in values:
            return {"reason" if key == "says" else key: value for key, value in values.items()}
        return values

    @field_validator("order")
    @classmethod
    def _check_repetitions(cls, order: list[str]) -> list[str]:
        for label in order:
            if order.count(label) > 1:
                raise ValueError(f"{label!r} is listed twice")
        return order

    def matching_axes(self, axes: Sequence[Axis]) -> list[int]:
        """The indices of the axes that have all these options; there should be one.

        Args:
            axes: All axes of the study.
        """
        free = ((index, axis) for index, axis in enumerate(axes) if axis.name not in self.where)
        return [index for index, axis in free if set(self.order) <= set(axis.labels)]


class Plan(Section):
    """The keys of a study that are not settings of an experiment.

    Attributes:
        question: What the study is to answer.
        experiment: A recipe or an experiment file.
        seeds: Number of runs of each condition.
        baseline: For some axes, the option that the others are compared with.
        metrics: The names of the metrics to report, of any task; the first one is compared.
        method: The test over sentences.
        expect: Expected orders.
    """

    question: str = ""
    experiment: str
    seeds: int = Field(default=3, ge=1, le=1_000)
    baseline: dict[Label, Label] = Field(default_factory=dict)
    metrics: list[str] = Field(default_factory=list)
    method: Method = "randomization"
    expect: list[Expectation] = Field(default_factory=list)

    @field_validator("method", mode="before")
    @classmethod
    def _accept_old_method(cls, method: Any) -> Any:
        return "randomization" if method == "randomisation" else method

    @field_validator("metrics")
    @classmethod
    def _check_metrics(cls, names: list[str]) -> list[str]:
        names = [OLD_NAMES.get(name, name) for name in names]
        for name in names:
            find_metric(name)
            if names.count(name) > 1:
                raise ValueError(f"{name!r} is listed twice")
        return names


@dataclass(frozen=True)
class Condition:
    """One point of the grid: what is trained, with every seed, and how it is evaluated.

    Args:
        labels: The option of each axis.
        experiment: What is trained.
        evaluation: How it is evaluated.
    """

    labels: tuple[str, ...]
    experiment: Experiment
    evaluation: EvaluationSpec

    def with_seed(self, seed: int) -> Experiment:
        """The experiment of one run.

        Args:
            seed: Its `training.seed`.
        """
        training = self.experiment.training.model_copy(update={"seed": seed})
        return self.experiment.model_copy(update={"training": training})

    def run_name(self, seed: int) -> str:
        """The name of a run directory. Equal settings have equal names, whatever a study calls them.

        Args:
            seed: That of the run.
        """
        return run_name(self.with_seed(seed))


def run_name(experiment: Experiment) -> str:
    """The name of the run directory of an experiment in a study.

    Args:
        experiment: The experiment, with its seed.
    """
    settings = experiment.model_dump(exclude={"description": True, "training": {"seed", "device"}})
    settings["data"] = identifying_settings(experiment.data)
    # Runs with code that has changed are other runs.
    digests = [plugins.describe_code(name, Path()).get("sha256") for name in plugin_names(experiment)]
    task = re.sub(r"\W", "-", short_reference(settings["data"]["task"]))
    return f"{task}-{fingerprint(settings | ({'code': digests} if digests else {}))}-{experiment.training.seed}"


@dataclass(frozen=True)
class Study:
    """A study whose experiments are all known to be valid.

    Args:
        name: That of its folder.
        plan: The keys that are not settings.
        axes: Those of `vary`, then those of `test`.
        conditions: The grid; the option of the first axis changes slowest.
        leaves: The definition, as read from YAML.
    """

    name: str
    plan: Plan
    axes: tuple[Axis, ...]
    conditions: tuple[Condition, ...]
    leaves: tuple[YamlLeaf, ...] = field(repr=False)

    @property
    def seeds(self) -> range:
        return range(1, self.plan.seeds + 1)

    @property
    def metrics(self) -> list[Metric]:
        """The metrics to report. The first is the main metric, which is compared; by default it is that of the task."""
        return [find_metric(name) for name in self.plan.metrics or task_metrics(self.conditions[0].experiment.task)[:1]]

    @property
    def baseline(self) -> Mapping[str, str]:
        """For some axes, the option that the others are compared with."""
        if self.plan.baseline:
            return self.plan.baseline
        first = next((axis for axis in self.axes if len(axis.options) > 1), None)
        return {first.name: first.options[0].label} if first else {}

    def baseline_of(self, condition: Condition) -> Condition | None:
        """The condition with the baseline's options and otherwise equal; None for a baseline itself.

        Args:
            condition: One of the study's.
        """
        labels = tuple(
            self.baseline.get(axis.name, label) for axis, label in zip(self.axes, condition.labels, strict=True)
        )
        return None if labels == condition.labels else self.at(labels)

    def at(self, labels: tuple[str, ...]) -> Condition:
        """The condition at a point of the grid.

        Args:
            labels: The option of each axis.
        """
        return next(condition for condition in self.conditions if condition.labels == labels)

    def options(self, condition: Condition) -> list[tuple[Axis, str]]:
        """Each axis with the full label of its option.

        Args:
            condition: One of the study's.
        """
        pairs = zip(self.axes, condition.labels, strict=True)
        return [(axis, axis.full_label(label)) for axis, label in pairs]

    def label(self, condition: Condition) -> str:
        """The full labels of all options, or the experiment's name if there are no axes.

        Args:
            condition: One of the study's.
        """
        return " · ".join(label for _, label in self.options(condition)) or Path(self.plan.experiment).stem

    def training_label(self, condition: Condition) -> str:
        """The label without the options of `test`.

        Args:
            condition: One of the study's.
        """
        trained = [label for axis, label in self.options(condition) if axis.trains]
        return " · ".join(trained) or Path(self.plan.experiment).stem

    def expected_pairs(self) -> Iterator[tuple[Expectation, Condition, Condition]]:
        """Neighbors in every expected order: the worse and the better condition, otherwise equal."""
        for expectation in self.plan.expect:
            (index,) = expectation.matching_axes(self.axes)  # checked when the study was read
            for condition in self.conditions:
                labels = dict(zip((axis.name for axis in self.axes), condition.labels, strict=True))
                if condition.labels[index] == expectation.order[0] and expectation.where.items() <= labels.items():
                    row = [
                        self.at((*condition.labels[:index], label, *condition.labels[index + 1 :]))
                        for label in expectation.order
                    ]
                    yield from ((expectation, worse, better) for worse, better in pairwise(row))

    def dump(self) -> str:
        """The definition as YAML. Reading it, from any folder, gives the same study."""
        tree: dict[str, Any] = {}
        for leaf in self.leaves:
            branch = tree
            for part in leaf.path[:-1]:
                branch = branch.setdefault(part, {})
            branch[leaf.path[-1]] = leaf.value
        return yaml.dump(tree, Dumper=yaml_source.YamlDumper, sort_keys=False, allow_unicode=True)
