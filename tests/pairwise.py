"""Samples of all combinations of kinds: pairwise by default, the full product with REGARD_TEST_FULL=1.

A pairwise sample contains every two values that occur together in some combination, which is where most faults of
combined parts show, with far fewer combinations than the product has.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Hashable, Iterable
from itertools import combinations
from typing import TypeVar

FULL = os.environ.get("REGARD_TEST_FULL", "0") == "1"

Row = TypeVar("Row", bound=tuple[Hashable, ...])


def pairwise_sample(rows: Iterable[Row]) -> list[Row]:
    """A subset of `rows` in which every two values that occur together in some row do so, too.

    Written here because the libraries for this (such as allpairspy) miss possible pairs where some combinations are
    impossible.

    Args:
        rows: Combinations of one value per axis, such as a product without what is impossible.
    """
    chosen, covered = [], set()
    pairs = {row: set(combinations(enumerate(row), 2)) for row in rows}
    # Greedy: next is the row with the most new pairs. What a row adds only shrinks, so stale counts are upper bounds.
    heap = [(-len(found), index, row) for index, (row, found) in enumerate(pairs.items())]
    heapq.heapify(heap)
    while heap:
        bound, index, row = heapq.heappop(heap)
        new = len(pairs[row] - covered)
        if new and new < -bound:
            heapq.heappush(heap, (-new, index, row))
        elif new:
            chosen.append(row)
            covered |= pairs[row]
    return chosen
