"""Edit distances against a brute force, and the errors that are counted with them."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.evaluation.error_rates import edit_distance, phoneme_error

words = st.text(alphabet="abc", max_size=6)


@cache
def by_trying_everything(one: str, other: str) -> int:
    if not one or not other:
        return len(one) + len(other)
    return min(
        by_trying_everything(one[1:], other) + 1,
        by_trying_everything(one, other[1:]) + 1,
        by_trying_everything(one[1:], other[1:]) + (one[0] != other[0]),
    )


@given(one=words, other=words)
def test_the_distance_is_the_fewest_of_all_edits(one: str, other: str):
    assert edit_distance(one, other) == by_trying_everything(one, other)
    assert edit_distance(list(one), tuple(other)) == edit_distance(other, one)


@given(one=words, other=words, third=words)
def test_a_detour_is_never_shorter(one: str, other: str, third: str):
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
def test_distances_by_hand(one: str, other: str, distance: int):
    assert edit_distance(one, other) == distance


def test_the_error_is_edits_per_phoneme_of_the_truth():
    """One of 4 replaced and one of 2 left out: 2 edits in 6 phonemes, not the mean of 1/4 and 1/2."""
    assert phoneme_error(["HH EH L OW", "G"], [["HH AH L OW"], ["G OW"]]) == pytest.approx(2 / 6)


def test_of_several_truths_the_nearest_counts():
    truths = [["D AE T AH", "D EY T AH"]]
    assert phoneme_error(["D EY T AH"], truths) == 0
    assert phoneme_error(["D EY T"], truths) == pytest.approx(1 / 4)


def test_the_length_is_that_of_the_nearest():
    assert phoneme_error(["A B"], [["A B C D", "A"]]) == pytest.approx(1 / 1)
    assert phoneme_error(["A B C"], [["A", "A B C D"]]) == pytest.approx(1 / 4)


def test_nothing_said_is_an_error_of_1_and_more_can_be_said_than_is_true():
    assert phoneme_error([""], [["A B C"]]) == 1
    assert phoneme_error(["A B C"], [["A"]]) == 2


def test_spaces_count_for_nothing():
    assert phoneme_error([" A  B "], [["A B"]]) == 0


def test_no_words_have_no_errors():
    assert phoneme_error([], []) == 0


def test_each_text_has_its_truths():
    with pytest.raises(ValueError, match="zip"):
        phoneme_error(["A", "B"], [["A"]])
