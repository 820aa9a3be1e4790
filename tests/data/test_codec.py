"""Encoding texts to ids and decoding ids to texts."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data import Codec, Example
from regard.errors import UserError
from regard.tasks import TASKS, Pair, Task
from regard.tasks.case import CaseSection, CaseTask, CaseTokenization
from regard.tasks.clauses import ClausesSection, ClausesTask
from regard.tasks.copy import CopySection, CopyTask
from regard.tasks.files import FilesSection, FilesTask
from regard.tasks.generated import GeneratedTask
from regard.tasks.spaces import SpacesSection, SpacesTask
from regard.text import BEGIN, END, UNKNOWN, Vocabulary
from regard.text.sections import TextSection
from regard.text.vocabulary import SPECIAL

COPY = CopyTask(CopySection(alphabet="abc<end>"))


def built(task: Task[Any], pairs: list[Pair]) -> Codec:
    """The codec of a task that was trained on these pairs."""
    return Codec.build(task.learn_tokenization(pairs), pairs)


@pytest.fixture(scope="module")
def codec() -> Codec:
    return built(COPY, [Pair("aab", "aab"), Pair("c", "c")])


def test_both_sides_end_with_end_and_the_target_begins_with_begin(codec: Codec):
    a, b, c = codec.source_vocabulary.to_ids("abc")
    assert codec.source("abc") == (a, b, c, Vocabulary.end)
    example = codec.example(Pair("ab", "ba"))
    assert example.source == (a, b, Vocabulary.end)
    assert example.target == (Vocabulary.begin, b, a, Vocabulary.end)
    assert codec.examples([Pair("ab", "ba")]) == [example]


def test_source_tokens_are_the_tokens_of_the_encoder(codec: Codec):
    assert codec.source_tokens("ab") == ["a", "b", END]


def test_an_unknown_source_token_is_refused_with_its_position(codec: Codec):
    with pytest.raises(UserError, match="token 2, 'd', is not among the 3 that this model has learned"):
        codec.source("ade")


def test_a_typed_special_token_is_read_as_characters():
    text = "a<end>"
    codec = built(COPY, [Pair(text, text)])
    assert Vocabulary.end not in codec.source(text)[:-1]
    assert codec.source_tokens(text) == [*text, END]
    assert codec.text(codec.example(Pair(text, text)).target) == text


def test_an_unknown_target_token_is_refused(codec: Codec):
    with pytest.raises(UserError, match="token 2, 'd', is not among the"):
        codec.example(Pair("a", "ad"))


def test_special_tokens_are_not_part_of_the_text(codec: Codec):
    a = codec.target_vocabulary.to_ids("a")[0]
    assert codec.text([Vocabulary.begin, a, Vocabulary.pad, a, Vocabulary.end]) == "aa"
    assert codec.text([]) == ""


def test_a_decoder_prompt_is_the_start_token():
    pairs = [Pair("<U> ab", "AB"), Pair("<L> ab", "ab")]
    codec = built(CaseTask(CaseSection(prompt="decoder")), pairs)
    upper, lower = codec.target_vocabulary.to_ids(["<U>", "<L>"])
    assert upper != lower
    assert (codec.start("<U> a"), codec.start("<L> a")) == (upper, lower)
    assert codec.example(pairs[0]).target[0] == upper
    assert codec.source_tokens("<U> ab") == ["a", "b", END]


@pytest.mark.parametrize(("prompt", "expected"), [("first", ["<U>", "a", END]), ("last", ["a", "<U>", END])])
def test_an_encoder_prompt_is_one_token(prompt: str, expected: list[str]):
    codec = built(CaseTask(CaseSection(prompt=prompt)), [Pair("<U> a", "A")])
    assert codec.source_tokens("<U> a") == expected
    assert codec.target_vocabulary.to_tokens([codec.start("<U> a")]) == [BEGIN]


def test_a_blank_is_a_token_but_not_part_of_the_text():
    codec = built(SpacesTask(SpacesSection()), [Pair("a b", "ab")])
    target = codec.example(Pair("a b", "ab")).target
    assert codec.target_vocabulary.to_tokens(target) == [BEGIN, "a", "<blank>", "b", END]
    assert codec.text(target) == "ab"


def test_a_prefix_is_the_ids_of_its_target_tokens():
    codec = built(CaseTask(CaseSection()), [Pair("<U> aab", "AAB"), Pair("<L> b", "b")])
    upper_a, upper_b, lower_b = codec.target_vocabulary.to_ids("ABb")
    assert codec.prefix("BAb") == (upper_b, upper_a, lower_b), "neither a start token nor an end"
    assert codec.prefix("") == ()


def test_a_prefix_of_tokens_is_used_as_given_and_may_end():
    codec = built(CaseTask(CaseSection(train=50)), [Pair("<U> ab", "AB"), Pair("<L> Ab", "ab")])
    upper_a, upper_b = codec.target_vocabulary.to_ids("AB")
    assert codec.prefix(("A", "B")) == (upper_a, upper_b)
    assert codec.prefix(("A", END)) == (upper_a, Vocabulary.end)
    assert codec.prefix((END,)) == (Vocabulary.end,)
    assert codec.prefix(()) == ()


def test_an_unknown_prefix_is_refused_with_its_position():
    codec = built(CaseTask(CaseSection()), [Pair("<U> aab", "AAB")])
    with pytest.raises(UserError, match="token 2, 'a', is not among the 2 that this model has learned"):
        codec.prefix("Aa")


def test_typed_special_tokens_in_a_prefix_are_characters(codec: Codec):
    with pytest.raises(UserError, match="token 1, '<', is not among"):
        codec.prefix(END)
    prompted = built(CaseTask(CaseSection(prompt="decoder")), [Pair("<U> ab", "AB")])
    assert "<U>" in prompted.target_vocabulary
    with pytest.raises(UserError, match="token 1, '<', is not among"):
        prompted.prefix("<U>")
    spelled = built(COPY, [Pair("a<end>", "a<end>")])
    assert spelled.target_vocabulary.to_tokens(spelled.prefix(END)) == list(END)


@pytest.mark.parametrize("token", SPECIAL)
def test_typed_special_tokens_in_a_prefix_of_words_are_refused(token: str):
    codec = built(ClausesTask(ClausesSection()), [Pair("ich esse", "i eat")])
    assert codec.target_vocabulary.to_tokens(codec.prefix(" i  eat ")) == ["i", "eat"]
    with pytest.raises(UserError, match=f"token 3, '{token}', is not among the 2 that this model has learned"):
        codec.prefix(f"i eat {token}")


@pytest.mark.parametrize("name", [name for name, task in TASKS.items() if issubclass(task, GeneratedTask)])
def test_every_pair_of_a_task_is_decoded_from_its_ids(name: str):
    task = TASKS[name](TASKS[name].Section.model_validate({"train": 300, "validation": 20, "test": 20}))
    splits = task.dataset.splits()
    codec = built(task, splits["train"])
    for pair in splits["train"]:
        example = codec.example(pair)
        assert Vocabulary.unknown not in (*example.source, *example.target)
        assert codec.text(example.target) == pair.target


@given(text=st.text(max_size=8))
def test_any_text_is_encoded_or_refused(text: str):
    codec = built(COPY, [Pair("aab", "aab")])
    try:
        ids = codec.source(text)
    except UserError:
        assert set(text) - set("ab")
    else:
        assert codec.source_vocabulary.to_tokens(ids[:-1]) == list(text)


# --- Open vocabularies: unseen tokens are unknown --------------------------------------------------------


@pytest.fixture(scope="module")
def words() -> Codec:
    task = FilesTask(FilesSection(train="train", validation="validation", text=TextSection(unit="words", joint=False)))
    return built(task, [Pair("ein Hund, zwei Hunde", "a dog, two dogs")])


def test_an_unknown_word_is_read_as_unknown(words: Codec):
    assert words.source_tokens("ein Kamel, zwei Hunde") == ["ein", UNKNOWN, "￭,", "zwei", "Hunde", END]
    example = words.example(Pair("ein Kamel", "a camel"))
    assert words.source_vocabulary.to_tokens(example.source) == ["ein", UNKNOWN, END]
    assert words.target_vocabulary.to_tokens(example.target) == [BEGIN, "a", UNKNOWN, END]


@pytest.mark.parametrize("token", SPECIAL)
def test_a_typed_special_token_is_unknown_in_an_open_vocabulary(words: Codec, token: str):
    name = token.strip("<>")
    assert words.source(f"ein {token}")[1:-1] == (Vocabulary.unknown,) * 3, f"<￭, {name} and ￭>"


def test_a_prefix_of_unknown_words_is_refused_in_an_open_vocabulary(words: Codec):
    assert words.target_vocabulary.to_tokens(words.prefix("a dog")) == ["a", "dog"]
    with pytest.raises(UserError, match="token 2, 'camel', is not among the 5 that this model has learned"):
        words.prefix("a camel")


def test_an_unknown_word_is_omitted_unless_it_is_replaced(words: Codec):
    a, two = words.target_vocabulary.to_ids(["a", "two"])
    ids = [Vocabulary.begin, a, Vocabulary.unknown, two, Vocabulary.unknown, Vocabulary.end]
    assert words.text(ids) == "a two"
    assert words.text(ids, {2: "Kamel"}) == "a Kamel two"
    assert words.text(ids, {4: "Kamele", 2: "Kamel"}) == "a Kamel two Kamele"


def test_a_tokenization_with_one_segmentation_is_not_resampled(words: Codec, codec: Codec):
    for each_codec, pair in ((words, Pair("ein Hund", "a dog")), (codec, Pair("ab", "ba"))):
        example = each_codec.example(pair)
        assert not each_codec.tokenization.can_resample
        assert each_codec.resample(example, Random(1)) == example


def test_resampling_keeps_the_start_token(monkeypatch: pytest.MonkeyPatch):
    prompted = built(CaseTask(CaseSection(prompt="decoder")), [Pair("<U> ab", "AB")])
    monkeypatch.setattr(CaseTokenization, "resample", lambda self, source, target, random: (source[::-1], target[::-1]))
    example = prompted.example(Pair("<U> ab", "AB"))
    (start, *target_ids, end), (*source_ids, _) = example.target, example.source
    assert prompted.resample(example, Random(1)) == Example((*source_ids[::-1], end), (start, *target_ids[::-1], end))
    assert start == prompted.target_vocabulary.to_ids(["<U>"])[0]
