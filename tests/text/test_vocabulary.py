from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text import BEGIN, END, PAD, UNKNOWN, Vocabulary

SPECIAL = [PAD, BEGIN, END, UNKNOWN]
sentences = st.lists(st.lists(st.one_of(st.text(max_size=3), st.sampled_from(SPECIAL))))


def test_the_most_frequent_come_first_and_equals_in_the_order_of_their_spelling():
    vocabulary = Vocabulary.build([["c", "b", "b"], ["a", "d", "b", "d"]])
    assert vocabulary.tokens == (*SPECIAL, "b", "d", "a", "c")


def test_the_special_tokens_have_the_first_numbers():
    assert (Vocabulary.pad, Vocabulary.begin, Vocabulary.end, Vocabulary.unknown) == (0, 1, 2, 3)
    assert Vocabulary.build([]).to_tokens(range(4)) == SPECIAL


@given(sentences=sentences)
def test_what_was_seen_comes_back(sentences: list[list[str]]):
    vocabulary = Vocabulary.build(sentences)
    for sentence in sentences:
        ordinary = [token for token in sentence if token not in SPECIAL]
        numbers = vocabulary.to_ids(ordinary)
        assert all(4 <= number < len(vocabulary) for number in numbers)
        assert vocabulary.to_tokens(numbers) == ordinary
        assert all(token in vocabulary for token in ordinary)
    assert Vocabulary(list(vocabulary.tokens)) == vocabulary
    assert hash(Vocabulary(list(vocabulary.tokens))) == hash(vocabulary)


@given(sentences=sentences)
def test_the_order_of_sentences_does_not_matter(sentences: list[list[str]]):
    assert Vocabulary.build(sentences) == Vocabulary.build(reversed(sentences))


@pytest.mark.parametrize("token", SPECIAL)
def test_a_special_token_that_is_typed_is_not_special(token: str):
    vocabulary = Vocabulary.build([["a", token, token]])
    assert token not in vocabulary
    assert vocabulary.to_ids(["a", token]) == [4, Vocabulary.unknown]
    assert vocabulary.tokens.count(token) == 1


@pytest.mark.parametrize(
    "tokens",
    [[], ["a"], [*SPECIAL[:3], "a"], [BEGIN, PAD, END, UNKNOWN], [*SPECIAL, "a", "a"], [*SPECIAL, END]],
)
def test_a_list_that_is_no_vocabulary_is_refused(tokens: list[str]):
    with pytest.raises(ValueError, match="a vocabulary starts with <pad>, <begin>, <end>, <unknown> and repeats no"):
        Vocabulary(tokens)


def test_vocabularies_are_equal_by_their_tokens():
    assert Vocabulary.build([["a"]]) != Vocabulary.build([["b"]])
    assert Vocabulary.build([["a"]]) != "a"


def test_what_was_spelled_is_found_again_special_tokens_too():
    vocabulary = Vocabulary.build([["a", "b"], ["b"]])
    numbers = [vocabulary.end, 5, vocabulary.unknown, 4, vocabulary.begin]
    assert vocabulary.output_to_ids(vocabulary.to_tokens(numbers)) == numbers
