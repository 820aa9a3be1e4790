"""The losses of recent steps, which are read from the device from time to time."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

INTERVAL = 50  # steps


class PendingLosses:
    """Losses that are still on the device. To read one, the program waits until a GPU has computed it.

    Args:
        device: The device.
    """

    def __init__(self, device: torch.device) -> None:
        self.interval = 1 if device.type == "cpu" else INTERVAL
        self.rows: list[tuple[int, int | Tensor, Tensor]] = []

    @property
    def are_due(self) -> bool:
        """True if they should be read now: at each step on a CPU, every `INTERVAL` steps on a GPU."""
        return len(self.rows) >= self.interval

    def append(self, step: int, losses: Tensor, tokens: int | Tensor, norm: Tensor) -> None:
        """Add a step.

        Args:
            step: Its number.
            losses: Its mean losses: cross-entropy and, if there is one, consistency, [losses].
            tokens: The number of target tokens.
            norm: The norm of the gradient.
        """
        self.rows.append((step, tokens, torch.cat([losses, norm.view(1)])))

    def collect(self) -> Iterator[tuple[int, list[float], int, float]]:
        """Remove all rows and iterate over them, as numbers."""
        rows, self.rows = self.rows, []
        if rows:
            values = torch.stack([each for *_, each in rows]).tolist()
            for (step, tokens, _), (*losses, norm) in zip(rows, values, strict=True):
                yield step, losses, int(tokens), norm
