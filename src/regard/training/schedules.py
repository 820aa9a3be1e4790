"""Schedules of the learning rate and of the teacher-forcing ratio.

Each schedule is a pure function of the training progress: it has no state of its own to save.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from regard.config.schema import LearningRateSection, TeacherForcingSection


@dataclass(frozen=True)
class ScheduleStep:
    """The training progress that a learning rate depends on.

    Args:
        step: The step, counted from 1.
        steps: The number of steps in all.
        warmup: The number of warm-up steps, at least 1.
        losses: The losses of the validations so far.
    """

    step: int
    steps: int
    warmup: int
    losses: Sequence[float]

    @property
    def warmup_factor(self) -> float:
        """Rises linearly from 0 to 1 during warm-up."""
        return min(1.0, self.step / self.warmup)


def learning_rate(
    settings: LearningRateSection, step: int, steps: int, validation_losses: Sequence[float] = ()
) -> float:
    """The learning rate of a step.

    Args:
        settings: The section `training.rate` of the experiment.
        step: The step, counted from 0.
        steps: The number of steps in all.
        validation_losses: The losses of the validations so far.
    """
    factor, default_warmup = LEARNING_RATES[settings.kind]
    share = default_warmup if settings.warmup is None else settings.warmup
    now = ScheduleStep(step + 1, steps, max(1, round(share * steps)), validation_losses)
    return settings.peak * factor(settings, now)


def _constant_rate(settings: LearningRateSection, now: ScheduleStep) -> float:
    return now.warmup_factor


def _one_cycle_rate(settings: LearningRateSection, now: ScheduleStep) -> float:
    """Linear warm-up, then half a cosine down to 0."""
    if now.step <= now.warmup:
        return now.warmup_factor
    return 0.5 * (1 + math.cos(math.pi * (now.step - now.warmup) / (now.steps - now.warmup + 1)))


def _inverse_square_root_rate(settings: LearningRateSection, now: ScheduleStep) -> float:
    """Linear warm-up, then proportional to 1/√step."""
    return min(now.warmup_factor, math.sqrt(now.warmup / now.step))


def _plateau_rate(settings: LearningRateSection, now: ScheduleStep) -> float:
    """Multiplied by `factor` after every `patience` validations in a row without a lower loss."""
    best, waited, cuts = math.inf, 0, 0
    for loss in now.losses:
        best, waited = (loss, 0) if loss < best else (best, waited + 1)
        if waited == settings.patience:
            cuts, waited = cuts + 1, 0
    return now.warmup_factor * settings.factor**cuts


# Kind: (rate as a share of its peak, default share of warm-up steps).
LEARNING_RATES = {
    "constant": (_constant_rate, 0.0),
    "one-cycle": (_one_cycle_rate, 0.2),
    "inverse-square-root": (_inverse_square_root_rate, 0.2),
    "plateau": (_plateau_rate, 0.0),
}


def teacher_forcing(settings: TeacherForcingSection, epoch: int) -> float:
    """The teacher-forcing ratio of an epoch: the share of reference tokens among the decoder's inputs.

    Args:
        settings: The section `training.teacher_forcing` of the experiment.
        epoch: The epoch, counted from 0.
    """
    if settings.kind == "constant":
        return settings.ratio
    decay = TEACHER_FORCING_DECAYS[settings.kind](settings, epoch)  # from 1 toward 0
    return settings.floor + (settings.ratio - settings.floor) * decay


def _stepped_decay(settings: TeacherForcingSection, epoch: int) -> float:
    """1, then 0.5, then 0; the first two for `epochs` epochs each."""
    return max(0.0, 1 - 0.5 * (epoch // settings.epochs))


def _linear_decay(settings: TeacherForcingSection, epoch: int) -> float:
    return max(0.0, 1 - epoch / settings.epochs)


def _exponential_decay(settings: TeacherForcingSection, epoch: int) -> float:
    return settings.decay**epoch


def _inverse_sigmoid_decay(settings: TeacherForcingSection, epoch: int) -> float:
    """k / (k + e^(epoch/k)), scaled to start at 1."""
    k = settings.steepness
    return (k + 1) / (k + math.exp(min(epoch / k, 700.0)))


TEACHER_FORCING_DECAYS = {
    "stepped": _stepped_decay,
    "linear": _linear_decay,
    "exponential": _exponential_decay,
    "inverse-sigmoid": _inverse_sigmoid_decay,
}
