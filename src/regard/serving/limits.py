"""Limits on what one server accepts, and the status codes of requests beyond them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from regard.errors import UserError

REQUEST_TIMEOUT, CONTENT_TOO_LARGE, UNPROCESSABLE_CONTENT = 408, 413, 422
TOO_MANY_REQUESTS, SERVICE_UNAVAILABLE = 429, 503


PICTURE_CHARACTERS = 500_000  # of a picture as a data URI; a photograph of a line, scaled down, has a tenth of it


@dataclass(frozen=True)
class Limits:
    """The limits of a server; a `UserError` if one of them is not a positive number.

    Args:
        characters: Longest text, in characters.
        texts: Most texts, or pairs of texts, in one request.
        beam: Widest beam, and most hypotheses per text.
        waiting: Most texts in the queue.
        seconds: Longest time until a response.
        memory: Most megabytes that one batch may need, as estimated.
        batch: Most texts of different requests in one batch.
        connections: Most open connections.
        client_connections: Most open connections of one client address; a proxy needs as many as `connections`.
        idle_seconds: Longest time that a connection may be open without a request.
    """

    characters: int = 2_000
    texts: int = 64
    beam: int = 50
    waiting: int = 256
    seconds: float = 30.0
    memory: float = 500.0
    batch: int = 64
    connections: int = 400
    client_connections: int = 200
    idle_seconds: float = 10.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 < value < math.inf:
                raise UserError(f"{name.replace('_', '-')} {value}: a limit must be a number above 0")
        if self.waiting < self.texts:
            raise UserError(f"waiting {self.waiting}: must be at least {self.texts}, the texts of one request")

    @property
    def body_bytes(self) -> int:
        """Largest request body. JSON may need 12 bytes for a character (`\\ud83d\\ude00`); a pair has two texts."""
        return 2 * self.texts * (12 * self.characters + 100) + 100_000 + PICTURE_CHARACTERS
