"""Hypotheses: the outputs that a search returns."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Hypothesis:
    """One output for one source.

    Args:
        tokens: Token ids, `<end>` included unless the output was truncated.
        log_probabilities: Log p of each token, given the source and the tokens before it.
        attention: [target, source] on the CPU, after axes for layers and heads where the decoder has them.
        finished: False if the output was truncated at the maximum length.
    """

    tokens: list[int]
    log_probabilities: list[float]
    attention: Tensor
    finished: bool

    @property
    def score(self) -> float:
        """log p(tokens | source)."""
        return math.fsum(self.log_probabilities)
