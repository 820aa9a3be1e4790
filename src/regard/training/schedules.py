"""Schedules of the learning rate and of the teacher-forcing ratio.

Each schedule is a pure function of the training progress: it has no state of its own to save. `regard.config.kinds` has
the names of the schedules in an experiment.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from pydantic import Field, model_validator

from regard.config.base import invalid_combination
from regard.config.kinds import LEARNING_RATES, TEACHER_FORCING_SCHEDULES, LearningRateSection, TeacherForcingSection


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


@dataclass(frozen=True)
class LearningRate(ABC):
    """The learning rate of each step: linear warm-up to `peak`, then as the kind of schedule defines.

    Args:
        peak: The largest learning rate.
        warmup: Share of all steps in which the rate rises to its peak; None: `default_warmup`.
    """

    Section: ClassVar[type[LearningRateSection]] = LearningRateSection
    default_warmup: ClassVar[float] = 0.0

    peak: float
    warmup: float | None = None

    def __call__(self, step: int, steps: int, validation_losses: Sequence[float] = ()) -> float:
        """The learning rate of a step.

        Args:
            step: The step, counted from 0.
            steps: The number of steps in all.
            validation_losses: The losses of the validations so far.
        """
        share = self.default_warmup if self.warmup is None else self.warmup
        return self.peak * self.multiplier(
            ScheduleStep(step + 1, steps, max(1, round(share * steps)), validation_losses)
        )

    @abstractmethod
    def multiplier(self, now: ScheduleStep) -> float:
        """The learning rate as a share of its peak."""


class ConstantRate(LearningRate):
    """Warm-up if it is set, then constant.

    Args:
        peak: The largest learning rate.
        warmup: Share of all steps in which the rate rises to its peak; None: `default_warmup`.
    """

    def multiplier(self, now: ScheduleStep) -> float:
        return now.warmup_factor


class OneCycleRate(LearningRate):
    """Linear warm-up, then half a cosine down to 0.

    Args:
        peak: The largest learning rate.
        warmup: Share of all steps in which the rate rises to its peak; None: `default_warmup`.
    """

    default_warmup = 0.2

    def multiplier(self, now: ScheduleStep) -> float:
        if now.step <= now.warmup:
            return now.warmup_factor
        return 0.5 * (1 + math.cos(math.pi * (now.step - now.warmup) / (now.steps - now.warmup + 1)))


class InverseSquareRootRate(LearningRate):
    """Linear warm-up, then proportional to 1/√step.

    Args:
        peak: The largest learning rate.
        warmup: Share of all steps in which the rate rises to its peak; None: `default_warmup`.
    """

    default_warmup = 0.2

    def multiplier(self, now: ScheduleStep) -> float:
        return min(now.warmup_factor, math.sqrt(now.warmup / now.step))


class PlateauSection(LearningRateSection):
    """Settings of `plateau`.

    Attributes:
        factor: What the rate is multiplied by.
        patience: Number of validations in a row without a lower loss after which it is multiplied.
    """

    factor: float = Field(0.5, gt=0, lt=1)
    patience: int = Field(2, ge=1)


@dataclass(frozen=True)
class PlateauRate(LearningRate):
    """Multiplied by `factor` after every `patience` validations in a row without a lower loss.

    Args:
        peak: The largest learning rate.
        warmup: Share of all steps in which the rate rises to its peak; None: no warm-up.
        factor: What the rate is multiplied by.
        patience: Number of validations without a lower loss.
    """

    Section = PlateauSection

    factor: float = 0.5
    patience: int = 2

    def multiplier(self, now: ScheduleStep) -> float:
        best, waited, cuts = math.inf, 0, 0
        for loss in now.losses:
            best, waited = (loss, 0) if loss < best else (best, waited + 1)
            if waited == self.patience:
                cuts, waited = cuts + 1, 0
        return now.warmup_factor * self.factor**cuts


def build_learning_rate(section: LearningRateSection) -> LearningRate:
    """The learning-rate schedule that `training.rate` describes.

    Args:
        section: The settings.
    """
    schedule: LearningRate = LEARNING_RATES[section.kind](**section.options())
    return schedule


class TeacherForcing(ABC):
    """The teacher-forcing ratio of each epoch: the share of reference tokens among the decoder's inputs."""

    Section: ClassVar[type[TeacherForcingSection]] = TeacherForcingSection

    @abstractmethod
    def __call__(self, epoch: int) -> float:
        """The ratio of an epoch.

        Args:
            epoch: The epoch, counted from 0.
        """


