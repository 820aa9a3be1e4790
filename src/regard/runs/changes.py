"""Settings that were changed when a training continued, and the learning-rate schedules that a run has had.

`config.yaml` has the present settings. `run.json` has what a reader needs to know besides:

- `started_with`: for each key of `config.yaml` that was changed, its first value as text; null if there was none
- `schedules`: the learning-rate schedules, each with the step at which it began
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from regard import files
from regard.config import yaml_source
from regard.config.schema import Experiment, flatten_settings
from regard.config.training_section import TrainingSection
from regard.runs.progress import MAX_COUNT

if TYPE_CHECKING:
    from regard.runs.directory import Run

StepCount = Annotated[int, Field(ge=0, le=MAX_COUNT)]


class ScheduleRecord(BaseModel):
    """A learning-rate schedule, and the steps that it was made for.

    Args:
        step: The number of steps before its first one.
        validations: The number of validations before it.
        epochs: `training.epochs` when it began.
        max_steps: `training.max_steps` when it began.
        rate: The section `training.rate`.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    step: StepCount = 0
    validations: StepCount = 0
    epochs: StepCount
    max_steps: StepCount | None
    rate: dict[str, Any]

    @classmethod
    def begin(cls, training: TrainingSection, step: int = 0, validations: int = 0) -> ScheduleRecord:
        """The schedule of these settings.

        Args:
            training: The section `training`.
            step: The number of steps before.
            validations: The number of validations before.
        """
        return cls(
            step=step,
            validations=validations,
            epochs=training.epochs,
            max_steps=training.max_steps,
            rate=training.rate.model_dump(),
        )

    def has_rate(self, training: TrainingSection) -> bool:
        """True if this is the learning rate of these settings, which may have options that are newer than the record.

        Args:
            training: The section `training`.
        """
        rate = training.rate.model_dump()
        return all(rate.get(key) == value for key, value in self.rate.items())


STARTED_WITH = TypeAdapter(dict[str, str | None])
SCHEDULES = TypeAdapter(list[ScheduleRecord])


def initial_settings(settings: Mapping[str, str], metadata: Mapping[str, Any], path: Path) -> dict[str, str]:
    """The settings as they were when a run was started.

    Args:
        settings: The text of each value in `config.yaml`, by key.
        metadata: The content of `run.json`.
        path: The run directory.
    """
    with files.damage_as_user_error(path / "run.json"):
        restored = {**settings, **STARTED_WITH.validate_python(metadata.get("started_with", {}))}
    return {key: text for key, text in restored.items() if text is not None}


def current_schedule(run: Run) -> ScheduleRecord:
    """The learning-rate schedule of the next step.

    Args:
        run: A run directory.
    """
    return _schedules(run)[-1]


def _schedules(run: Run) -> list[ScheduleRecord]:
    """All schedules so far. One that `config.yaml` does not have yet, because of a crash, is not among them."""
    training = run.experiment.training
    with files.damage_as_user_error(run.path / "run.json"):
        records = SCHEDULES.validate_python(run.metadata.get("schedules", []))
    while records and not records[-1].has_rate(training):
        records.pop()
    return records or [ScheduleRecord.begin(training)]


def change_settings(run: Run, experiment: Experiment, keys: Sequence[str]) -> Run:
    """Change settings of a run, and record what it was started with. The weights still belong to the run.

    If the process is killed in between, `run.json` has records of what was not changed, which have no effect.

    Args:
        run: A run directory, which is locked.
        experiment: The new settings.
        keys: The keys that are changed, such as `training.epochs`.

    Returns:
        The run directory, opened again.
    """
    schedules = _schedules(run)
    if not schedules[-1].has_rate(experiment.training):
        progress = run.progress
        schedules.append(ScheduleRecord.begin(experiment.training, progress.step, len(progress.validation_losses)))
    settings = {".".join(leaf.path): leaf.value for leaf in run.settings}
    new = flatten_settings(experiment.model_dump())
    started_with = STARTED_WITH.validate_python(run.metadata.get("started_with", {}))
    for key in keys:
        started_with.setdefault(key, repr(settings[key]) if key in settings else None)
        settings.pop(key, None)
        if key in new:
            settings[key] = new[key]
    metadata = {**run.metadata, "started_with": started_with, "schedules": [each.model_dump() for each in schedules]}
    files.write_atomic(run.path / "run.json", json.dumps(metadata).encode())
    content = yaml.dump(_nested(settings), Dumper=yaml_source.YamlDumper, sort_keys=False, allow_unicode=True)
    files.write_atomic(run.path / "config.yaml", content.encode())
    return type(run)(run.path)


def _nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by dotted key as nested dictionaries."""
    tree: dict[str, Any] = {}
    for key, value in settings.items():
        *sections, name = key.split(".")
        branch = tree
        for section in sections:
            branch = branch.setdefault(section, {})
        branch[name] = value
    return tree
