from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from regard.errors import UserError
from regard.tasks.case import CaseDataset, CaseSection, CaseTask, CaseTokenization
from regard.tasks.random_text import PRINTABLE
from regard.text import BEGIN

PROMPT_POSITIONS = ["first", "last", "decoder"]
printable_text = st.text(PRINTABLE, max_size=50)


def test_the_prompt_is_at_its_configured_position():
    text = "<U> I am"
    assert CaseTokenization("first").source_tokens(text) == ["<U>", "I", " ", "a", "m"]
    assert CaseTokenization("last").source_tokens(text) == ["I", " ", "a", "m", "<U>"]
    assert CaseTokenization("decoder").source_tokens(text) == ["I", " ", "a", "m"]


def test_the_decoder_starts_with_the_prompt_or_begin():
    assert CaseTokenization("first").start_token("<L> I am") == BEGIN
    assert CaseTokenization("last").start_token("<L> I am") == BEGIN
    assert CaseTokenization("decoder").start_token("<L> I am") == "<L>"
    assert CaseTokenization("decoder").start_token("<U> I am") == "<U>"


@pytest.mark.parametrize("prompt_position", PROMPT_POSITIONS)
def test_the_prompt_is_a_token_at_every_position(prompt_position):
    assert [CaseTokenization(prompt_position).prompt_token(text) for text in ("<U> I am", "<L> <U> a")] == [
        "<U>",
        "<L>",
    ]


@pytest.mark.parametrize("prompt_position", PROMPT_POSITIONS)
@given(sentence=printable_text)
def test_everything_after_the_prompt_and_one_space_is_characters(prompt_position, sentence: str):
    tokens = CaseTokenization(prompt_position).source_tokens(f"<L> {sentence}")
    assert [token for token in tokens if token != "<L>"] == list(sentence)
    assert len(tokens) == len(sentence) + (prompt_position != "decoder")


def test_a_prompt_within_the_sentence_is_only_characters():
    assert CaseTokenization("first").source_tokens("<U> a<L> b") == ["<U>", "a", "<", "L", ">", " ", "b"]
    assert CaseTokenization("first").source_tokens("<U> <U> b") == ["<U>", "<", "U", ">", " ", "b"]
    assert CaseTokenization("decoder").start_token("<U> <L> b") == "<U>"


@pytest.mark.parametrize("prompt_position", PROMPT_POSITIONS)
@given(seed=st.integers(0, 2**32))
def test_the_target_is_the_sentence_in_the_prompted_case(prompt_position, seed: int):
    pair = CaseDataset(CaseSection(prompt=prompt_position)).generate(Random(seed))
    prompt, sentence = pair.source[:4], pair.source[4:]
    assert prompt in ("<U> ", "<L> ")
    assert pair.target == (sentence.upper() if prompt == "<U> " else sentence.lower())


@pytest.mark.parametrize("prompt_position", PROMPT_POSITIONS)
@given(seed=st.integers(0, 2**32))
def test_the_alignment_gives_each_target_character_its_source_character(prompt_position, seed: int):
    task = CaseTask(CaseSection(prompt=prompt_position))
    pair = task.dataset.generate(Random(seed))
    source, target = task.tokenization.source_tokens(pair.source), task.tokenization.target_tokens(pair)
    assert sorted(step for _, step in pair.alignment) == list(range(len(target)))
    assert len({origin for origin, _ in pair.alignment}) == len(target)
    for origin, step in pair.alignment:
        assert target[step].lower() == source[origin].lower()


def test_the_alignment_keeps_the_order():
    for prompt_position in PROMPT_POSITIONS:
        alignment = sorted(CaseDataset(CaseSection(prompt=prompt_position, min_length=9)).generate(Random(1)).alignment)
        assert alignment == [(step + (prompt_position == "first"), step) for step in range(len(alignment))]


def test_the_training_set_has_every_printable_character_both_prompts_and_all_lengths():
    pairs = CaseDataset(CaseSection()).splits()["train"]
    characters = Counter(character for pair in pairs for character in pair.source[4:])
    prompts = Counter(pair.source[:4] for pair in pairs)
    lengths = Counter(len(pair.target) for pair in pairs)
    assert sorted(characters) == sorted(PRINTABLE)
    assert min(characters.values()) >= 500
    assert min(prompts.values()) >= 9_500
    # There are only 190 sentences of one character; of all other lengths there are equally many.
    assert sorted(lengths) == list(range(1, 37))
    assert min(lengths[length] for length in range(3, 37)) >= 400


@given(seed=st.integers(0, 2**32), bounds=st.tuples(st.integers(1, 60), st.integers(1, 60)).map(sorted))
def test_the_lengths_are_the_sentences_own(seed: int, bounds: list[int]):
    shortest, longest = bounds
    pair = CaseDataset(CaseSection(min_length=shortest, max_length=longest)).generate(Random(seed))
    assert shortest <= len(pair.source) - len("<U> ") <= longest


@pytest.mark.parametrize("method", [CaseTokenization("first").source_tokens, CaseTokenization("decoder").start_token])
@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("Hello", "begins with 'Hello'"),
        ("Hello, how are you?", "begins with 'Hello, how a…'"),
        ("<u> hello", "begins with '<u> hello'"),
        ("<U>hello", "begins with '<U>hello'"),
        (" <U> hello", "begins with ' <U> hello'"),
        ("", "is empty"),
    ],
)
def test_a_text_without_a_prompt_is_refused(method, text: str, seen: str):
    with pytest.raises(UserError) as error:
        method(text)
    assert str(error.value) == f"a sentence for the case task begins with '<U> ' or '<L> '; this one {seen}"


def test_a_character_beyond_ascii_is_refused():
    with pytest.raises(UserError, match="not trained on the character 'ß', only on:"):
        CaseTokenization("first").source_tokens("<U> Straße")


def test_contradictory_lengths_are_reported():
    with pytest.raises(ValidationError, match="9 is more than max_length, 8"):
        CaseSection(min_length=9, max_length=8)
    assert CaseSection(min_length=8, max_length=8).min_length == 8


@pytest.mark.parametrize("settings", [{"min_length": 0}, {"max_length": 1001}, {"prompt": "middle"}, {"promt": "last"}])
def test_settings_out_of_bounds_are_refused(settings):
    with pytest.raises(ValidationError, match=next(iter(settings))):
        CaseSection(**settings)
