"""What holds for every search: greedy, with beams, by sampling, with rules, by vote, over any decoder."""

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
LONGEST = 6
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


# What one sentence gives does not depend on others


def same(found: Sequence[list[Hypothesis]], expected: Sequence[list[Hypothesis]]) -> None:
    one, other = list(chain.from_iterable(found)), list(chain.from_iterable(expected))
    assert [each.tokens for each in one] == [each.tokens for each in other]
    assert [each.finished for each in one] == [each.finished for each in other]
    assert [each.attention.shape for each in one] == [each.attention.shape for each in other]
    for part in ("log_probabilities", "score", "attention"):
        numbers = [[torch.as_tensor(getattr(each, part)).flatten() for each in side] for side in (one, other)]
        torch.testing.assert_close(*map(torch.cat, numbers), **CLOSE)


def test_a_sentence_alone_gives_what_it_gives_in_company(bench, manner) -> None:
    for row in bench.rows[2::4]:
        same(bench.search([row], manner), [bench.found(manner)[row]])


def test_the_order_of_a_large_batch_and_its_padding_change_nothing(bench, manner) -> None:
    order = bench.rows * 8
    Random(1).shuffle(order)
    same(bench.search(order, manner, padding=5), [bench.found(manner)[row] for row in order])


def test_padding_alone_changes_nothing(bench, manner_of) -> None:
    beam = manner_of(5, 3, 0.6)
    for padding in (1, 20):
        same(bench.search(bench.rows, beam, padding=padding), bench.found(beam))


def test_different_sentences_give_different_outputs(bench, manner) -> None:
    """Or the tests above would prove little."""
    best = {(tuple(found[0].tokens), round(found[0].score, 3)) for found in bench.found(manner)}
    assert len(best) >= len(bench.rows) / 2


# What is reported is true


def test_a_score_is_that_of_the_output_read_again(bench, manner) -> None:
    rows, found = zip(*bench.outcomes(manner), strict=True)
    chances, _ = bench.read(rows, [each.tokens[:-1] for each in found], manner.voters)
    for each, own in zip(found, chances, strict=True):
        again = [float(own[step, token]) for step, token in enumerate(each.tokens)]
        assert each.log_probabilities == pytest.approx(again, abs=1e-5, rel=1e-5)
        assert each.score == pytest.approx(sum(again), abs=1e-5, rel=1e-5)


def test_a_score_is_that_of_the_ensemble(bench, manner) -> None:
    rows, found = zip(*bench.outcomes(manner), strict=True)
    targets = [(bench.firsts[row], *each.tokens) for row, each in zip(rows, found, strict=True)]
    examples = [Example(tuple(bench.sources[row]), target) for row, target in zip(rows, targets, strict=True)]
    for each, chances in zip(found, bench.ensemble(manner).score(collate(examples)), strict=True):
        assert each.log_probabilities == pytest.approx(chances, abs=1e-5, rel=1e-5)


def test_a_sample_is_drawn_by_its_own_numbers(bench, naive, sampling) -> None:
    clear = 0
    for row, (found, draws) in enumerate(zip(bench.found(sampling), sampling.draws.tolist(), strict=True)):
        expected = naive.samples(bench.after(row, sampling.voters), sampling, draws)
        if expected.clear:
            clear += 1
            expected.check(found)
    assert clear >= 6, "of 8"


# How many there are, and in which order


def test_hypotheses_of_a_beam_are_distinct_and_as_many_as_are_wanted(bench, beam) -> None:
    for found in bench.found(beam):
        assert len({tuple(each.tokens) for each in found}) == len(found) == beam.n_best


def test_the_best_come_first(bench, beam) -> None:
    for found in bench.found(beam):
        said = [[each.tokens[:place].count(token) > 0 for place, token in enumerate(each.tokens)] for each in found]
        penalties = [sum(again[len(beam.rules.prefix) :]) for again in said]
        logarithm = torch.tensor(beam.rules.repetition_penalty).log().item()
        ranks = [
            (each.finished, (each.score - penalty * logarithm) / ((5 + len(each.tokens)) / 6) ** beam.length_penalty)
            for each, penalty in zip(found, penalties, strict=True)
        ]
        assert ranks == sorted(ranks, reverse=True)


def test_a_beam_finds_fewer_only_if_there_are_no_more(bench, manner_of) -> None:
    """Of three tokens and an end, up to 4 of them: 1 + 3 + 9 + 27 that end, and 81 that are cut off."""
    three, one = bench.search([1, 3], manner_of(width=108, n_best=500), longest=[4, 1])
    assert len({tuple(each.tokens) for each in three}) == len(three) == 121
    assert [each.finished for each in three] == [True] * 40 + [False] * 81
    assert {tuple(each.tokens) for each in one} == {(END,), (4,), (5,), (6,)}


# How long an output may be


