"""Schedules of the teacher-forcing ratio: each is a pure function of the epoch.

`regard.config.kinds` has the names of the schedules in an experiment.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

from pydantic import Field, model_validator

from regard.config.base import invalid_combination
from regard.config.kinds import TEACHER_FORCING_SCHEDULES, TeacherForcingSection


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

    floor: float = Field(default=0.0, ge=0, le=1)

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

    epochs: int = Field(default=10, ge=1)


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

    decay: float = Field(default=0.9, gt=0, lt=1)


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

    steepness: float = Field(default=5.0, ge=1)


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
