"""Constraints on outputs: banned tokens, a prefix, a minimum length, and no repetition.

Shapes: [rows, vocabulary] for logits, [rows, steps] for the output of each row so far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.text import Vocabulary


@dataclass(frozen=True)
class Constraints:
    """Which tokens are allowed at a step. Constraints change the selection, not the reported log-probabilities.

    Args:
        banned_tokens: Token ids that are never selected.
        prefix: Token ids that every output starts with; no other constraint applies to them.
        min_length: Minimum number of tokens, `<end>` not counted.
        block_ngrams: No n-gram of this many tokens is repeated; 0 allows all.
        repetition_penalty: Divides the probability of a token that the output already contains.
    """

    banned_tokens: tuple[int, ...] = (Vocabulary.pad, Vocabulary.begin, Vocabulary.unknown)
    prefix: tuple[int, ...] = ()
    min_length: int = 0
    block_ngrams: int = 0
    repetition_penalty: float = 1.0

    def apply(self, logits: Tensor, outputs: Tensor) -> Tensor:
        """The logits to select by, -∞ for tokens that are not allowed; a row without any allowed token may end.

        To save a copy, `logits` may be changed in place at tokens that are not allowed, which are never selected.

        Args:
            logits: [rows, vocabulary].
            outputs: [rows, steps], the output tokens so far.
        """
        step = outputs.shape[1]
        if step < len(self.prefix):
            forced = torch.full_like(logits, -math.inf)
            forced[:, self.prefix[step]] = logits[:, self.prefix[step]]
            return forced
        end = logits[:, Vocabulary.end].clone()
        if self.repetition_penalty != 1:
            logits = logits.scatter(1, outputs, logits.gather(1, outputs) - math.log(self.repetition_penalty))
        logits[:, self.banned_tokens] = -math.inf
        if step < self.min_length:
            logits[:, Vocabulary.end] = -math.inf
        if self.block_ngrams and step >= self.block_ngrams:
            self._block_repeated_ngrams(logits, outputs)
            blocked = logits.amax(1) == -math.inf
            logits[:, Vocabulary.end] = torch.where(blocked, end, logits[:, Vocabulary.end])
        return logits

    def _block_repeated_ngrams(self, logits: Tensor, outputs: Tensor) -> None:
        """Set the logits of tokens that would complete an n-gram of the output again to -∞."""
        ngrams = outputs.unfold(1, self.block_ngrams, 1)  # [rows, n-grams, n]
        last = outputs[:, outputs.shape[1] - self.block_ngrams + 1 :].unsqueeze(1)  # the last n − 1 tokens
        repeated = (ngrams[..., :-1] == last).all(-1)
        penalties = torch.zeros_like(repeated, dtype=logits.dtype).masked_fill(repeated, -math.inf)
        logits.scatter_add_(1, ngrams[..., -1], penalties)


NO_CONSTRAINTS = Constraints()
