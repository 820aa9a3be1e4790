"""Sampling with temperature, top-k and top-p.

Shapes: [sentences, width] for hypotheses, [sentences, width, vocabulary] for their extensions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.devices import float64_device
from regard.search.selection import Selection, to_rows, top_values


@dataclass(frozen=True)
class Sampling:
    """Selector that samples one extension of each hypothesis from softmax(z / temperature).

    Each sample consumes one given random number, so that a sentence's samples do not depend on the rest of the batch.

    Args:
        random_numbers: [sentences, hypotheses, steps], uniform in [0, 1), on the CPU.
        temperature: Divides the logits z.
        top_k: Sample from the k most probable tokens; None samples from all.
        top_p: Sample from the fewest most probable tokens with at least this total probability.
    """

    random_numbers: Tensor
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0

    def __call__(self, logits: Tensor, totals: Tensor, sentences: Tensor, step: int) -> Selection:
        tokens = self.sample_tokens(logits, self.random_numbers[sentences, :, step])
        # At the first step all samples extend the one empty hypothesis.
        hypotheses = torch.arange(tokens.shape[1], device=tokens.device).clamp(max=logits.shape[1] - 1)
        rows = to_rows(hypotheses.expand_as(tokens), logits)
        return Selection(rows, tokens, totals.flatten()[rows] + logits.flatten(0, 1)[rows, tokens])

    def sample_tokens(self, logits: Tensor, random_numbers: Tensor) -> Tensor:
        """Tokens [sentences, width], by inversion: the first whose cumulative probability exceeds the random number.

        Args:
            logits: [sentences, 1 or width, vocabulary].
            random_numbers: [sentences, width], uniform in [0, 1), on the CPU.
        """
        tokens = None
        if self.top_k is not None or self.top_p < 1:
            logits, tokens = top_values(logits, self.top_k or logits.shape[-1])
        # With the highest logit at 0, no exponential overflows.
        scaled = (logits - logits.amax(-1, keepdim=True)).to(float64_device(logits.device)).double() / self.temperature
        cumulative = scaled.softmax(-1).cumsum(-1)
        mass = cumulative[..., -1:]
        if self.top_p < 1:
            last = (cumulative < self.top_p * mass).sum(-1, keepdim=True)
            mass = cumulative.gather(-1, last)
        points = random_numbers.to(mass.device).unsqueeze(-1) * mass
        cumulative = cumulative.expand(-1, random_numbers.shape[1], -1)
        indices = torch.searchsorted(cumulative.contiguous(), points, right=True).to(logits.device)
        return (indices if tokens is None else tokens.expand_as(cumulative).gather(-1, indices)).squeeze(-1)
