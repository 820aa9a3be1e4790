from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from regard.errors import UserError
from regard.tasks.copy import CopyDataset, CopySection, CopyTask

seeds = st.integers(0, 2**32)


@given(seed=seeds)
def test_the_target_is_the_source_and_the_alignment_the_diagonal(seed: int):
    pair = CopyDataset(CopySection()).generate(Random(seed))
    assert pair.target == pair.source
    assert sorted(pair.alignment) == [(index, index) for index in range(len(pair.source))]


@given(seed=seeds, bounds=st.tuples(st.integers(1, 40), st.integers(1, 40)).map(sorted))
def test_strings_have_the_configured_alphabet_and_lengths(seed: int, bounds: list[int]):
    shortest, longest = bounds
    source = (
        CopyDataset(CopySection(alphabet="xyz", min_length=shortest, max_length=longest)).generate(Random(seed)).source
    )
    assert set(source) <= set("xyz")
    assert shortest <= len(source) <= longest


def test_the_training_split_has_every_length_and_letter():
    pairs = CopyDataset(CopySection()).splits()["train"]
    lengths = Counter(len(pair.source) for pair in pairs)
    letters = Counter(letter for pair in pairs for letter in pair.source)
    assert sorted(lengths) == list(range(1, 21))
    assert lengths[1] >= 13  # at least half of all 26
    assert len(letters) == 26
    assert min(letters.values()) > 0.9 * max(letters.values())


def test_a_character_that_is_not_in_the_alphabet_is_refused():
    assert CopyTask(CopySection(alphabet="ab ")).tokenization.source_tokens("b a") == ["b", " ", "a"]
    with pytest.raises(UserError, match="not trained on the character 'c', only on: ab"):
        CopyTask(CopySection(alphabet="ab")).tokenization.source_tokens("abc")


def test_a_small_alphabet_runs_out():
    with pytest.raises(UserError, match=r"data\.train: 10 pairs .* no new ones after 6"):
        CopyDataset(CopySection(alphabet="ab", max_length=2, train=10, validation=1, test=1)).splits()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alphabet": "abca"}, "the character 'a' is in the alphabet twice"),
        ({"alphabet": ""}, "at least 1 character"),
        ({"min_length": 21}, "21 is more than max_length, 20"),
        ({"min_length": 0}, "greater than or equal to 1"),
    ],
)
def test_invalid_settings_are_refused(settings, message: str):
    with pytest.raises(ValidationError, match=message):
        CopySection(**settings)
