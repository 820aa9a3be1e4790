"""What attention did at earlier steps, for mechanisms whose scores depend on it.

Symbols: t step, α_k weights of step k. A decoder keeps an `AttentionHistory` in its state and extends it after each
call of the mechanism. A mechanism gets it as the queries of one call see it, a `QueryHistory`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.nn.normalizers import at_least_float32


@dataclass(frozen=True)
class QueryHistory:
    """The steps before the queries of one call, in which hypotheses that share a memory are additional queries.

    Args:
        first_step: Number of steps before the first one of this call.
        steps: Number of steps of this call.
        share: Number of hypotheses for each row of the memory; there are `share` · `steps` queries in a row.
        weights: α_{t-1}, [batch, (heads,) queries, positions]; None at the first step, or if the mechanism does not use
            its history.
        coverage: Σ_{k<t} α_k, of the same shape; None like `weights`.
    """

    first_step: int
    steps: int
    share: int
    weights: Tensor | None
    coverage: Tensor | None

    def step_numbers(self, device: torch.device) -> Tensor:
        """The step t of each query, counted from 0, [queries].

        Args:
            device: A PyTorch device.
        """
        return torch.arange(self.first_step, self.first_step + self.steps, device=device).repeat(self.share)


@dataclass(frozen=True)
class AttentionHistory:
    """The steps so far, of one mechanism in a decoder. A row is a hypothesis.

    Args:
        steps: Number of steps.
        weights: α_{t-1}, the weights of the latest step, [rows, (heads,) positions]; None before the first step, or if
            the mechanism does not use its history.
        coverage: Σ_{k<t} α_k, the weights of all steps so far (Tu et al. 2016), of the same shape; None like `weights`.
    """

    steps: int = 0
    weights: Tensor | None = None
    coverage: Tensor | None = None

    def extend(self, weights: Tensor) -> AttentionHistory:
        """The history after more steps, in at least float32.

        Args:
            weights: The weights of these steps, [rows, (heads,) steps, positions].
        """
        weights = at_least_float32(weights)
        coverage = weights.sum(-2)
        if self.coverage is not None:
            coverage = self.coverage + coverage
        return AttentionHistory(self.steps + weights.shape[-2], weights.select(-2, -1), coverage)

    def select(self, rows: Tensor) -> AttentionHistory:
        """The history of other hypotheses.

        Args:
            rows: Row indices, [selected rows].
        """
        if self.weights is None or self.coverage is None:
            return self
        return AttentionHistory(self.steps, self.weights.index_select(0, rows), self.coverage.index_select(0, rows))

    def of_queries(self, steps: int, share: int, dtype: torch.dtype | None = None) -> QueryHistory:
        """The history as the queries of one call see it.

        Args:
            steps: Number of steps of the call; 1 if the history has weights.
            share: Number of hypotheses for each row of the memory.
            dtype: The type of the weights that the queries see, which is theirs; None: that in which they are summed.
        """
        if self.weights is None or self.coverage is None:
            return QueryHistory(self.steps, steps, share, None, None)
        weights, coverage = (
            part.to(dtype or part.dtype).unflatten(0, (-1, share)).movedim(1, -2)
            for part in (self.weights, self.coverage)
        )  # [batch, (heads,) share, positions]
        return QueryHistory(self.steps, steps, share, weights, coverage)


NO_HISTORY = AttentionHistory()
