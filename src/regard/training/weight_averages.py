"""Exponential moving averages of the weights, which are validated and saved in place of the weights themselves.

    θ̄_t = d_t θ̄_{t−1} + (1 − d_t) θ_t        d_t = min(d, (1 + t) / (10 + t))

after step t = 1, 2, …, from θ̄_0 = θ_0. The smaller d_t at the start lets the averages forget the initial weights; it is
that of `tf.train.ExponentialMovingAverage` with `num_updates`. An average covers about the last 1 / (1 − d) steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from regard.runs import named_weights


class WeightAverages:
    """The averages of the weights of a model.

    Args:
        model: The model.
        decay: d; None: there are no averages, and the weights are used as they are.

    Attributes:
        averages: θ̄ by the names of the parameters; empty without `decay`.
    """

    def __init__(self, model: nn.Module, decay: float | None) -> None:
        self.decay = decay
        self.weights = {} if decay is None else named_weights(model)  # which share their memory with the model
        self.averages = {name: weight.clone() for name, weight in self.weights.items()}

    def reset(self) -> None:
        """Make the averages equal to the present weights."""
        for name, weight in self.weights.items():
            self.averages[name].copy_(weight)

    def update(self, step: int) -> None:
        """Add the weights after a step to the averages.

        Args:
            step: t, counted from 1.
        """
        if self.decay is not None:
            decay = min(self.decay, (1 + step) / (10 + step))
            torch._foreach_lerp_(list(self.averages.values()), list(self.weights.values()), 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Within this context, the model has the averages as its weights."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        """Exchange the contents of weights and averages. The model may have pointers to the memory of its weights."""
        for name, weight in self.weights.items():
            average = self.averages[name]
            before: Tensor = weight.clone()
            weight.copy_(average)
            average.copy_(before)
