"""Constraints one by one by hand, and all of them together against a naive loop."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.overrides import TorchFunctionMode

from regard.search import Constraints
from regard.search.options import MAX_TOKENS
from regard.text import Vocabulary

TOKENS = 7
A, B, C = range(4, TOKENS)
EVERYTHING = {Vocabulary.end, A, B, C}  # ordinary tokens and `<end>`


def some_logits(rows: int = 1) -> Tensor:
    return torch.randn(rows, TOKENS, generator=torch.Generator().manual_seed(5))


def constrained_logits(rules: Constraints, *generated: list[int]) -> Tensor:
    """The constrained logits of rows that have generated these tokens."""
    return rules.apply(some_logits(len(generated)), torch.tensor(generated, dtype=torch.long).view(len(generated), -1))


def allowed(rules: Constraints, generated: list[int]) -> set[int]:
    (row,) = constrained_logits(rules, generated)
    return set((row > -math.inf).nonzero().flatten().tolist())


# One by one


@pytest.mark.parametrize("generated", [[], [A], [B, B, A]])
def test_without_constraints_all_but_three_special_tokens_keep_their_logits(generated: list[int]) -> None:
    assert allowed(Constraints(), generated) == EVERYTHING
    positions = sorted(EVERYTHING)
    assert torch.equal(constrained_logits(Constraints(), generated)[:, positions], some_logits()[:, positions])


class LargestTensor(TorchFunctionMode):
    """Records the number of elements of the largest tensor that a function returns."""

    size = 0

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.size = max(self.size, result.numel())
        return result


@pytest.mark.parametrize("limits", [{"block_ngrams": MAX_TOKENS}, {"min_length": MAX_TOKENS}, {"block_ngrams": 9}])
def test_huge_limits_allocate_nothing_of_their_size(limits: dict[str, int]) -> None:
    generated = [A, B, A, B, C]
    with LargestTensor() as largest:
        found = allowed(Constraints(**limits), generated)
    assert found == (EVERYTHING - {Vocabulary.end} if "min_length" in limits else EVERYTHING)
    assert largest.size == TOKENS


def test_banned_tokens_can_be_configured() -> None:
    assert allowed(Constraints(banned_tokens=(A, Vocabulary.end)), [A]) == {
        Vocabulary.pad,
        Vocabulary.begin,
        Vocabulary.unknown,
        B,
        C,
    }
    assert allowed(Constraints(banned_tokens=()), []) == set(range(TOKENS))


def test_a_prefix_is_forced_token_by_token() -> None:
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
def test_no_other_constraint_applies_within_a_prefix(other: dict) -> None:
    rules = Constraints(prefix=(A, A, A, Vocabulary.end), **other)
    for step, token in enumerate(rules.prefix):
        expected = torch.full((1, TOKENS), -math.inf)
        expected[:, token] = some_logits()[:, token]
        assert torch.equal(constrained_logits(rules, [A] * step), expected)


def test_a_prefix_counts_as_generated() -> None:
    assert allowed(Constraints(prefix=(A, B), block_ngrams=1), [A, B]) == {Vocabulary.end, C}
    assert allowed(Constraints(prefix=(A, B, A), block_ngrams=2), [A, B, A]) == {Vocabulary.end, A, C}
    competing = constrained_logits(Constraints(prefix=(A, B), repetition_penalty=2.0), [A, B])[0]
    torch.testing.assert_close(
        competing[[A, B, C]], some_logits()[0, [A, B, C]] - torch.tensor([1, 1, 0]) * math.log(2)
    )
    assert allowed(Constraints(prefix=(A, B), min_length=2), [A, B]) == EVERYTHING, (
        "and counts towards the minimum length"
    )


@pytest.mark.parametrize("min_length", [0, 1, 3])
def test_no_output_ends_before_the_minimum_length(min_length: int) -> None:
    for length in range(5):
        expected = EVERYTHING - {Vocabulary.end} if length < min_length else EVERYTHING
        assert allowed(Constraints(min_length=min_length), [A] * length) == expected


@pytest.mark.parametrize(
    ("n", "generated", "forbidden"),
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
def test_no_ngram_is_generated_twice(n: int, generated: list[int], forbidden: set[int]) -> None:
    assert allowed(Constraints(block_ngrams=n), generated) == EVERYTHING - forbidden


def test_a_repeated_token_is_penalized_once_by_the_logarithm_of_the_penalty() -> None:
    competing = constrained_logits(Constraints(repetition_penalty=3.0), [A, C, A, A])[0]
    expected = some_logits()[0] - torch.tensor([0, 0, 0, 0, 1, 0, 1]) * math.log(3)
    positions = sorted(EVERYTHING)
    torch.testing.assert_close(competing[positions], expected[positions])
    assert allowed(Constraints(repetition_penalty=3.0), [A, C]) == EVERYTHING, "it is penalized and not forbidden"


# Rows without allowed tokens


def test_a_row_without_allowed_tokens_may_end_at_any_length() -> None:
    rules = Constraints(block_ngrams=1, min_length=5)
    competing = constrained_logits(rules, [A, B, C], [A, B, A])
    assert competing[0, Vocabulary.end] == some_logits(2)[0, Vocabulary.end], "with its own logit"
    assert (competing[0] > -math.inf).sum() == 1
    assert (competing[1] > -math.inf).nonzero().flatten().tolist() == [C], "the other row can continue, and must"


def test_a_row_with_allowed_tokens_may_not_end_because_another_row_may() -> None:
    rules = Constraints(block_ngrams=2, min_length=11)
    stuck, free = [A, A, B, A, C, A], [A, A, B, B, C, A]
    assert allowed(rules, stuck) == {Vocabulary.end}
    competing = constrained_logits(rules, free, stuck)
    assert (competing[0] > -math.inf).nonzero().flatten().tolist() == [C]
    assert (competing[1] > -math.inf).nonzero().flatten().tolist() == [Vocabulary.end]


# Together


def naive(rules: Constraints, generated: list[int]) -> set[int]:
    """What may come next, token by token."""
    if len(generated) < len(rules.prefix):
        return {rules.prefix[len(generated)]}
    n = rules.block_ngrams
    sequences = [generated[begin : begin + n] for begin in range(len(generated) - n + 1)] if n else []
    allowed_tokens = []
    for token in set(range(TOKENS)) - set(rules.banned_tokens):
        too_early = token == Vocabulary.end and len(generated) < rules.min_length
        if not too_early and [*generated, token][-n:] not in sequences:
            allowed_tokens.append(token)
    return set(allowed_tokens) or {Vocabulary.end}


tokens = st.integers(A, C)
some_rules = st.builds(
    Constraints,
    prefix=st.lists(tokens, max_size=3).map(tuple),
    min_length=st.integers(0, 8),
    block_ngrams=st.integers(0, 3),
    repetition_penalty=st.sampled_from([1.0, 1.5, 7.0]),
)
# Rows of equal length; in a search they begin with the prefix, but no constraint relies on that.
some_generated = st.integers(0, 9).flatmap(
    lambda n: st.lists(st.lists(tokens, min_size=n, max_size=n), min_size=1, max_size=3)
)


@settings(derandomize=True, max_examples=400)
@given(some_rules, some_generated)
def test_all_constraints_together_equal_a_naive_loop(rules: Constraints, generated: list[list[int]]) -> None:
    original = some_logits(len(generated))
    given_logits = original.clone()
    competing = rules.apply(given_logits, torch.tensor(generated, dtype=torch.long).view(len(generated), -1))
    for row, own in enumerate(generated):
        allowed_tokens = naive(rules, own)
        forced = len(own) < len(rules.prefix)
        for token in range(TOKENS):
            penalty = math.log(rules.repetition_penalty) if token in own and not forced else 0.0
            expected = float(original[row, token]) - penalty if token in allowed_tokens else -math.inf
            assert float(competing[row, token]) == pytest.approx(expected, abs=1e-6)
            if token in allowed_tokens and token != Vocabulary.end:
                assert given_logits[row, token] == original[row, token], "the logits of the model are not modified"