def test_each_sentence_stops_at_its_own_longest(bench, manner) -> None:
    limits = [1, 2, 3, 4, 5, 6, 3, 1]
    for limit, found in zip(limits, bench.search(bench.rows, manner, longest=limits), strict=True):
        for each in found:
            assert len(each.tokens) == len(each.log_probabilities) == each.attention.shape[-2] <= limit
            assert END not in each.tokens[:-1]
            assert each.finished == (each.tokens[-1] == END)
            assert each.finished or len(each.tokens) == limit


def test_what_is_cut_off_comes_behind_what_is_finished_and_fills_the_list(table, manner_of) -> None:
    chances = {(): {A: 0.99, END: 0.01}, (A, B): {A: 0.7, B: 0.3}}
    fixed = table.fixed(chances, otherwise={A: 0.6, B: 0.4})
    (found,) = fixed.search(manner_of(4, n_best=4), [3])
    assert [each.tokens for each in found] == [[END], [A, A, A], [A, B, A], [A, A, B]]
    assert [each.finished for each in found] == [True, False, False, False]


def test_a_prefix_that_is_too_long_is_cut_off(bench, manner_of) -> None:
    manner = manner_of(3, n_best=3, rules=Constraints(prefix=(4, 4, 6)))
    for (found,), limit in zip(bench.search([0, 1], manner, longest=[2, 3]), (2, 3), strict=True):
        assert (found.tokens, found.finished) == ([4, 4, 6][:limit], False)


# What it costs


class Spy(Ensemble):
    """Remembers what it was given at each step."""

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
        for place, part in enumerate(value if isinstance(value, tuple) else (value,)):
            if isinstance(part, Memory):
                yield (each.name, place), part


def test_finished_sentences_leave_the_batch(bench, manner_of) -> None:
    spy, greedy = Spy(bench.models[:1]), manner_of()
    ((*found,),) = zip(*search(spy, bench.ask(bench.rows, greedy), Beam(1)).hypotheses(), strict=True)
    expected = [sum(len(each.tokens) > step for each in found) for step in range(LONGEST)]
    assert spy.rows == expected
    assert len(set(expected)) > 1, "some leave earlier than others"


@pytest.mark.parametrize("width", [1, 4])
def test_what_was_read_of_a_source_is_kept_once_for_all_its_hypotheses(bench, manner_of, width: int) -> None:
    """Only their limits end these sentences: 8, 7, 6, 6, 4 and 4 of them take a step."""
    spy, manner = Spy(bench.models[:1]), manner_of(width, rules=Constraints(min_length=9))
    search(spy, bench.ask(bench.rows, manner, longest=[2, 6, 4, 6, 1, 4, 6, 6]), Beam(width))
    assert spy.rows == [8, *(sentences * width for sentences in (7, 6, 6, 4, 4))]
    names = [name for name, _ in memories(spy.states[0])]
    assert names, "a decoder has read the source before its first step"
    kept = [[memory for name, memory in memories(state) if name in names] for state in spy.states]
    for sentences, step in zip((8, 7, 6, 6, 4, 4), kept, strict=True):
        assert {len(part) for memory in step for part in (memory.keys, memory.values, memory.valid)} == {sentences}
    addresses = [[memory.keys.data_ptr() for memory in step] for step in kept]
    assert addresses[3] == addresses[2], "nothing is copied while no sentence leaves"
    assert addresses[5] == addresses[4]


def test_a_beam_gives_a_decoder_as_many_rows_as_it_is_wide_for_each_sentence(table, manner_of) -> None:
    """Sentences end after as many tokens as their limits allow: nothing else ends them."""
    never_ending = table.drawn(seed=2)
    never_ending.search(manner_of(3, rules=Constraints(min_length=9)), [1, 4, 2, 4])
    assert never_ending.rows == [4, 3 * 3, 3 * 2, 3 * 2]


# What cannot be searched


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_a_users_error(bench, manner_of, number: float) -> None:
    broken = copy.deepcopy(bench.models[0])
    for parameter in broken.parameters():
        parameter.fill_(number)
    for models, manner in product(
        ([broken], [bench.models[1], broken]), (manner_of(3, 2, 0.6), manner_of(n_best=2, temperature=1.0))
    ):
        with pytest.raises(UserError, match="not finite"):
            search(Ensemble(models), bench.ask(bench.rows, manner), manner.chooser(bench.rows))


# The rank


def test_a_rank_is_the_total_by_the_length_penalty() -> None:
    nothing = torch.zeros(1, 1, dtype=torch.long)
    question = SearchBatch(nothing, nothing == 0, nothing[0], nothing[0], length_penalty=0.5)
    ranks = question.rank(torch.tensor([-3.0, -3.0, -6.0]), torch.tensor([1, 19, 49]))
    assert ranks.tolist() == pytest.approx([-3.0, -1.5, -2.0])
