"""Schedules of the learning rate.

Each schedule is a pure function of the training progress: it has no state of its own to save. `regard.config.kinds` has
the names of the schedules in an experiment.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from regard.config.kinds import LEARNING_RATES, LearningRateSection


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
        warmup_steps: The number of these steps; None: `warmup` determines it.
    """

    Section: ClassVar[type[LearningRateSection]] = LearningRateSection
    default_warmup: ClassVar[float] = 0.0
    # True if `multiplier` uses the number of all steps other than for warm-up: more epochs are then another schedule.
    depends_on_steps: ClassVar[bool] = True

    peak: float
    warmup: float | None = None
    warmup_steps: int | None = None

    def __call__(self, step: int, steps: int, validation_losses: Sequence[float] = ()) -> float:
        """The learning rate of a step.

        Args:
            step: The step, counted from 0.
            steps: The number of steps in all.
            validation_losses: The losses of the validations so far.
        """
        share = self.default_warmup if self.warmup is None else self.warmup
        warmup = round(share * steps) if self.warmup_steps is None else self.warmup_steps
        return self.peak * self.multiplier(ScheduleStep(step + 1, steps, max(1, warmup), validation_losses))

    @abstractmethod
    def multiplier(self, now: ScheduleStep) -> float:
        """The learning rate as a share of its peak."""


class ConstantRate(LearningRate):
    """Warm-up if it is set, then constant.

    Args:
        peak: The largest learning rate.
        warmup: Share of all steps in which the rate rises to its peak; None: `default_warmup`.
        warmup_steps: The number of these steps; None: `warmup` determines it.
    """

    depends_on_steps = False

    def multiplier(self, now: ScheduleStep) -> float:
        return now.warmup_factor


class OneCycleRate(LearningRate):
    """Linear warm-up, then half a cosine down to 0.

    Args:
        peak: The largest learning rate.
        warmup: Share of all steps in which the rate rises to its peak; None: `default_warmup`.
        warmup_steps: The number of these steps; None: `warmup` determines it.
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
        warmup_steps: The number of these steps; None: `warmup` determines it.
    """

    default_warmup = 0.2
    depends_on_steps = False

    def multiplier(self, now: ScheduleStep) -> float:
        return min(now.warmup_factor, math.sqrt(now.warmup / now.step))


class PlateauSection(LearningRateSection):
    """Settings of `plateau`.

    Attributes:
        factor: What the rate is multiplied by.
        patience: Number of validations in a row without a lower loss after which it is multiplied.
    """

    factor: float = Field(default=0.5, gt=0, lt=1)
    patience: int = Field(default=2, ge=1)


@dataclass(frozen=True)
class PlateauRate(LearningRate):
    """Multiplied by `factor` after every `patience` validations in a row without a lower loss.

    Args:
        peak: The largest learning rate.
        warmup: Share of all steps in which the rate rises to its peak; None: no warm-up.
        warmup_steps: The number of these steps; None: `warmup` determines it.
        factor: What the rate is multiplied by.
        patience: Number of validations without a lower loss.
    """

    Section = PlateauSection
    depends_on_steps = False

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
