import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text import CharacterTokenizer, WhitespaceTokenizer, WordTokenizer

words_without_spaces = st.lists(st.text(st.characters(codec="ascii", exclude_categories=["Z", "C"]), min_size=1))


@given(text=st.text())
def test_characters_make_up_the_text(text: str):
    tokens = CharacterTokenizer().tokenize(text)
    assert all(len(token) == 1 for token in tokens)
    assert CharacterTokenizer().detokenize(tokens) == text
    assert CharacterTokenizer().starts(tokens) == [True] * len(text)


@given(words=words_without_spaces)
def test_spaced_tokens_are_joined_by_single_spaces(words: list[str]):
    assert WhitespaceTokenizer().tokenize(" ".join(words)) == words
    assert WhitespaceTokenizer().detokenize(WhitespaceTokenizer().tokenize("  ".join(words) + "\t\n")) == " ".join(
        words
    )


def test_spaced_tokens_keep_their_punctuation():
    assert WhitespaceTokenizer().tokenize("er las , nicht .") == ["er", "las", ",", "nicht", "."]
    assert WhitespaceTokenizer().tokenize("ja.") == ["ja."]
    assert WhitespaceTokenizer().tokenize(" \t ") == []


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Ein Mann schläft.", ["Ein", "Mann", "schläft", "￭."]),
        ('"Ja", sagt er.', ['"￭', "Ja", '￭"', "￭,", "sagt", "er", "￭."]),
        ("(Don't!) well-known", ["(￭", "Don't", "￭!", "￭)", "well-known"]),
        ("3,5 km/h – 20 %", ["3", "￭,￭", "5", "km", "￭/￭", "h", "–", "20", "%"]),
        ("- 'tis dogs'", ["-", "'￭", "tis", "dogs", "￭'"]),
        ("er las , nicht .", ["er", "las", ",", "nicht", "."]),
        ("wait...what", ["wait", "￭.", "￭.", "￭.￭", "what"]),
        ("हिन्दी भाषा।", ["हिन्दी", "भाषा", "￭।"]),  # vowel signs are marks that belong to their letters
        ("cafe\N{COMBINING ACUTE ACCENT} Ångström", ["cafe\N{COMBINING ACUTE ACCENT}", "Ångström"]),
        ("مرحبا، يا عالم", ["مرحبا", "￭،", "يا", "عالم"]),
        ("snake_case <end>", ["snake_case", "<￭", "end", "￭>"]),
        ("a\u2028b\u00a0c", ["a", "b", "c"]),
        (" \t ", []),
    ],
)
def test_words_and_marks_are_tokens(text: str, tokens: list[str]):
    assert WordTokenizer().tokenize(text) == tokens
    assert WordTokenizer().detokenize(tokens) == " ".join(text.split())
    assert WordTokenizer().starts(tokens) == [True] * len(tokens)


@given(text=st.text() | st.text(alphabet="ab '’-.,()\t\"é_1"))
def test_words_restore_the_text_except_kinds_of_spaces(text: str):
    tokens = WordTokenizer().tokenize(text)
    assert WordTokenizer().detokenize(tokens) == " ".join(text.replace("￭", "■").split())
    assert all(token.strip("￭") and not any(mark.isspace() for mark in token) for token in tokens)


def test_a_joiner_in_a_text_cannot_glue_words():
    assert WordTokenizer().detokenize(WordTokenizer().tokenize("a ￭ b ￭c")) == "a ■ b ■c"


@given(text=st.text(alphabet=st.characters(categories=["L", "M", "N"]), min_size=1))
def test_words_of_any_script_are_not_split(text: str):
    assert WordTokenizer().tokenize(text) == [text]
    assert not any(unicodedata.category(character) in ("Zs", "Cc") for character in text)
