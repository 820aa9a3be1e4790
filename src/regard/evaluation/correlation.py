"""Rank correlations: whether two measures put the same positions in the same order. Ties are allowed.

Both coefficients are 1 for the same order, −1 for the reverse and about 0 for unrelated orders. A constant has no
order, so its correlation is None. The coefficients are scipy's; the module is imported only where they are needed,
since importing `scipy.stats` takes about a second.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats


def spearman(values: ArrayLike, others: ArrayLike) -> float | None:
    """Spearman's ρ, the linear correlation of the ranks r and s; None if either side is constant.

    ρ = Σ (r − mean) (s − mean) / √(Σ (r − mean)² · Σ (s − mean)²)

    Args:
        values: One value for each position.
        others: Another value for each of the same positions.
    """
    x, y = _as_vectors(values, others)
    return None if _is_constant(x, y) else _clip(stats.spearmanr(x, y).statistic)


def kendall(values: ArrayLike, others: ArrayLike) -> float | None:
    """Kendall's τ-b: how often two positions are in the same order in both; None if either side is constant.

    τ_b = (C − D) / √(N · N')

    Of all pairs of positions, C are in the same order and D in opposite orders; N are not tied in the values, N' not
    tied in the others.

    Args:
        values: One value for each position.
        others: Another value for each of the same positions.
    """
    x, y = _as_vectors(values, others)
    return None if _is_constant(x, y) else _clip(stats.kendalltau(x, y).statistic)


def same_top_position(values: ArrayLike, others: ArrayLike) -> float | None:
    """1 if both are highest at the same position, else 0; None if either is constant. Of equals, the first counts.

    Args:
        values: One value for each position.
        others: Another value for each of the same positions.
    """
    x, y = _as_vectors(values, others)
    return None if _is_constant(x, y) else float(x.argmax() == y.argmax())


def _as_vectors(values: ArrayLike, others: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    x, y = np.asarray(values, dtype=float), np.asarray(others, dtype=float)
    if x.ndim != 1 or x.shape != y.shape or not len(x):
        raise ValueError(f"expected two non-empty vectors of equal length, not {list(x.shape)} and {list(y.shape)}")
    return x, y


def _is_constant(x: NDArray[np.float64], y: NDArray[np.float64]) -> bool:
    return bool(np.ptp(x) == 0 or np.ptp(y) == 0)


def _clip(coefficient: float) -> float:
    return float(min(1.0, max(-1.0, coefficient)))  # rounding may exceed 1
