"""How much a server takes on, and how it says that something is too much."""

from __future__ import annotations

import math
from dataclasses import dataclass

from regard.errors import UserError


@dataclass(frozen=True)
class Limits:
    characters: int = 2_000  # of one text
    texts: int = 64  # of one request
    beam: int = 50  # the widest; also the most hypotheses that are drawn
    waiting: int = 256  # texts that nobody has begun with
    seconds: float = 30.0  # until an answer
    memory: float = 500.0  # megabytes that one batch may take, about
    batch: int = 64  # texts of several requests that are done together

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 < value < math.inf:
                raise UserError(f"{name} {value}: a limit should be a number above 0")
        if self.waiting < self.texts:
            raise UserError(f"waiting {self.waiting}: should have room for one request of {self.texts} texts at least")

    @property
    def body_bytes(self) -> int:
        """Of a request; JSON may write a character in 12 bytes, as in `\\ud83d\\ude00`, and a pair has two texts."""
        return 2 * self.texts * (12 * self.characters + 100) + 100_000


class RefusedError(Exception):
    """What is not done, with the status code that says why in short, and a reason that says what would be right."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


TOO_SLOW, TOO_LARGE, WRONG, TOO_MANY, NOT_NOW = 408, 413, 422, 429, 503
