"""Invariants of every search: greedy, beam, sampling, with constraints, with ensembles, over any decoder."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import chain, product
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.data import Example, collate
from regard.errors import UserError
from regard.nn.attention import Memory
from regard.search import Beam, Constraints, Ensemble, Hypothesis, SearchBatch, search
from regard.text import Vocabulary

END, A, B = Vocabulary.end, 4, 5
MAX_LENGTH = 6
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


# The result of a sentence does not depend on others


def assert_same_hypotheses(results: Sequence[list[Hypothesis]], expected: Sequence[list[Hypothesis]]) -> None:
    one, other = list(chain.from_iterable(results)), list(chain.from_iterable(expected))
    assert [each.tokens for each in one] == [each.tokens for each in other]
    assert [each.finished for each in one] == [each.finished for each in other]
    assert [each.attention.shape for each in one] == [each.attention.shape for each in other]
    for part in ("log_probabilities", "score", "attention"):
        values = [[torch.as_tensor(getattr(each, part)).flatten() for each in side] for side in (one, other)]
        torch.testing.assert_close(*map(torch.cat, values), **CLOSE)


def test_a_sentence_alone_gives_the_same_as_in_a_batch(bench, setting) -> None:
    for row in bench.rows[2::4]:
        assert_same_hypotheses(bench.search([row], setting), [bench.results(setting)[row]])


def test_the_order_of_a_large_batch_and_its_padding_change_nothing(bench, setting) -> None:
    order = bench.rows * 8
    Random(1).shuffle(order)
    assert_same_hypotheses(bench.search(order, setting, padding=5), [bench.results(setting)[row] for row in order])


def test_padding_alone_changes_nothing(bench, search_setting) -> None:
    beam = search_setting(5, 3, 0.6)
    for padding in (1, 20):
        assert_same_hypotheses(bench.search(bench.rows, beam, padding=padding), bench.results(beam))


def test_different_sentences_give_different_outputs(bench, setting) -> None:
    """Otherwise the tests above would prove little."""
    best = {(tuple(results[0].tokens), round(results[0].score, 3)) for results in bench.results(setting)}
    assert len(best) >= len(bench.rows) / 2


# Scores


def test_a_score_equals_that_of_rescoring_the_output(bench, setting) -> None:
    rows, results = zip(*bench.outcomes(setting), strict=True)
    log_probs, _ = bench.rescore(rows, [each.tokens[:-1] for each in results], setting.n_models)
    for each, own in zip(results, log_probs, strict=True):
        again = [float(own[step, token]) for step, token in enumerate(each.tokens)]
        assert each.log_probabilities == pytest.approx(again, abs=1e-5, rel=1e-5)
        assert each.score == pytest.approx(sum(again), abs=1e-5, rel=1e-5)


def test_a_score_equals_that_of_the_ensemble(bench, setting) -> None:
    rows, results = zip(*bench.outcomes(setting), strict=True)
    targets = [(bench.start_tokens[row], *each.tokens) for row, each in zip(rows, results, strict=True)]
    examples = [Example(tuple(bench.sources[row]), target) for row, target in zip(rows, targets, strict=True)]
    for each, log_probs in zip(results, bench.ensemble(setting).score(collate(examples)), strict=True):
        assert each.log_probabilities == pytest.approx(log_probs, abs=1e-5, rel=1e-5)


def test_a_sample_is_drawn_with_its_own_random_numbers(bench, naive, sampling) -> None:
    clear = 0
    for row, (results, draws) in enumerate(zip(bench.results(sampling), sampling.draws.tolist(), strict=True)):
        expected = naive.samples(bench.next_log_probs(row, sampling.n_models), sampling, draws)
        if expected.clear:
            clear += 1
            expected.assert_matches(results)
    assert clear >= 6, "of 8"


# Number and order of hypotheses


def test_hypotheses_of_a_beam_are_distinct_and_as_many_as_n_best(bench, beam) -> None:
    for results in bench.results(beam):
        assert len({tuple(each.tokens) for each in results}) == len(results) == beam.n_best


def test_hypotheses_are_sorted_best_first(bench, beam) -> None:
    for results in bench.results(beam):
        generated = [
            [each.tokens[:position].count(token) > 0 for position, token in enumerate(each.tokens)] for each in results
        ]
        penalties = [sum(again[len(beam.rules.prefix) :]) for again in generated]
        logarithm = torch.tensor(beam.rules.repetition_penalty).log().item()
        ranks = [
            (each.finished, (each.score - penalty * logarithm) / ((5 + len(each.tokens)) / 6) ** beam.length_penalty)
            for each, penalty in zip(results, penalties, strict=True)
        ]
        assert ranks == sorted(ranks, reverse=True)


def test_a_beam_returns_fewer_than_n_best_only_if_no_more_exist(bench, search_setting) -> None:
    """Of three tokens and an end, up to 4 of them: 1 + 3 + 9 + 27 that end, and 81 that are truncated."""
    three, one = bench.search([1, 3], search_setting(width=108, n_best=500), longest=[4, 1])
    assert len({tuple(each.tokens) for each in three}) == len(three) == 121
    assert [each.finished for each in three] == [True] * 40 + [False] * 81
    assert {tuple(each.tokens) for each in one} == {(END,), (4,), (5,), (6,)}


# Maximum lengths


def test_each_sentence_stops_at_its_own_maximum_length(bench, setting) -> None:
    limits = [1, 2, 3, 4, 5, 6, 3, 1]
    for limit, results in zip(limits, bench.search(bench.rows, setting, longest=limits), strict=True):
        for each in results:
            assert len(each.tokens) == len(each.log_probabilities) == each.attention.shape[-2] <= limit
            assert END not in each.tokens[:-1]
            assert each.finished == (each.tokens[-1] == END)
            assert each.finished or len(each.tokens) == limit


def test_truncated_hypotheses_come_after_finished_ones_and_fill_the_list(table, search_setting) -> None:
    log_probs = {(): {A: 0.99, END: 0.01}, (A, B): {A: 0.7, B: 0.3}}
    fixed = table.fixed(log_probs, otherwise={A: 0.6, B: 0.4})
    (results,) = fixed.search(search_setting(4, n_best=4), [3])
    assert [each.tokens for each in results] == [[END], [A, A, A], [A, B, A], [A, A, B]]
    assert [each.finished for each in results] == [True, False, False, False]


def test_a_prefix_that_is_too_long_is_truncated(bench, search_setting) -> None:
    setting = search_setting(3, n_best=3, rules=Constraints(prefix=(4, 4, 6)))
    for (results,), limit in zip(bench.search([0, 1], setting, longest=[2, 3]), (2, 3), strict=True):
        assert (results.tokens, results.finished) == ([4, 4, 6][:limit], False)


# Cost


class RecordingEnsemble(Ensemble):
    """An ensemble that records its input at each step."""

    def __init__(self, models: Any) -> None:
        super().__init__(models)
        self.rows: list[int] = []
        self.states: list[Any] = []

    def step(self, token: Tensor, state: Any) -> Any:
        self.rows.append(len(token))
        self.states.append(state.members[0])
        return super().step(token, state)


def memories(state: Any) -> Iterator[tuple[tuple[str, int], Memory]]:
    for each in fields(state):
        value = getattr(state, each.name)
        for position, part in enumerate(value if isinstance(value, tuple) else (value,)):
            if isinstance(part, Memory):
                yield (each.name, position), part


def test_finished_sentences_leave_the_batch(bench, search_setting) -> None:
    recorder, greedy = RecordingEnsemble(bench.models[:1]), search_setting()
    ((*results,),) = zip(*search(recorder, bench.search_batch(bench.rows, greedy), Beam(1)).hypotheses(), strict=True)
    expected = [sum(len(each.tokens) > step for each in results) for step in range(MAX_LENGTH)]
    assert recorder.rows == expected
    assert len(set(expected)) > 1, "some sentences leave earlier than others"


@pytest.mark.parametrize("width", [1, 4])
def test_source_memory_is_stored_once_for_all_hypotheses(bench, search_setting, width: int) -> None:
    """Only their limits end these sentences: 8, 7, 6, 6, 4 and 4 of them take a step."""
    recorder, setting = RecordingEnsemble(bench.models[:1]), search_setting(width, rules=Constraints(min_length=9))
    search(recorder, bench.search_batch(bench.rows, setting, longest=[2, 6, 4, 6, 1, 4, 6, 6]), Beam(width))
    assert recorder.rows == [8, *(sentences * width for sentences in (7, 6, 6, 4, 4))]
    names = [name for name, _ in memories(recorder.states[0])]
    assert names, "a decoder has read the source before its first step"
    kept = [[memory for name, memory in memories(state) if name in names] for state in recorder.states]
    for sentences, step in zip((8, 7, 6, 6, 4, 4), kept, strict=True):
        assert {len(part) for memory in step for part in (memory.keys, memory.values, memory.valid)} == {sentences}
    addresses = [[memory.keys.data_ptr() for memory in step] for step in kept]
    assert addresses[3] == addresses[2], "nothing is copied while no sentence leaves"
    assert addresses[5] == addresses[4]


def test_a_beam_uses_width_decoder_rows_per_sentence(table, search_setting) -> None:
    """Sentences end after as many tokens as their limits allow: nothing else ends them."""
    never_ending = table.drawn(seed=2)
    never_ending.search(search_setting(3, rules=Constraints(min_length=9)), [1, 4, 2, 4])
    assert never_ending.rows == [4, 3 * 3, 3 * 2, 3 * 2]


# Invalid weights


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_raise_a_user_error(bench, search_setting, number: float) -> None:
    broken = copy.deepcopy(bench.models[0])
    for parameter in broken.parameters():
        parameter.fill_(number)
    for models, setting in product(
        ([broken], [bench.models[1], broken]), (search_setting(3, 2, 0.6), search_setting(n_best=2, temperature=1.0))
    ):
        with pytest.raises(UserError, match="not finite"):
            search(Ensemble(models), bench.search_batch(bench.rows, setting), setting.selector(bench.rows))


# The rank


def test_a_rank_is_the_total_divided_by_the_length_penalty() -> None:
    no_tensor = torch.zeros(1, 1, dtype=torch.long)
    batch = SearchBatch(no_tensor, no_tensor == 0, no_tensor[0], no_tensor[0], length_penalty=0.5)
    ranks = batch.rank(torch.tensor([-3.0, -3.0, -6.0]), torch.tensor([1, 19, 49]))
    assert ranks.tolist() == pytest.approx([-3.0, -1.5, -2.0])
