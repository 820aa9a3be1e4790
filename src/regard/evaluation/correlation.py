"""Do two measures put the same things in the same order? Rank correlations, with ties.

Both are 1 where the orders are the same, −1 where one is the other reversed, and about 0 where they have nothing to do
with each other. A measure that is the same everywhere has no order: there is no correlation with it, which is None.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray


def ranks(values: ArrayLike) -> NDArray[np.float64]:
    """The place of each value in their order, from 1; equal values share the mean of their places."""
    _, which, counts = np.unique(np.asarray(values, dtype=float), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)  # the last place of each different value
    return (last - (counts - 1) / 2)[which]


def spearman(values: ArrayLike, others: ArrayLike) -> float | None:
    """Spearman's ρ: the correlation of the ranks r and s.

    ρ = Σ (r − mean) (s − mean) / √(Σ (r − mean)² · Σ (s − mean)²)
    """
    r, s = _pair(ranks(values), ranks(others))
    r, s = r - r.mean(), s - s.mean()
    return _ratio(float(r @ s), float(r @ r), float(s @ s))


def kendall(values: ArrayLike, others: ArrayLike) -> float | None:
    """Kendall's τ-b: of two places, do both measures name the same one as the greater?

    τ_b = (C − D) / √(N · N')

    Of all pairs of places, C are in the same order and D in opposite orders; N are not ties in the values, N' not ties
    in the others.
    """
    x, y = _pair(np.asarray(values, dtype=float), np.asarray(others, dtype=float))
    one, other = np.sign(x[:, None] - x), np.sign(y[:, None] - y)  # [places, places]: each pair twice
    return _ratio(float((one * other).sum()), float((one != 0).sum()), float((other != 0).sum()))


def same_top_position(values: ArrayLike, others: ArrayLike) -> float | None:
    """1 if both measures are highest at the same place, else 0; of equal ones, the first place counts."""
    x, y = _pair(np.asarray(values, dtype=float), np.asarray(others, dtype=float))
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(x.argmax() == y.argmax())


def _pair(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if x.ndim != 1 or x.shape != y.shape or not len(x):
        raise ValueError(f"two measures of the same places have one length each: {list(x.shape)}, {list(y.shape)}")
    return x, y


def _ratio(common: float, own: float, others: float) -> float | None:
    if not own or not others:
        return None
    return min(1.0, max(-1.0, common / math.sqrt(own * others)))  # within these but for rounding
