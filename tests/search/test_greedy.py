"""A beam of width 1 against a loop over single rows, without state or batches."""

from __future__ import annotations

import pytest

from regard.search import Constraints
from regard.text import Vocabulary

MAX_LENGTH = 6


@pytest.fixture(scope="module")
def results(bench, search_setting) -> list:
    return [best for (best,) in bench.results(search_setting())]


def test_greedy_search_always_chooses_the_most_likely_allowed_token(bench, results) -> None:
    for row, hypothesis in enumerate(results):
        generated: list[int] = []
        while len(generated) < MAX_LENGTH and Vocabulary.end not in generated:
            log_probs, _ = bench.rescore([row], [generated])
            allowed = [token for token in range(log_probs.shape[-1]) if token not in Constraints().banned_tokens]
            generated.append(max(allowed, key=log_probs[0, -1].tolist().__getitem__))
        assert hypothesis.tokens == generated
        assert hypothesis.finished == (generated[-1] == Vocabulary.end)


@pytest.mark.parametrize("length_penalty", [0.3, 1.0, 2.0])
def test_a_length_penalty_does_not_change_greedy_search(bench, results, search_setting, length_penalty: float) -> None:
    """There is only one hypothesis to rank."""
    penalized = bench.search(bench.rows, search_setting(length_penalty=length_penalty))
    assert [best.tokens for (best,) in penalized] == [best.tokens for best in results]


def test_greedy_search_returns_one_hypothesis_for_any_n_best(bench, results, search_setting) -> None:
    n_best = bench.search(bench.rows, search_setting(n_best=3))
    assert [best.tokens for (best,) in n_best] == [best.tokens for best in results]


def test_each_row_stops_at_its_own_maximum_length(bench, results, search_setting) -> None:
    limits = [1, 2, 3, 4, 5, 1, 2, 3]
    for full, (cut,), limit in zip(
        results, bench.search(bench.rows, search_setting(), longest=limits), limits, strict=True
    ):
        assert cut.tokens == full.tokens[:limit]
        assert cut.finished == (full.finished and len(full.tokens) <= limit)


def test_end_occurs_once_and_last(results) -> None:
    assert {hypothesis.finished for hypothesis in results} == {True, False}
    for hypothesis in results:
        assert Vocabulary.end not in hypothesis.tokens[:-1]
        assert hypothesis.finished or len(hypothesis.tokens) == MAX_LENGTH
