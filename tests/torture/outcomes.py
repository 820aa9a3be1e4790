"""What an attack reports: how often it tried, and what failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Campaign:
    """The settings of one campaign.

    Args:
        folder: An empty folder for scratch files.
        seed: The seed of everything random.
        scale: Share of the full number of tries, for example 0.01 for a quick check.
        progress: Prints a line of progress.
    """

    folder: Path
    seed: int
    scale: float
    progress: Callable[[str], None]

    def tries(self, full: int) -> int:
        """The number of tries at this scale, at least 1.

        Args:
            full: The number of the full campaign.
        """
        return max(1, round(full * self.scale))


@dataclass
class Tally:
    """The tries of one kind of attack.

    Args:
        name: The kind of attack, for the table.
        tries: How often it was tried.
        failures: A sentence for each failure, with what reproduces it.
        worst: Measured extremes by name, such as the longest response time.
    """

    name: str
    tries: int = 0
    failures: list[str] = field(default_factory=list)
    worst: dict[str, float] = field(default_factory=dict)

    def record(self, failure: str = "", **measured: float) -> None:
        """Count one try.

        Args:
            failure: What went wrong; empty if nothing did.
            measured: Values of which the largest is kept.
        """
        self.tries += 1
        if failure:
            self.failures.append(failure)
        for name, value in measured.items():
            self.worst[name] = max(value, self.worst.get(name, value))
