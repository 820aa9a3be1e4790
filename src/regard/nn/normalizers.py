"""Normalizers: from scores to weights that are not negative and sum to 1.

Symbols: e scores, α weights; e_(1) ≥ e_(2) ≥ … the scores in descending order. Shapes: [..., positions].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import torch
from torch import Tensor

Normalizer = Literal["softmax", "sparsemax", "entmax15", "hard"]


def at_least_float32(values: Tensor) -> Tensor:
    """The values in float32 if their type is a smaller one, whose sums would not be exact enough.

    Args:
        values: Numbers of any floating-point type.
    """
    return values.to(torch.promote_types(values.dtype, torch.float32))


def softmax(scores: Tensor) -> Tensor:
    """α_i = exp(e_i) / Σ_k exp(e_k). No weight is 0.

    Args:
        scores: e, [..., positions].
    """
    return torch.softmax(scores, -1)


def sparsemax(scores: Tensor) -> Tensor:
    """α_i = max(e_i − θ, 0), with θ such that Σ_i α_i = 1 (Martins and Astudillo 2016).

    The nearest point to e on the probability simplex. The positive weights are those of the s highest scores, where s
    is the largest k with 1 + k e_(k) > Σ_{j≤k} e_(j), and θ = (Σ_{j≤s} e_(j) − 1) / s.

    Args:
        scores: e, [..., positions].
    """
    scores = _shift(scores)
    ranked, ranks = _rank(scores)
    sums = ranked.cumsum(-1)
    support = (1 + ranks * ranked > sums).sum(-1, keepdim=True)  # s
    threshold = (sums.gather(-1, support - 1) - 1) / support
    return torch.relu(scores - threshold)


def entmax15(scores: Tensor) -> Tensor:
    """α_i = max(e_i/2 − θ, 0)², with θ such that Σ_i α_i = 1 (Peters et al. 2019): entmax with α = 1.5.

    Between softmax and sparsemax: it can be 0, and it is smooth. For the s highest x = e/2, with mean M and variance V,
    θ = M − √((1 − s V) / s); s is the number of k for which the θ of the k highest is at most x_(k).

    Args:
        scores: e, [..., positions].
    """
    scores = _shift(scores) / 2
    ranked, ranks = _rank(scores)
    means = ranked.cumsum(-1) / ranks
    variances = ranked.square().cumsum(-1) / ranks - means.square()
    squared_gaps = (1 - ranks * variances) / ranks  # (M − θ)², negative beyond the support
    with torch.no_grad():
        support = (means - squared_gaps.clamp(min=0).sqrt() <= ranked).sum(-1, keepdim=True)  # s
    # The square root comes after the selection: its gradient at 0 is infinite, but (M − θ)² of the support is positive.
    threshold = means.gather(-1, support - 1) - squared_gaps.gather(-1, support - 1).sqrt()
    return torch.relu(scores - threshold).square()


def hard(scores: Tensor) -> Tensor:
    """α_i = 1 at the highest score, 0 elsewhere.

    The scores get the gradient of the softmax (straight-through), because that of argmax is 0 everywhere.

    Args:
        scores: e, [..., positions].
    """
    weights = torch.zeros_like(scores).scatter(-1, scores.argmax(-1, keepdim=True), 1.0)
    if scores.requires_grad:
        soft = softmax(scores)
        weights = weights + (soft - soft.detach())  # the difference is exactly 0
    return weights


NORMALIZERS: Mapping[Normalizer, Callable[[Tensor], Tensor]] = {
    "softmax": softmax,
    "sparsemax": sparsemax,
    "entmax15": entmax15,
    "hard": hard,
}


def _shift(scores: Tensor) -> Tensor:
    """The scores with a maximum of 0, which changes no weight, and without extreme ones, whose sums would overflow.

    A score 2 below the maximum has no weight, neither in sparsemax nor, as 4 before it is halved, in entmax15.
    """
    return (scores - scores.amax(-1, keepdim=True)).clamp(min=-4.0)


def _rank(scores: Tensor) -> tuple[Tensor, Tensor]:
    """The scores in descending order, and their ranks from 1, [positions]."""
    ranks = torch.arange(1, scores.shape[-1] + 1, dtype=scores.dtype, device=scores.device)
    return scores.sort(-1, descending=True).values, ranks
