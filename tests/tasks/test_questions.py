"""The task `questions`: the facts, and nothing else, determine the answer."""

from __future__ import annotations

import re
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from regard.config import loading
from regard.data import Codec
from regard.errors import UserError
from regard.tasks.questions import PEOPLE, RELATIONS, QuestionsDataset, QuestionsSection, QuestionsTask
from regard.text import Pair

FACT = re.compile(r"(\w+) (is in|has) the (\w+)\.")
QUESTIONS = {r"Where is (\w+)\?": "is in", r"What does (\w+) have\?": "has"}
seeds = st.integers(0, 2**32)
fact_counts = st.tuples(st.integers(4, 16), st.integers(4, 16)).map(sorted)


def generate(seed: int, shortest: int = 4, longest: int = 8) -> Pair:
    return QuestionsDataset(QuestionsSection(min_facts=shortest, max_facts=longest)).generate(Random(seed))


def parse(source: str) -> tuple[list[tuple[str, ...]], str, str]:
    """The facts, and the person and the relation of the question."""
    facts = FACT.findall(source)
    question = FACT.sub("", source).strip()
    for pattern, relation in QUESTIONS.items():
        if match := re.fullmatch(pattern, question):
            return facts, match[1], relation
    raise AssertionError(question)


def answers(source: str) -> list[str]:
    """All answers that the facts give, by rule."""
    facts, person, relation = parse(source)
    return [f"{person} {relation} the {fact[2]}" for fact in facts if fact[:2] == (person, relation)]


def test_pairs_checked_by_hand():
    assert generate(1, 4, 4) == Pair(
        "John has the lamp. Mary has the cup. Anna is in the office. John is in the kitchen. What does John have?",
        "John has the lamp",
        frozenset({(3, 3), (4, 3)}),
    )
    facts = "Mary has the ball. Mary is in the kitchen. John is in the attic."
    assert answers(f"{facts} Where is Mary?") == ["Mary is in the kitchen"]
    assert answers(f"{facts} What does Mary have?") == ["Mary has the ball"]


@given(seed=seeds, counts=fact_counts)
def test_the_facts_give_one_answer(seed: int, counts: list[int]):
    pair = generate(seed, *counts)
    assert answers(pair.source) == [pair.target]
    assert counts[0] <= len(FACT.findall(pair.source)) <= counts[1]


@given(seed=seeds, counts=fact_counts)
def test_neither_the_person_nor_the_relation_is_enough(seed: int, counts: list[int]):
    facts, person, relation = parse(generate(seed, *counts).source)
    assert min(Counter(fact[1] for fact in facts).values()) >= 2
    assert sum(fact[1] == relation and fact[0] != person for fact in facts) >= 1
    assert {fact[1] for fact in facts if fact[0] == person} == {"is in", "has"}
    for part in (0, 2):
        named = [(fact[part], fact[1]) for fact in facts]
        assert len(set(named)) == len(named), "a person or thing is in two facts of one relation"


@given(seed=seeds)
def test_swapping_the_answer_with_another_thing_changes_the_answer(seed: int):
    """Only the fact determines the answer: the same text with two things swapped is as likely, and has the other."""
    pair = generate(seed)
    facts, person, relation = parse(pair.source)
    thing = pair.target.split()[-1]
    other = next(fact[2] for fact in facts if fact[1] == relation and fact[0] != person)
    swapped = re.sub(rf"\b({thing}|{other})\b", lambda match: other if match[0] == thing else thing, pair.source)
    assert answers(swapped) == [pair.target.replace(thing, other)]


@given(seed=seeds, counts=fact_counts)
def test_the_last_word_of_the_answer_is_aligned_with_the_end_of_its_fact(seed: int, counts: list[int]):
    tokenization = QuestionsTask(QuestionsSection()).tokenization
    pair = generate(seed, *counts)
    source, target = tokenization.source_tokens(pair.source), tokenization.target_tokens(pair)
    (position, step), (after, same_step) = sorted(pair.alignment)
    assert step == same_step == len(target) - 1
    assert source[position - step : position + 1] == target, "the words before it are those of the fact"
    assert after == position + 1
    assert source[after].endswith(".")


def test_the_answer_cannot_be_guessed():
    """Neither the question nor the place of a fact among those of its relation predicts the answer."""
    pairs = QuestionsDataset(QuestionsSection()).pairs("train")
    known: Counter[tuple[tuple[str, str], str]] = Counter()
    first, last, chance = 0, 0, 0.0
    for pair in pairs:
        facts, person, relation = parse(pair.source)
        thing = pair.target.split()[-1]
        known[(person, relation), thing] += 1
        possible = [fact[2] for fact in facts if fact[1] == relation]
        first += possible[0] == thing
        last += possible[-1] == thing
        chance += 1 / len(possible)
    questions = {question for question, _ in known}
    best = sum(max(count for (asked, _), count in known.items() if asked == question) for question in questions)
    assert len(questions) == len(PEOPLE) * len(RELATIONS)
    assert best / len(pairs) < 0.12, "ten things are equally likely"
    assert first / len(pairs) == pytest.approx(chance / len(pairs), abs=0.02)
    assert last / len(pairs) == pytest.approx(chance / len(pairs), abs=0.02)


def test_all_answers_and_both_questions_are_frequent_in_training():
    pairs = QuestionsDataset(QuestionsSection()).pairs("train")
    counts = Counter(pair.target.split()[-1] for pair in pairs)
    assert counts.keys() == {thing for relation in RELATIONS for thing in relation.things}
    assert min(counts.values()) > 900
    relations = Counter(parse(pair.source)[2] for pair in pairs)
    assert min(relations["is in"], relations["has"]) > 9_500
    assert sorted(Counter(len(FACT.findall(pair.source)) for pair in pairs)) == [4, 5, 6, 7, 8]


def test_an_unknown_word_is_refused():
    task = QuestionsTask(QuestionsSection(train=500))
    codec = Codec.build(task.tokenization, task.dataset.pairs("train"))
    assert codec.source("Mary is in the kitchen. John has the ball. Where is Mary?")
    with pytest.raises(UserError, match="token 5, 'submarine', is not among the"):
        codec.source("Mary is in the submarine. Where is Mary?")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("min_facts=3", r"data\.min_facts.* 4\b"),
        ("max_facts=17", r"data\.max_facts.* 16\b"),
        ("min_facts=9", r"data\.min_facts.*9 is more than max_facts, 8; make it smaller"),
    ],
)
def test_settings_out_of_bounds_are_reported_with_key_and_bound(setting: str, message: str):
    with pytest.raises(UserError, match=message):
        loading.load_experiment("questions", [f"data.{setting}"])
    with pytest.raises(ValidationError):
        QuestionsSection(**{setting.split("=")[0]: int(setting.split("=")[1])})
