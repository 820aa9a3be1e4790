"""Checks of a study before anything is trained: its axes, its baseline and expectations, and its conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from regard.config.base import KeyPath
from regard.config.draft import Override
from regard.errors import UserError, suggest
from regard.studies.axes import Axis
from regard.studies.definition import Condition, Plan
from regard.studies.evaluations import EvaluationSpec

MAX_POINTS = 1_000
NO_AXES = "vary and test have no axes"
Origin = Callable[[KeyPath], str]  # where a key of the study was set


def check_axes(axes: Sequence[Axis], common: Sequence[Override]) -> None:
    """Raise `UserError` if axes have the same name, set the seed or make too many points.

    Args:
        axes: Those of `vary` and `test`.
        common: The settings of `set`.
    """
    names = [axis.name for axis in axes]
    for index, axis in enumerate(axes):
        if axis.name in names[:index]:
            raise UserError(f"{axis.origin}: {axis.name}: this is an axis of vary already; give one another name")
    for setting in common:
        if ".".join(setting.path) in names:
            raise UserError(f"{setting.origin}: {'.'.join(setting.path)}: this is varied already; leave it out")
    for setting in (*common, *(s for axis in axes for option in axis.options for s in option.settings)):
        section = setting.value if setting.path == ("training",) and isinstance(setting.value, dict) else {}
        if setting.path == ("training", "seed") or "seed" in section:
            raise UserError(
                f"{setting.origin}: training.seed: a study repeats each run with other seeds; seeds sets how many"
            )
    points = prod(len(axis.options) for axis in axes)
    if points > MAX_POINTS:
        raise UserError(f"{axes[-1].origin}: the grid has more than {MAX_POINTS:,} points with this axis; vary less")


def check_plan(plan: Plan, axes: Sequence[Axis], origin: Origin) -> None:
    """Raise `UserError` unless the axes and options of `baseline` and `expect` exist.

    Args:
        plan: The keys that are not settings.
        axes: All axes of the study.
        origin: Returns where a key was set.
    """
    labels = {axis.name: axis.labels for axis in axes}
    wanted = [("baseline", axis, label, origin(("baseline", axis))) for axis, label in plan.baseline.items()]
    for expectation in plan.expect:
        wanted += [("expect: where", *held, origin(("expect",))) for held in expectation.where.items()]
    for key, name, label, where in wanted:
        if name not in labels:
            raise UserError(f"{where}: {key}: {name!r} is not an axis; {suggest(name, labels) if labels else NO_AXES}")
        if label not in labels[name]:
            raise UserError(f"{where}: {key}: {name} has no {label!r}; {suggest(label, labels[name])}")
    for expectation in plan.expect:
        matching = expectation.matching_axes(axes)
        if len(matching) > 1:
            both = " and ".join(axes[index].name for index in matching)
            raise UserError(
                f"{origin(('expect',))}: expect: {both} have all of {', '.join(expectation.order)}; "
                "name an option of the other one in where"
            )
        if not matching:
            free = [f"{name} has {', '.join(known)}" for name, known in labels.items() if name not in expectation.where]
            raise UserError(
                f"{origin(('expect',))}: expect: no axis{' besides those of where' if expectation.where else ''} "
                f"has all of {', '.join(expectation.order)}; {'; '.join(free) or NO_AXES}"
            )


def check_conditions(name: str, conditions: Sequence[Condition]) -> None:
    """Raise `UserError` if two conditions have the same settings.

    Args:
        name: The name of the study.
        conditions: All conditions.
    """
    known: dict[tuple[str, EvaluationSpec], Condition] = {}
    for condition in conditions:
        other = known.setdefault((condition.run_name(1), condition.evaluation), condition)
        if other is not condition:
            labels = [" · ".join(each.labels) for each in (other, condition)]
            raise UserError(f"{name}: {labels[0]} and {labels[1]} have the same settings; only their names differ")
