"""Dropout that costs little on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor, nn

BYTE = 256  # values of a byte


class Dropout(nn.Module):
    """m ∘ x / (1 − p), with m_i = 0 with probability p, in training only; one random byte decides on each value.

    torch's own draws a number of 32 bits or more for each value, which is a sixth of all the time in which a small
    Transformer learns. So p is rounded to a multiple of 1/256.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.dropped = min(round(p * BYTE), BYTE - 1)  # of 256 values of a byte

    def forward(self, values: Tensor) -> Tensor:
        if not self.training or not self.dropped:
            return values
        count = values.numel()
        words = torch.randint(-(2**63), 2**63 - 1, (-(-count // 8),), device=values.device)  # of 8 bytes
        kept = words.view(torch.uint8)[:count].view(values.shape) >= self.dropped
        return values * kept.to(values.dtype).mul_(BYTE / (BYTE - self.dropped))

    def extra_repr(self) -> str:
        return f"p={self.dropped / BYTE}"
