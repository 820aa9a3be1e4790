"""Rules by hand, one by one, and all of them at once against a naive loop."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.search import Constraints
from regard.text import Vocabulary

TOKENS = 7
A, B, C = range(4, TOKENS)
EVERYTHING = {Vocabulary.end, A, B, C}  # that is for saying


def some_logits(rows: int = 1) -> Tensor:
    return torch.randn(rows, TOKENS, generator=torch.Generator().manual_seed(5))


def apply(rules: Constraints, *said: list[int]) -> Tensor:
    """By which logits tokens compete in rows that have said this."""
    return rules.apply(some_logits(len(said)), torch.tensor(said, dtype=torch.long).view(len(said), -1))


def allowed(rules: Constraints, said: list[int]) -> set[int]:
    (row,) = apply(rules, said)
    return set((row > -math.inf).nonzero().flatten().tolist())


# Each alone


@pytest.mark.parametrize("said", [[], [A], [B, B, A]])
def test_without_more_rules_all_but_three_special_tokens_compete_by_their_logits(said: list[int]) -> None:
    assert allowed(Constraints(), said) == EVERYTHING
    places = sorted(EVERYTHING)
    assert torch.equal(apply(Constraints(), said)[:, places], some_logits()[:, places])


def test_what_is_never_said_can_be_chosen() -> None:
    assert allowed(Constraints(banned_tokens=(A, Vocabulary.end)), [A]) == {
        Vocabulary.pad,
        Vocabulary.begin,
        Vocabulary.unknown,
        B,
        C,
    }
    assert allowed(Constraints(banned_tokens=()), []) == set(range(TOKENS))


def test_a_prefix_is_said_token_by_token() -> None:
    rules = Constraints(prefix=(B, A, B))
    assert allowed(rules, []) == {B}
    assert allowed(rules, [B]) == {A}
    assert allowed(rules, [B, A]) == {B}
    assert allowed(rules, [B, A, B]) == EVERYTHING


@pytest.mark.parametrize(
    "other",
    [{"banned_tokens": (A,)}, {"block_ngrams": 1}, {"block_ngrams": 2}, {"repetition_penalty": 3.0}, {"min_length": 5}],
    ids=lambda other: next(iter(other)),
)
def test_no_other_rule_applies_to_a_prefix(other: dict) -> None:
    rules = Constraints(prefix=(A, A, A, Vocabulary.end), **other)
    for step, token in enumerate(rules.prefix):
        expected = torch.full((1, TOKENS), -math.inf)
        expected[:, token] = some_logits()[:, token]
        assert torch.equal(apply(rules, [A] * step), expected)


def test_a_prefix_counts_as_said() -> None:
    assert allowed(Constraints(prefix=(A, B), block_ngrams=1), [A, B]) == {Vocabulary.end, C}
    assert allowed(Constraints(prefix=(A, B, A), block_ngrams=2), [A, B, A]) == {Vocabulary.end, A, C}
    competing = apply(Constraints(prefix=(A, B), repetition_penalty=2.0), [A, B])[0]
    torch.testing.assert_close(
        competing[[A, B, C]], some_logits()[0, [A, B, C]] - torch.tensor([1, 1, 0]) * math.log(2)
    )
    assert allowed(Constraints(prefix=(A, B), min_length=2), [A, B]) == EVERYTHING, "and towards the least length"


@pytest.mark.parametrize("least", [0, 1, 3])
def test_nothing_ends_before_its_least_length(least: int) -> None:
    for length in range(5):
        expected = EVERYTHING - {Vocabulary.end} if length < least else EVERYTHING
        assert allowed(Constraints(min_length=least), [A] * length) == expected


@pytest.mark.parametrize(
    ("n", "said", "forbidden"),
    [
        (1, [], set()),
        (1, [A, C, A], {A, C}),
        (2, [A], set()),
        (2, [A, A], {A}),
        (2, [A, B, A], {B}),
        (2, [A, B, A, C, A], {B, C}),
        (2, [A, B, C], set()),
        (3, [A, A], set()),
        (3, [A, A, A], {A}),
        (3, [A, B, C, A, B], {C}),
        (3, [A, B, C, B, B], set()),
    ],
)
def test_no_sequence_of_n_tokens_is_said_twice(n: int, said: list[int], forbidden: set[int]) -> None:
    assert allowed(Constraints(block_ngrams=n), said) == EVERYTHING - forbidden


def test_a_repetition_costs_the_logarithm_of_its_penalty_once_however_often_it_was_said() -> None:
    competing = apply(Constraints(repetition_penalty=3.0), [A, C, A, A])[0]
    expected = some_logits()[0] - torch.tensor([0, 0, 0, 0, 1, 0, 1]) * math.log(3)
    places = sorted(EVERYTHING)
    torch.testing.assert_close(competing[places], expected[places])
    assert allowed(Constraints(repetition_penalty=3.0), [A, C]) == EVERYTHING, "it has its price, and is not forbidden"


# Rows that have nothing left to say


def test_a_row_that_may_say_nothing_may_end_whatever_its_length() -> None:
    rules = Constraints(block_ngrams=1, min_length=5)
    competing = apply(rules, [A, B, C], [A, B, A])
    assert competing[0, Vocabulary.end] == some_logits(2)[0, Vocabulary.end], "at its own price"
    assert (competing[0] > -math.inf).sum() == 1
    assert (competing[1] > -math.inf).nonzero().flatten().tolist() == [C], "the other can still go on, and must"


def test_a_row_that_has_to_go_on_may_not_end_just_because_another_may() -> None:
    rules = Constraints(block_ngrams=2, min_length=11)
    stuck, free = [A, A, B, A, C, A], [A, A, B, B, C, A]
    assert allowed(rules, stuck) == {Vocabulary.end}
    competing = apply(rules, free, stuck)
    assert (competing[0] > -math.inf).nonzero().flatten().tolist() == [C]
    assert (competing[1] > -math.inf).nonzero().flatten().tolist() == [Vocabulary.end]


# Together


def naive(rules: Constraints, said: list[int]) -> set[int]:
    """What may come next, token by token."""
    if len(said) < len(rules.prefix):
        return {rules.prefix[len(said)]}
    n = rules.block_ngrams
    sequences = [said[begin : begin + n] for begin in range(len(said) - n + 1)] if n else []
    fine = []
    for token in set(range(TOKENS)) - set(rules.banned_tokens):
        too_early = token == Vocabulary.end and len(said) < rules.min_length
        if not too_early and [*said, token][-n:] not in sequences:
            fine.append(token)
    return set(fine) or {Vocabulary.end}


tokens = st.integers(A, C)
some_rules = st.builds(
    Constraints,
    prefix=st.lists(tokens, max_size=3).map(tuple),
    min_length=st.integers(0, 8),
    block_ngrams=st.integers(0, 3),
    repetition_penalty=st.sampled_from([1.0, 1.5, 7.0]),
)
# Rows that are equally long; what a row of a search has said begins with the prefix, but no rule relies on that.
some_said = st.integers(0, 9).flatmap(
    lambda n: st.lists(st.lists(tokens, min_size=n, max_size=n), min_size=1, max_size=3)
)


@settings(derandomize=True, max_examples=400)
@given(some_rules, some_said)
def test_all_rules_together_are_those_of_a_naive_loop(rules: Constraints, said: list[list[int]]) -> None:
    original = some_logits(len(said))
    given_logits = original.clone()
    competing = rules.apply(given_logits, torch.tensor(said, dtype=torch.long).view(len(said), -1))
    for row, own in enumerate(said):
        fine = naive(rules, own)
        forced = len(own) < len(rules.prefix)
        for token in range(TOKENS):
            price = math.log(rules.repetition_penalty) if token in own and not forced else 0.0
            expected = float(original[row, token]) - price if token in fine else -math.inf
            assert float(competing[row, token]) == pytest.approx(expected, abs=1e-6)
            if token in fine and token != Vocabulary.end:
                assert given_logits[row, token] == original[row, token], "what the model thinks is left as it was"