@dataclass(frozen=True)
class ConstantTeacherForcing(TeacherForcing):
    """The same ratio in every epoch.

    Args:
        ratio: The ratio.
    """

    ratio: float = 1.0

    def __call__(self, epoch: int) -> float:
        return self.ratio


class DecayingSection(TeacherForcingSection):
    """Settings of every schedule that decays.

    Attributes:
        floor: The ratio that the schedule decays to.
    """

    floor: float = Field(0.0, ge=0, le=1)

    @model_validator(mode="after")
    def _check_floor(self) -> Self:
        if self.floor > self.ratio:
            raise invalid_combination("floor", f"{self.floor} is above the ratio at the start, {self.ratio}")
        return self


@dataclass(frozen=True)
class DecayingTeacherForcing(TeacherForcing):
    """floor + (ratio − floor) · decay factor, which decays from 1 toward 0.

    Args:
        ratio: The ratio of the first epoch.
        floor: The ratio that the schedule decays to.
    """

    ratio: float = 1.0
    floor: float = 0.0

    def __call__(self, epoch: int) -> float:
        return self.floor + (self.ratio - self.floor) * self.decay_factor(epoch)

    @abstractmethod
    def decay_factor(self, epoch: int) -> float:
        """From 1 in epoch 0 toward 0."""


class EpochsSection(DecayingSection):
    """Settings of `stepped` and `linear`.

    Attributes:
        epochs: Number of epochs of each step, or until the floor is reached.
    """

    epochs: int = Field(10, ge=1)


@dataclass(frozen=True)
class SteppedTeacherForcing(DecayingTeacherForcing):
    """1, then 0.5, then 0; the first two for `epochs` epochs each.

    Args:
        ratio: The ratio of the first epoch.
        floor: The ratio that the schedule decays to.
        epochs: Number of epochs of each step.
    """

    Section = EpochsSection

    epochs: int = 10

    def decay_factor(self, epoch: int) -> float:
        return max(0.0, 1 - 0.5 * (epoch // self.epochs))


@dataclass(frozen=True)
class LinearTeacherForcing(DecayingTeacherForcing):
    """Linear in the epoch, down to 0 after `epochs` epochs.

    Args:
        ratio: The ratio of the first epoch.
        floor: The ratio that the schedule decays to.
        epochs: Number of epochs until the floor is reached.
    """

    Section = EpochsSection

    epochs: int = 10

    def decay_factor(self, epoch: int) -> float:
        return max(0.0, 1 - epoch / self.epochs)


class ExponentialSection(DecayingSection):
    """Settings of `exponential`.

    Attributes:
        decay: What each epoch multiplies by.
    """

    decay: float = Field(0.9, gt=0, lt=1)


@dataclass(frozen=True)
class ExponentialTeacherForcing(DecayingTeacherForcing):
    """decay^epoch.

    Args:
        ratio: The ratio of the first epoch.
        floor: The ratio that the schedule decays to.
        decay: What each epoch multiplies by.
    """

    Section = ExponentialSection

    decay: float = 0.9

    def decay_factor(self, epoch: int) -> float:
        return self.decay**epoch


class InverseSigmoidSection(DecayingSection):
    """Settings of `inverse-sigmoid`.

    Attributes:
        steepness: k in k / (k + e^(epoch/k)).
    """

    steepness: float = Field(5.0, ge=1)


@dataclass(frozen=True)
class InverseSigmoidTeacherForcing(DecayingTeacherForcing):
    """k / (k + e^(epoch/k)), scaled to start at 1; k is `steepness`.

    Args:
        ratio: The ratio of the first epoch.
        floor: The ratio that the schedule decays to.
        steepness: k.
    """

    Section = InverseSigmoidSection

    steepness: float = 5.0

    def decay_factor(self, epoch: int) -> float:
        k = self.steepness
        return (k + 1) / (k + math.exp(min(epoch / k, 700.0)))


def build_teacher_forcing(section: TeacherForcingSection) -> TeacherForcing:
    """The teacher-forcing schedule that `training.teacher_forcing` describes.

    Args:
        section: The settings.
    """
    schedule: TeacherForcing = TEACHER_FORCING_SCHEDULES[section.kind](**section.options())
    return schedule
