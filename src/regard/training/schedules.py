"""What changes in the course of training: the learning rate, and how often the decoder reads the truth.

Each schedule is a function of where training stands, and of nothing that would have to be remembered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from regard.config import RateSection, TeacherForcingSection


def learning_rate(settings: RateSection, step: int, steps: int, validation_losses: Sequence[float] = ()) -> float:
    """The rate of a step, counted from 0, of so many `steps`."""
    warmup = max(1, round(settings.warmup * steps))
    rising = min(1.0, (step + 1) / warmup)
    return settings.peak * RATES[settings.kind](settings, step + 1, steps, warmup, rising, validation_losses)


def _constant(
    settings: RateSection, step: int, steps: int, warmup: int, rising: float, losses: Sequence[float]
) -> float:
    """Rises to its peak and stays there."""
    return rising


def _one_cycle(
    settings: RateSection, step: int, steps: int, warmup: int, rising: float, losses: Sequence[float]
) -> float:
    """Rises to its peak, then falls to nothing along half a cosine."""
    if step <= warmup:
        return rising
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup + 1)))


def _inverse_square_root(
    settings: RateSection, step: int, steps: int, warmup: int, rising: float, losses: Sequence[float]
) -> float:
    """Rises to its peak, then falls as 1/√step."""
    return min(rising, math.sqrt(warmup / step))


def _plateau(
    settings: RateSection, step: int, steps: int, warmup: int, rising: float, losses: Sequence[float]
) -> float:
    """Is cut by `factor` whenever `patience` validations in a row have brought no better loss."""
    best, waited, cuts = math.inf, 0, 0
    for loss in losses:
        best, waited = (loss, 0) if loss < best else (best, waited + 1)
        if waited == settings.patience:
            cuts, waited = cuts + 1, 0
    return rising * settings.factor**cuts


RATES = {
    "constant": _constant,
    "one-cycle": _one_cycle,
    "inverse-square-root": _inverse_square_root,
    "plateau": _plateau,
}


def teacher_forcing(settings: TeacherForcingSection, epoch: int) -> float:
    """How often the decoder reads the true token in an epoch, counted from 0: a share from 0 to 1."""
    if settings.kind == "constant":
        return settings.ratio
    falling = FALLS[settings.kind](settings, epoch)  # from 1 towards 0
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


FALLS = {
    "stepped": _stepped,
    "linear": _linear,
    "exponential": _exponential,
    "inverse-sigmoid": _inverse_sigmoid,
}
