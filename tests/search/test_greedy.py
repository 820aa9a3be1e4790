"""A beam of width 1 against a loop over one row that knows neither steps nor batches."""

from __future__ import annotations

import pytest

from regard.search import Constraints
from regard.text import Vocabulary

LONGEST = 6


@pytest.fixture(scope="module")
def found(bench, manner_of) -> list:
    return [best for (best,) in bench.found(manner_of())]


def test_it_always_says_the_likeliest_token_that_it_may_say(bench, found) -> None:
    for row, hypothesis in enumerate(found):
        said: list[int] = []
        while len(said) < LONGEST and Vocabulary.end not in said:
            chances, _ = bench.read([row], [said])
            allowed = [token for token in range(chances.shape[-1]) if token not in Constraints().banned_tokens]
            said.append(max(allowed, key=chances[0, -1].tolist().__getitem__))
        assert hypothesis.tokens == said
        assert hypothesis.finished == (said[-1] == Vocabulary.end)


@pytest.mark.parametrize("length_penalty", [0.3, 1.0, 2.0])
def test_a_length_penalty_changes_nothing(bench, found, manner_of, length_penalty: float) -> None:
    """There is nothing to compare with."""
    penalised = bench.search(bench.rows, manner_of(length_penalty=length_penalty))
    assert [best.tokens for (best,) in penalised] == [best.tokens for best in found]


def test_it_finds_one_hypothesis_however_many_are_wanted(bench, found, manner_of) -> None:
    wanted = bench.search(bench.rows, manner_of(n_best=3))
    assert [best.tokens for (best,) in wanted] == [best.tokens for best in found]


def test_each_row_stops_at_its_own_longest(bench, found, manner_of) -> None:
    limits = [1, 2, 3, 4, 5, 1, 2, 3]
    for full, (cut,), limit in zip(found, bench.search(bench.rows, manner_of(), longest=limits), limits, strict=True):
        assert cut.tokens == full.tokens[:limit]
        assert cut.finished == (full.finished and len(full.tokens) <= limit)


def test_end_is_said_once_and_last(found) -> None:
    assert {hypothesis.finished for hypothesis in found} == {True, False}
    for hypothesis in found:
        assert Vocabulary.end not in hypothesis.tokens[:-1]
        assert hypothesis.finished or len(hypothesis.tokens) == LONGEST
