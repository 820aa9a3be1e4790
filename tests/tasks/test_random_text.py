from collections import Counter
from functools import cache
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import UserError
from regard.tasks.random_text import ENGLISH, PRINTABLE, known_characters, random_sentence


@cache
def sentences(count: int, length: int, wide_gaps: float = 0.1) -> tuple[str, ...]:
    random = Random(7)
    return tuple(random_sentence(random, length, wide_gaps) for _ in range(count))


@given(st.integers(0, 2**32), st.integers(1, 200), st.floats(0, 1))
def test_a_sentence_has_the_given_length_and_is_printable(seed: int, length: int, wide_gaps: float):
    sentence = random_sentence(Random(seed), length, wide_gaps)
    assert len(sentence) == length
    assert set(sentence) <= set(PRINTABLE)


def test_printable_is_ascii_from_space_to_tilde():
    assert len(PRINTABLE) == 95
    assert PRINTABLE.isascii()
    assert PRINTABLE.isprintable()


def test_english_has_every_letter_and_the_common_ones_more_often():
    counts = Counter(ENGLISH)
    assert sorted(counts) == list("abcdefghijklmnopqrstuvwxyz")
    assert counts["e"] == max(counts.values())
    assert counts["e"] > counts["t"] > counts["d"] > counts["z"]


@pytest.mark.parametrize(
    "holds",
    [
        pytest.param(str.islower, id="lower case"),
        pytest.param(str.isupper, id="capitals"),
        pytest.param(str.istitle, id="titles"),
        pytest.param(lambda text: any(a.islower() and b.isupper() for a, b in pairwise(text)), id="mIxed"),
        pytest.param(lambda text: text.startswith(" "), id="a space first"),
        pytest.param(lambda text: text.endswith(" "), id="a space last"),
        pytest.param(lambda text: "   " in text, id="several spaces"),
        pytest.param(lambda text: "'" in text, id="apostrophe"),
        pytest.param(lambda text: "-" in text, id="hyphen"),
        pytest.param(lambda text: ", " in text, id="comma"),
        pytest.param(lambda text: ". " in text, id="period"),
        pytest.param(lambda text: any(character.isdigit() for character in text), id="digits"),
        pytest.param(lambda text: "@" in text and ".com" in text, id="e-mail"),
        pytest.param(lambda text: "https://www." in text, id="web address"),
        pytest.param(lambda text: len(set(text)) == 1, id="one character throughout"),
        pytest.param(lambda text: len(set(text)) == 2 and text[:2] * 10 == text, id="two characters in turn"),
        pytest.param(lambda text: len(set(text)) >= 18, id="noise"),
    ],
)
def test_everything_that_people_type_occurs(holds):
    texts = sentences(20_000, length=20)
    assert 20 <= sum(map(holds, texts)) <= 19_000


def test_wide_gaps_make_more_runs_of_spaces():
    narrow = sum("  " in sentence for sentence in sentences(2_000, length=20, wide_gaps=0.1))
    wide = sum("  " in sentence for sentence in sentences(2_000, length=20, wide_gaps=0.4))
    assert wide > 2 * narrow > 0


def test_known_characters():
    assert known_characters("ab a", "ab ") == ["a", "b", " ", "a"]
    with pytest.raises(UserError) as error:
        known_characters("abé", "abc")
    assert str(error.value) == "this task was not trained on the character 'é', only on: abc"
