"""The loss of R-Drop and its gradient, in one pass over a few rows at a time.

    L = ½ [CE(P) + CE(Q)] + α/2 · ½ [KL(P ‖ Q) + KL(Q ‖ P)]

with P = softmax(x), Q = softmax(z) and d = log P − log Q. The gradient for the logits x of one token is

    ∂/∂x CE(P) = P − y,    ∂/∂x [KL(P ‖ Q) + KL(Q ‖ P)] = P ∘ (d − Σ_w P(w) d(w)) + P − Q

where y is the smoothed reference; that for z follows by symmetry. PyTorch's own functions compute the same, but write
about ten tensors of [tokens, vocabulary] to memory, which took a sixth of a training step on a CPU. Here, rows stay in
the processor's cache, and only the gradient is stored.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

CACHED_VALUES = 2**18  # per tensor: 1 MB of float32


class RDropLoss(torch.autograd.Function):
    """The mean loss of the tokens, their cross-entropy and their consistency; only the loss has a gradient."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, references: Tensor, label_smoothing: float, weight: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The loss, the cross-entropy ½ [CE(P) + CE(Q)] and the consistency ½ [KL(P ‖ Q) + KL(Q ‖ P)].

        Args:
            ctx: Keeps the gradient.
            logits: x, followed by z, [2 · tokens, vocabulary].
            references: The target tokens, [tokens].
            label_smoothing: ε.
            weight: α.
        """
        tokens, words = len(references), logits.shape[-1]
        # float16 could not hold a gradient that is scaled up later.
        gradient = torch.empty_like(logits, dtype=torch.float32 if logits.dtype == torch.float16 else None)
        sums = logits.new_zeros(2, dtype=torch.float32)
        size = max(1, CACHED_VALUES // words) if logits.device.type == "cpu" else tokens
        both, both_gradients = logits.unflatten(0, (2, tokens)), gradient.unflatten(0, (2, tokens))
        for begin in range(0, tokens, size):
            rows = slice(begin, begin + size)
            x, z = both[0, rows].float(), both[1, rows].float()
            both_gradients[0, rows], both_gradients[1, rows], part = _loss_of_rows(
                log_softmax(x, -1), log_softmax(z, -1), references[rows].unsqueeze(1), label_smoothing, weight
            )
            sums += part
        ctx.save_for_backward(gradient.div_(tokens))
        cross_entropy, consistency = (sums / tokens).unbind()
        ctx.mark_non_differentiable(cross_entropy, consistency)
        return cross_entropy + weight / 2 * consistency, cross_entropy, consistency

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        """The gradient for the logits.

        Args:
            ctx: Has the gradient of the loss.
            gradients: Those for the results of `forward`.
        """
        (gradient,) = ctx.saved_tensors
        return gradient * gradients[0].to(gradient.dtype), None, None, None


def _loss_of_rows(
    log_p: Tensor, log_q: Tensor, references: Tensor, label_smoothing: float, weight: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients for x and z, and the sums of cross-entropy and consistency; `references` are [rows, 1]."""
    p, q = log_p.exp(), log_q.exp()
    difference = log_p - log_q
    forward_kl = (p * difference).sum(-1, keepdim=True)
    reverse_kl = -(q * difference).sum(-1, keepdim=True)
    consistency = (forward_kl + reverse_kl).sum() / 2
    likely = log_p.gather(1, references) + log_q.gather(1, references)
    spread = log_p.mean(-1) + log_q.mean(-1)
    cross_entropy = -((1 - label_smoothing) * likely.sum() + label_smoothing * spread.sum()) / 2

    def gradient(own: Tensor, other: Tensor, surplus: Tensor) -> Tensor:
        """½ (P − y) + α/4 [P ∘ (d − Σ P d) + P − Q], with d − Σ P d as `surplus`, which is overwritten."""
        result = surplus.mul_(weight / 4).add_(0.5 + weight / 4).mul_(own).sub_(other, alpha=weight / 4)
        result.sub_(label_smoothing / 2 / own.shape[-1])
        return result.scatter_add_(
            1, references, torch.full_like(references, -(1 - label_smoothing) / 2, dtype=own.dtype)
        )

    return (
        gradient(p, q, difference - forward_kl),
        gradient(q, p, -difference - reverse_kl),
        torch.stack([cross_entropy, consistency]),
    )
