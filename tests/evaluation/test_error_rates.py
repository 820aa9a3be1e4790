"""Edit distances against a brute force, and the errors that are counted with them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.evaluation.error_rates import phoneme_edits, phoneme_error

words = st.text(alphabet="abc", max_size=6)


def edit_distance(one: Iterable[str], other: Iterable[str]) -> int:
    distance, _ = phoneme_edits(" ".join(one), [" ".join(other)])
    return distance


@cache
def brute_force(one: str, other: str) -> int:
    if not one or not other:
        return len(one) + len(other)
    return min(
        brute_force(one[1:], other) + 1,
        brute_force(one, other[1:]) + 1,
        brute_force(one[1:], other[1:]) + (one[0] != other[0]),
    )


@given(one=words, other=words)
def test_the_distance_is_the_minimum_over_all_edits(one: str, other: str):
    assert edit_distance(one, other) == brute_force(one, other)
    assert edit_distance(one, other) == edit_distance(other, one)


@given(one=words, other=words, third=words)
def test_the_triangle_inequality_holds(one: str, other: str, third: str):
    assert edit_distance(one, other) <= edit_distance(one, third) + edit_distance(third, other)


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [
        ("", "", 0),
        ("", "abc", 3),
        ("abc", "", 3),
        ("kitten", "sitting", 3),
        ("Saturday", "Sunday", 3),
        ("abcd", "bcda", 2),
        ("ab", "ba", 2),
        (["HH", "AH", "L", "OW"], ["HH", "EH", "L", "OW"], 1),
        (["HH", "AH"], ["HHAH"], 2),
    ],
)
def test_distances_by_hand(one: Iterable[str], other: Iterable[str], distance: int):
    assert edit_distance(one, other) == distance


def test_the_rate_is_edits_per_reference_phoneme():
    """One of 4 replaced and one of 2 left out: 2 edits in 6 phonemes, not the mean of 1/4 and 1/2."""
    assert phoneme_error(["HH EH L OW", "G"], [["HH AH L OW"], ["G OW"]]) == pytest.approx(2 / 6)


def test_of_several_references_the_nearest_counts():
    references = [["D AE T AH", "D EY T AH"]]
    assert phoneme_error(["D EY T AH"], references) == 0
    assert phoneme_error(["D EY T"], references) == pytest.approx(1 / 4)


def test_the_length_is_that_of_the_nearest_reference():
    assert phoneme_error(["A B"], [["A B C D", "A"]]) == pytest.approx(1 / 1)
    assert phoneme_error(["A B C"], [["A", "A B C D"]]) == pytest.approx(1 / 4)


def test_an_empty_output_has_rate_1_and_a_long_one_more():
    assert phoneme_error([""], [["A B C"]]) == 1
    assert phoneme_error(["A B C"], [["A"]]) == 2


def test_extra_spaces_are_ignored():
    assert phoneme_error([" A  B "], [["A B"]]) == 0


def test_no_words_have_no_errors():
    assert phoneme_error([], []) == 0


def test_numbers_of_outputs_and_references_must_agree():
    with pytest.raises(ValueError, match="zip"):
        phoneme_error(["A", "B"], [["A"]])
