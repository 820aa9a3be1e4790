"""What a search finds."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Hypothesis:
    """One output for one source."""

    tokens: list[int]  # `<end>` included, if it was reached
    log_probabilities: list[float]  # log p of each token, given those before it and the source
    attention: Tensor  # [output, source], with axes for layers and heads before them where the decoder has any
    finished: bool  # False: cut off at the maximum length

    @property
    def score(self) -> float:
        """log p(tokens | source)."""
        return math.fsum(self.log_probabilities)
