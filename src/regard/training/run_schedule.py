"""The number of steps of a run, and the learning rate of each of them, also after the run was given more epochs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.config.training_section import TrainingSection
from regard.runs import Run
from regard.runs.changes import current_schedule
from regard.training.learning_rates import LearningRate, build_learning_rate


def total_steps(epochs: int, max_steps: int | None, per_epoch: int) -> int:
    """The number of steps of a training.

    Args:
        epochs: `training.epochs`.
        max_steps: `training.max_steps`.
        per_epoch: Steps per epoch.
    """
    return min(epochs * per_epoch, max_steps or epochs * per_epoch)


def is_over(training: TrainingSection, step: int, per_epoch: int) -> str:
    """Why a training has no further step; empty if it has one.

    Args:
        training: The settings.
        step: The number of steps so far.
        per_epoch: Steps per epoch.
    """
    if step < total_steps(training.epochs, training.max_steps, per_epoch):
        return ""
    return "all epochs done" if step >= training.epochs * per_epoch else f"all {training.max_steps:,} steps done"


@dataclass(frozen=True)
class RunSchedule:
    """The learning rate of each step of a run.

    A schedule was made for a number of steps. When the run is given more epochs, warm-up keeps its length; a schedule
    that is set for the additional steps counts only these, and their validations.

    Args:
        rate: The present schedule.
        steps: The number of steps that it was made for.
        first_step: The number of steps before it.
        validations: The number of validations before it.
    """

    rate: LearningRate
    steps: int
    first_step: int = 0
    validations: int = 0

    @classmethod
    def of_run(cls, run: Run, per_epoch: int) -> RunSchedule:
        """The schedule of a run.

        Args:
            run: The run directory.
            per_epoch: Steps per epoch.
        """
        record = current_schedule(run)
        steps = total_steps(record.epochs, record.max_steps, per_epoch) - record.step
        return cls(build_learning_rate(run.experiment.training.rate), steps, record.step, record.validations)

    def __call__(self, step: int, validation_losses: Sequence[float]) -> float:
        """The learning rate of a step.

        Args:
            step: The step, counted from 0.
            validation_losses: The losses of the validations so far.
        """
        return self.rate(step - self.first_step, self.steps, validation_losses[self.validations :])
