from hypothesis import given
from hypothesis import strategies as st

from regard.text import Characters, Words


@given(text=st.text())
def test_characters_make_up_the_text(text: str):
    tokens = Characters().split(text)
    assert all(len(token) == 1 for token in tokens)
    assert Characters().join(tokens) == text


@given(words=st.lists(st.text(st.characters(codec="ascii", exclude_categories=["Z", "C"]), min_size=1)))
def test_words_come_back_with_single_spaces(words: list[str]):
    assert Words().split(" ".join(words)) == words
    assert Words().join(Words().split("  ".join(words) + "\t\n")) == " ".join(words)


def test_words_keep_their_punctuation():
    assert Words().split("er las , nicht .") == ["er", "las", ",", "nicht", "."]
    assert Words().split(" \t ") == []
