"""What may be said, and what had better not be said again.

Shapes: [rows, vocabulary] for logits, [rows, steps] for what each row has said so far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.text import Vocabulary

NEVER = -math.inf


@dataclass(frozen=True)
class Constraints:
    """Which tokens compete at a step. Rules change what is chosen, not what the model thinks of it."""

    banned_tokens: tuple[int, ...] = (Vocabulary.pad, Vocabulary.begin, Vocabulary.unknown)  # what is not for saying
    prefix: tuple[int, ...] = ()  # what every output begins with; no other rule applies to it
    min_length: int = 0  # tokens, without `<end>`
    block_ngrams: int = 0  # no sequence of so many tokens is said twice; 0: no such rule
    repetition_penalty: float = 1.0  # what the probability of a token is divided by once it has been said

    def apply(self, logits: Tensor, said: Tensor) -> Tensor:
        """The logits by which tokens compete, -∞ for what is forbidden; where that is everything, a row may end.

        To save a copy, `logits` may be changed where a token is forbidden: nobody will ask for its chance.
        """
        step = said.shape[1]
        if step < len(self.prefix):
            forced = torch.full_like(logits, NEVER)
            forced[:, self.prefix[step]] = logits[:, self.prefix[step]]
            return forced
        end = logits[:, Vocabulary.end].clone()
        if self.repetition_penalty != 1:
            logits = logits.scatter(1, said, logits.gather(1, said) - math.log(self.repetition_penalty))
        logits[:, self.banned_tokens] = NEVER
        if step < self.min_length:
            logits[:, Vocabulary.end] = NEVER
        if self.block_ngrams and step >= self.block_ngrams:
            self._block_repetitions(logits, said)
            stuck = logits.amax(1) == NEVER
            logits[:, Vocabulary.end] = torch.where(stuck, end, logits[:, Vocabulary.end])
        return logits

    def _block_repetitions(self, logits: Tensor, said: Tensor) -> None:
        """Forbid what would complete an n-gram a second time."""
        ngrams = said.unfold(1, self.block_ngrams, 1)  # [rows, n-grams, n]
        latest = said[:, said.shape[1] - self.block_ngrams + 1 :].unsqueeze(1)  # the n − 1 latest tokens
        again = (ngrams[..., :-1] == latest).all(-1)
        logits.scatter_add_(1, ngrams[..., -1], torch.zeros_like(again, dtype=logits.dtype).masked_fill(again, NEVER))


NO_CONSTRAINTS = Constraints()
