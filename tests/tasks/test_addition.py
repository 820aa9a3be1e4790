from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from regard.errors import UserError
from regard.tasks.addition import AdditionDataset, AdditionSection, AdditionTask


@given(seed=st.integers(0, 2**32), digits=st.integers(1, 12))
def test_the_target_is_the_sum_and_no_number_is_padded(seed: int, digits: int):
    pair = AdditionDataset(AdditionSection(digits=digits)).generate(Random(seed))
    first, second = pair.source.split("+")
    assert int(first) + int(second) == int(pair.target)
    for number in (first, second, pair.target):
        assert number == str(int(number))
    assert max(len(first), len(second)) <= digits
    assert pair.alignment == frozenset()


def test_characters_are_tokens():
    assert AdditionTask(AdditionSection()).tokenization.source_tokens("27+58") == ["2", "7", "+", "5", "8"]


def test_numbers_longer_than_in_training_are_accepted():
    assert AdditionTask(AdditionSection(digits=1)).tokenization.source_tokens("27+58") == list("27+58")


def test_the_default_splits_have_30000_pairs_of_all_digit_counts():
    splits = AdditionDataset(AdditionSection(train=30_000)).splits()
    shapes = {
        name: Counter(tuple(len(number) for number in pair.source.split("+")) for pair in pairs)
        for name, pairs in splits.items()
    }
    assert len(shapes["train"]) == len(shapes["test"]) == 9
    # Most of the hundred sums of two digits are in the training split, and some in the test split.
    assert shapes["train"][1, 1] >= 50
    assert shapes["test"][1, 1] >= 10
    assert all(count >= 600 for shape, count in shapes["train"].items() if shape != (1, 1))


def test_every_digit_count_is_drawn_when_there_are_many():
    random = Random(1)
    sources = [AdditionDataset(AdditionSection(digits=12)).generate(random).source for _ in range(5_000)]
    counts = Counter(len(number) for source in sources for number in source.split("+"))
    assert sorted(counts) == list(range(1, 13))
    assert counts[1] >= 60


def test_a_split_may_contain_all_sums_of_one_digit_but_no_more():
    splits = AdditionDataset(AdditionSection(digits=1, train=80, validation=10, test=10)).splits()
    assert {pair.source for pairs in splits.values() for pair in pairs} == {
        f"{first}+{second}" for first in range(10) for second in range(10)
    }
    with pytest.raises(UserError, match=r"data\.train: 81 pairs .* no new ones after 100"):
        AdditionDataset(AdditionSection(digits=1, train=81, validation=10, test=10)).splits()


@pytest.mark.parametrize(
    "text", ["", "27", "27+", "+58", "27 + 58", "27-58", "-27+58", "2+7+5", "007+5", "2.5+1", "x+y", "٣+٤", "1+2\n"]
)
def test_a_text_that_is_no_sum_is_refused(text: str):
    with pytest.raises(UserError) as error:
        AdditionTask(AdditionSection()).tokenization.source_tokens(text)
    assert str(error.value) == (
        "the addition task takes two numbers with a '+' between them, such as 27+58, "
        f"without spaces, signs or leading zeros; this is {text!r}"
    )


@pytest.mark.parametrize("text", ["0+0", "10+0", "999+1"])
def test_significant_zeros_are_accepted(text: str):
    assert "".join(AdditionTask(AdditionSection()).tokenization.source_tokens(text)) == text


@pytest.mark.parametrize("digits", [0, 13, "3", 2.0])
def test_digits_out_of_bounds_are_refused(digits):
    with pytest.raises(ValidationError, match="digits"):
        AdditionSection(digits=digits)
