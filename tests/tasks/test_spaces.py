from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import UserError
from regard.tasks.base import Pair
from regard.tasks.case import CaseDataset, CaseSection
from regard.tasks.spaces import BLANK, SpacesDataset, SpacesSection, SpacesTask

PAIR = Pair("a  b ", "ab")
seeds = st.integers(0, 2**32)


def test_with_blank_each_source_character_has_a_target_token():
    tokens = SpacesTask(SpacesSection()).tokenization.target_tokens(PAIR)
    assert tokens == ["a", BLANK, BLANK, "b", BLANK]
    assert SpacesTask(SpacesSection()).tokenization.target_text(tokens) == "ab"


def test_without_blank_spaces_have_no_target_token():
    assert SpacesTask(SpacesSection(blank=False)).tokenization.target_tokens(PAIR) == ["a", "b"]


def test_a_typed_blank_token_is_read_as_characters():
    pair = Pair("<blank> x", "<blank>x")
    tokens = SpacesTask(SpacesSection()).tokenization.target_tokens(pair)
    assert tokens == [*"<blank>", BLANK, "x"]
    assert SpacesTask(SpacesSection()).tokenization.target_text(tokens) == "<blank>x"


@pytest.mark.parametrize("other", ["", "a", "abb", "ba", "a  b ", "a b", " "])
def test_a_target_other_than_the_reference_has_no_blanks(other: str):
    assert SpacesTask(SpacesSection()).tokenization.target_tokens(Pair("a  b ", other)) == list(other)


@pytest.mark.parametrize("blank", [True, False])
@given(source=st.text("ab ", max_size=5), answer=st.text("ab ", max_size=5))
def test_the_tokens_of_any_target_spell_that_target(blank: bool, source: str, answer: str):
    task = SpacesTask(SpacesSection(blank=blank))
    tokens = task.tokenization.target_tokens(Pair(source, answer))
    assert task.tokenization.target_text(tokens) == answer
    right = answer == source.replace(" ", "")
    assert tokens.count(BLANK) == (source.count(" ") if blank and right else 0)


def test_a_source_of_only_spaces_has_an_empty_target():
    pair = Pair("   ", "")
    assert SpacesTask(SpacesSection()).tokenization.target_tokens(pair) == [BLANK] * 3
    assert SpacesTask(SpacesSection()).tokenization.target_text([BLANK] * 3) == ""
    assert SpacesTask(SpacesSection(blank=False)).tokenization.target_tokens(pair) == []


@pytest.mark.parametrize("blank", [True, False])
@given(seed=seeds)
def test_the_target_is_the_source_without_spaces(blank: bool, seed: int):
    pair = SpacesDataset(SpacesSection(blank=blank)).generate(Random(seed))
    assert pair.target == pair.source.replace(" ", "")
    assert 1 <= len(pair.source) <= 36


@pytest.mark.parametrize("blank", [True, False])
@given(seed=seeds)
def test_the_alignment_gives_each_target_token_its_source_character(blank: bool, seed: int):
    task = SpacesTask(SpacesSection(blank=blank))
    pair = task.dataset.generate(Random(seed))
    source, target = task.tokenization.source_tokens(pair.source), task.tokenization.target_tokens(pair)
    alignment = sorted(pair.alignment)
    assert [step for _, step in alignment] == list(range(len(target)))
    assert [source[origin].replace(" ", BLANK) for origin, _ in alignment] == target
    assert [origin for origin, _ in alignment] == sorted({origin for origin, _ in alignment})


def test_runs_of_spaces_are_common_and_texts_of_spaces_only_occur():
    sources = [pair.source for pair in SpacesDataset(SpacesSection()).splits()["train"]]
    runs = sum("  " in source for source in sources)
    assert runs > 1.5 * sum("  " in pair.source[4:] for pair in CaseDataset(CaseSection()).splits()["train"])
    assert any(source.isspace() for source in sources)


def test_a_tab_is_refused():
    with pytest.raises(UserError, match=r"not trained on the character '\\t', only on:"):
        SpacesTask(SpacesSection()).tokenization.source_tokens("a\tb")
