"""Combinations of kinds for tests: pairwise by default, the full product with REGARD_TEST_FULL=1 (`make test-full`).

A pairwise sample contains every pair of values of any two axes at least once, which is where most faults of combined
parts show, with far fewer combinations than the product has.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import product
from typing import Any

from allpairspy import AllPairs

FULL = os.environ.get("REGARD_TEST_FULL", "0") == "1"


def combinations(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """All combinations of the values of several axes, or a subset of them with every pair of values.

    Args:
        axes: The values of each axis.
    """
    if FULL or len(axes) < 3:
        return list(product(*axes))
    return pairwise_sample(*axes)


def pairwise_sample(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """A subset of the product of `axes` with every pair of values of any two axes."""
    indices = AllPairs([list(range(len(axis))) for axis in axes])
    return [tuple(axis[index] for axis, index in zip(axes, row, strict=True)) for row in indices]
