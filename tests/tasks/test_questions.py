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
QUESTIONS = {
    r"Where is (\w+)\?": ("is in", 0),
    r"What does (\w+) have\?": ("has", 0),
    r"Who is in the (\w+)\?": ("is in", 2),
    r"Who has the (\w+)\?": ("has", 2),
}
seeds = st.integers(0, 2**32)
fact_counts = st.tuples(st.integers(4, 16), st.integers(4, 16)).map(sorted)


def generate(seed: int, shortest: int = 4, longest: int = 6) -> Pair:
    return QuestionsDataset(QuestionsSection(min_facts=shortest, max_facts=longest)).generate(Random(seed))


def parse(source: str) -> tuple[list[tuple[str, ...]], str, int, str]:
    """The facts, and the relation, the known part and the word of the question."""
    facts = FACT.findall(source)
    question = FACT.sub("", source).strip()
    for pattern, (relation, known) in QUESTIONS.items():
        if match := re.fullmatch(pattern, question):
            return facts, relation, known, match[1]
    raise AssertionError(question)


def answers(source: str) -> list[str]:
    """All answers that the facts give, by rule."""
    facts, relation, known, word = parse(source)
    found = [fact for fact in facts if fact[1] == relation and fact[known] == word]
    begin = {("is in", 0): "in the ", ("has", 0): "the "}.get((relation, known), "")
    return [f"{begin}{fact[2 - known]}" for fact in found]


def test_pairs_checked_by_hand():
    assert generate(1, 4, 4) == Pair(
        "John has the lamp. Mary has the cup. Anna is in the office. John is in the kitchen. What does John have?",
        "the lamp",
        frozenset({(2, 0), (3, 1)}),
    )
    assert generate(2, 4, 4) == Pair(
        "Julia is in the garage. Julia has the cup. Anna has the umbrella. Anna is in the bedroom. "
        "Who has the umbrella?",
        "Anna",
        frozenset({(11, 0)}),
    )
    assert answers("Mary is in the kitchen. John has the ball. Where is Mary?") == ["in the kitchen"]
    assert answers("Mary is in the kitchen. John has the ball. Who has the ball?") == ["John"]


@given(seed=seeds, counts=fact_counts)
def test_the_facts_give_one_answer(seed: int, counts: list[int]):
    pair = generate(seed, *counts)
    assert answers(pair.source) == [pair.target]
    assert counts[0] <= len(FACT.findall(pair.source)) <= counts[1]


@given(seed=seeds, counts=fact_counts)
def test_neither_the_person_nor_the_relation_is_enough(seed: int, counts: list[int]):
    facts, relation, known, word = parse(generate(seed, *counts).source)
    assert Counter(fact[1] for fact in facts).keys() == {"is in", "has"}
    assert min(Counter(fact[1] for fact in facts).values()) >= 2
    assert sum(fact[1] == relation and fact[known] != word for fact in facts) >= 1
    if known == 0:
        assert {fact[1] for fact in facts if fact[0] == word} == {"is in", "has"}
    for part in (0, 2):
        named = [(fact[part], fact[1]) for fact in facts]
        assert len(set(named)) == len(named), "a person or thing is in two facts of one relation"


@given(seed=seeds)
def test_swapping_the_answer_with_another_one_changes_the_answer(seed: int):
    """The answer is not determined by anything but its fact: the same texts with two words swapped are as likely."""
    pair = generate(seed)
    facts, relation, known, word = parse(pair.source)
    answer = pair.target.split()[-1]
    other = next(fact[2 - known] for fact in facts if fact[1] == relation and fact[known] != word)
    swapped = re.sub(rf"\b({answer}|{other})\b", lambda match: other if match[0] == answer else answer, pair.source)
    assert answers(swapped) == [pair.target.replace(answer, other)]


@given(seed=seeds, counts=fact_counts)
def test_the_answer_is_aligned_with_the_words_of_its_fact(seed: int, counts: list[int]):
    task = QuestionsTask(QuestionsSection())
    pair = generate(seed, *counts)
    source, target = task.tokenization.source_tokens(pair.source), task.tokenization.target_tokens(pair)
    links = sorted(pair.alignment, key=lambda link: link[1])
    assert [step for _, step in links] == list(range(len(target)))
    assert [source[position] for position, _ in links] == target
    facts, relation, known, word = parse(pair.source)
    place = next(index for index, fact in enumerate(facts) if fact[1] == relation and fact[known] == word)
    ends = [-1, *(position for position, token in enumerate(source) if token.endswith("."))]
    assert all(ends[place] < position < ends[place + 1] for position, _ in links)


def test_a_question_does_not_tell_its_answer():
    """Guesses from the question alone, or from the number of facts about a person, are hardly better than chance."""
    pairs = QuestionsDataset(QuestionsSection()).pairs("train")
    known: Counter[tuple[str, str]] = Counter()
    repeated, chance, who = 0, 0.0, 0
    for pair in pairs:
        facts, relation, part, word = parse(pair.source)
        known[f"{relation} {part} {word}", pair.target] += 1
        if part == 2:
            candidates = [fact[0] for fact in facts if fact[1] == relation]
            both = [name for name in candidates if sum(fact[0] == name for fact in facts) == 2]
            repeated += both[0] == pair.target
            chance += 1 / len(candidates)
            who += 1
    questions = {question for question, _ in known}
    best = sum(max(count for (asked, _), count in known.items() if asked == question) for question in questions)
    assert len(questions) == 2 * (len(PEOPLE) + len(RELATIONS[0].things))
    assert best / len(pairs) < 0.16
    assert repeated / who == pytest.approx(chance / who, abs=0.02)


def test_all_words_and_all_kinds_of_questions_are_frequent_in_training():
    pairs = QuestionsDataset(QuestionsSection()).pairs("train")
    counts = Counter(word for pair in pairs for word in pair.target.split())
    assert set(counts) == {"in", "the", *PEOPLE, *(thing for relation in RELATIONS for thing in relation.things)}
    assert min(counts.values()) > 400
    kinds = Counter(parse(pair.source)[1:3] for pair in pairs)
    assert len(kinds) == 4
    assert min(kinds.values()) > 4_700
    assert sorted(Counter(len(FACT.findall(pair.source)) for pair in pairs)) == [4, 5, 6]


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
        ("min_facts=9", r"data\.min_facts.*9 is more than max_facts, 6; make it smaller"),
    ],
)
def test_settings_out_of_bounds_are_reported_with_key_and_bound(setting: str, message: str):
    with pytest.raises(UserError, match=message):
        loading.load_experiment("questions", [f"data.{setting}"])
    with pytest.raises(ValidationError):
        QuestionsSection(**{setting.split("=")[0]: int(setting.split("=")[1])})
