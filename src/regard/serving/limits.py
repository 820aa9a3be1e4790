"""How much a server takes on, and how it says that something is too much."""

from __future__ import annotations

from dataclasses import dataclass

from regard.errors import UserError


@dataclass(frozen=True)
class Limits:
    text_characters: int = 2_000  # of one text
    texts: int = 64  # of one request
    beam: int = 50  # the widest; also the most hypotheses that are drawn
    queue: int = 256  # texts that wait
    seconds: float = 30.0  # until an answer
    batch: int = 64  # texts that are translated at once
    numbers: int = 50_000_000  # that are held in memory at once for one request or one batch, about; 4 bytes each

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise UserError(f"{name.replace('_', ' ')} {value}: a limit should be above 0")
        if self.queue < self.texts:
            raise UserError(f"queue {self.queue}: should have room for one request of {self.texts} texts at least")

    @property
    def body_bytes(self) -> int:
        """Of a request; JSON may write a character in 12 bytes, as in `\\ud83d\\ude00`, and a pair has two texts."""
        return 2 * self.texts * (12 * self.text_characters + 100) + 100_000


class RefusedError(Exception):
    """What is not done, with the status code that says why in short, and a reason that says what would be right."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


TOO_LARGE, WRONG, TOO_MANY, NOT_NOW = 413, 422, 429, 503
