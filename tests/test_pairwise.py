"""The pairwise sample that the tests of all combinations of kinds are built on."""

from __future__ import annotations

from itertools import combinations, product

from pairwise import pairwise_sample


def pairs(rows: list[tuple[int, ...]]) -> set[tuple[tuple[int, int], ...]]:
    return {pair for row in rows for pair in combinations(enumerate(row), 2)}


def test_a_sample_has_every_pair_and_few_rows() -> None:
    rows = list(product(range(7), range(5), range(3), range(2), range(2)))
    sample = pairwise_sample(rows)
    assert set(sample) <= set(rows)
    assert pairs(sample) == pairs(rows)
    assert 7 * 5 <= len(sample) <= 7 * 5 + 7 < len(rows) / 8


def test_impossible_rows_are_not_needed() -> None:
    rows = [row for row in product(range(4), repeat=4) if sum(row) % 3 and row[0] <= row[3]]
    assert pairs(pairwise_sample(rows)) == pairs(rows)
