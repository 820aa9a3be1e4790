"""What changes in the course of training: the learning rate, and how often the decoder reads the truth.

Each schedule is a function of where training stands, and of nothing that would have to be remembered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from regard.config.schema import LearningRateSection, TeacherForcingSection


@dataclass(frozen=True)
class ScheduleStep:
    """Where training stands, as far as a learning rate cares."""

    step: int  # counted from 1
    steps: int  # in all
    warmup: int  # of them, at least 1
    losses: Sequence[float]  # of the validations so far

    @property
    def rising(self) -> float:
        """From 0 to 1 in the course of the warm-up."""
        return min(1.0, self.step / self.warmup)


def learning_rate(
    settings: LearningRateSection, step: int, steps: int, validation_losses: Sequence[float] = ()
) -> float:
    """The rate of a step, counted from 0, of so many `steps`."""
    rate, usual_warmup = LEARNING_RATES[settings.kind]
    share = usual_warmup if settings.warmup is None else settings.warmup
    moment = ScheduleStep(step + 1, steps, max(1, round(share * steps)), validation_losses)
    return settings.peak * rate(settings, moment)


def _constant(settings: LearningRateSection, now: ScheduleStep) -> float:
    return now.rising


def _one_cycle(settings: LearningRateSection, now: ScheduleStep) -> float:
    """Rises to its peak, then falls to nothing along half a cosine."""
    if now.step <= now.warmup:
        return now.rising
    return 0.5 * (1 + math.cos(math.pi * (now.step - now.warmup) / (now.steps - now.warmup + 1)))


def _inverse_square_root(settings: LearningRateSection, now: ScheduleStep) -> float:
    """Rises to its peak, then falls as 1/√step."""
    return min(now.rising, math.sqrt(now.warmup / now.step))


def _plateau(settings: LearningRateSection, now: ScheduleStep) -> float:
    """Is cut by `factor` whenever `patience` validations in a row have brought no better loss."""
    best, waited, cuts = math.inf, 0, 0
    for loss in now.losses:
        best, waited = (loss, 0) if loss < best else (best, waited + 1)
        if waited == settings.patience:
            cuts, waited = cuts + 1, 0
    return now.rising * settings.factor**cuts


# Each with the share of steps for which it warms up, unless the settings say otherwise.
LEARNING_RATES = {
    "constant": (_constant, 0.0),
    "one-cycle": (_one_cycle, 0.2),
    "inverse-square-root": (_inverse_square_root, 0.2),
    "plateau": (_plateau, 0.0),
}


def teacher_forcing(settings: TeacherForcingSection, epoch: int) -> float:
    """How often the decoder reads the true token in an epoch, counted from 0: a share from 0 to 1."""
    if settings.kind == "constant":
        return settings.ratio
    falling = TEACHER_FORCING_DECAYS[settings.kind](settings, epoch)  # from 1 towards 0
    return settings.floor + (settings.ratio - settings.floor) * falling


def _stepped(settings: TeacherForcingSection, epoch: int) -> float:
    """100 %, then 50 %, then 0 %, `epochs` each but the last."""
    return max(0.0, 1 - 0.5 * (epoch // settings.epochs))


def _linear(settings: TeacherForcingSection, epoch: int) -> float:
    return max(0.0, 1 - epoch / settings.epochs)


def _exponential(settings: TeacherForcingSection, epoch: int) -> float:
    return settings.decay**epoch


def _inverse_sigmoid(settings: TeacherForcingSection, epoch: int) -> float:
    """k / (k + e^(epoch/k)), scaled to begin at 1."""
    k = settings.steepness
    return (k + 1) / (k + math.exp(min(epoch / k, 700.0)))


TEACHER_FORCING_DECAYS = {
    "stepped": _stepped,
    "linear": _linear,
    "exponential": _exponential,
    "inverse-sigmoid": _inverse_sigmoid,
}
