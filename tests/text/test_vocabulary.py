from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text import BEGIN, END, PAD, UNKNOWN, Vocabulary

SPECIAL = [PAD, BEGIN, END, UNKNOWN]
sentences = st.lists(st.lists(st.one_of(st.text(max_size=3), st.sampled_from(SPECIAL))))


def test_tokens_are_sorted_by_frequency_and_then_by_spelling():
    vocabulary = Vocabulary.build([["c", "b", "b"], ["a", "d", "b", "d"]])
    assert vocabulary.tokens == (*SPECIAL, "b", "d", "a", "c")


def test_the_special_tokens_have_the_first_ids():
    assert (Vocabulary.pad, Vocabulary.begin, Vocabulary.end, Vocabulary.unknown) == (0, 1, 2, 3)
    assert Vocabulary.build([]).to_tokens(range(4)) == SPECIAL


@given(sentences=sentences)
def test_known_tokens_survive_encoding_and_decoding(sentences: list[list[str]]):
    vocabulary = Vocabulary.build(sentences)
    for sentence in sentences:
        ordinary = [token for token in sentence if token not in SPECIAL]
        ids = vocabulary.to_ids(ordinary)
        assert all(4 <= index < len(vocabulary) for index in ids)
        assert vocabulary.to_tokens(ids) == ordinary
        assert all(token in vocabulary for token in ordinary)
    assert Vocabulary(list(vocabulary.tokens)) == vocabulary
    assert hash(Vocabulary(list(vocabulary.tokens))) == hash(vocabulary)


@given(sentences=sentences, size=st.integers(1, 7), frequency=st.integers(1, 3))
def test_the_most_frequent_tokens_are_a_part_of_all(sentences: list[list[str]], size: int, frequency: int):
    counts = Counter(token for sentence in sentences for token in sentence)
    everything = Vocabulary.from_counts(counts).tokens[4:]
    expected = [token for token in everything if counts[token] >= frequency][:size]
    assert list(Vocabulary.from_counts(counts, min_frequency=frequency, size=size).tokens[4:]) == expected


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
def test_an_invalid_list_of_tokens_is_refused(tokens: list[str]):
    with pytest.raises(ValueError, match="a vocabulary starts with <pad>, <begin>, <end>, <unknown> and repeats no"):
        Vocabulary(tokens)


def test_vocabularies_with_equal_tokens_are_equal():
    assert Vocabulary.build([["a"]]) != Vocabulary.build([["b"]])
    assert Vocabulary.build([["a"]]) != "a"


def test_tokens_and_special_tokens_are_found_by_their_spelling():
    vocabulary = Vocabulary.build([["a", "b"], ["b"]])
    ids = [vocabulary.end, 5, vocabulary.unknown, 4, vocabulary.begin]
    assert vocabulary.output_to_ids(vocabulary.to_tokens(ids)) == ids
