"""What a search finds."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Hypothesis:
    """One output for one source."""

    tokens: list[int]  # `<end>` included, if it was reached
    score: float  # log p(tokens | source)
    attention: Tensor  # [output, source], with axes for layers and heads before them where the decoder has any
    finished: bool  # False: cut off at the maximum length
