"""The questions task: answer a question about a few facts."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import NamedTuple, Self

from pydantic import Field, model_validator

from regard.config.base import invalid_combination
from regard.tasks.generated import GeneratedDataset, GeneratedSection, GeneratedTask
from regard.text import Pair, Tokenization, WordTokenizer

WORDS = WordTokenizer()
PEOPLE = ("Anna", "Daniel", "John", "Julia", "Mary", "Paul", "Peter", "Sandra")
PLACES = ("attic", "bathroom", "bedroom", "cellar", "garage", "garden", "hallway", "kitchen", "library", "office")
OBJECTS = ("apple", "ball", "book", "cup", "hat", "key", "lamp", "letter", "phone", "umbrella")


class Relation(NamedTuple):
    """A relation between a person and a thing.

    Args:
        predicate: The words between the person and the thing in a fact.
        question: The question for the thing; `{}` is the person.
        things: All things.
    """

    predicate: str
    question: str
    things: tuple[str, ...]


RELATIONS = (
    Relation("is in the", "Where is {}?", PLACES),
    Relation("has the", "What does {} have?", OBJECTS),
)
MIN_OF_RELATION = 2  # facts, so that a question for a relation has at least two possible answers
FACT_BOUNDS = (len(RELATIONS) * MIN_OF_RELATION, len(RELATIONS) * len(PEOPLE))


class Fact(NamedTuple):
    """A person, a relation and a thing.

    Args:
        person: The person.
        relation: The relation.
        thing: A thing of the relation.
    """

    person: str
    relation: Relation
    thing: str

    def __str__(self) -> str:
        return f"{self.person} {self.relation.predicate} {self.thing}"


class QuestionsSection(GeneratedSection):
    """Settings of the questions task.

    Attributes:
        task: Name of the task.
        min_facts: Smallest number of facts.
        max_facts: Largest number of facts.
    """

    task: str = "questions"
    min_facts: int = Field(default=4, ge=FACT_BOUNDS[0], le=FACT_BOUNDS[1])
    max_facts: int = Field(default=8, ge=FACT_BOUNDS[0], le=FACT_BOUNDS[1])

    @model_validator(mode="after")
    def _check_facts(self) -> Self:
        if self.min_facts > self.max_facts:
            raise invalid_combination(
                "min_facts", f"{self.min_facts} is more than max_facts, {self.max_facts}; make it smaller"
            )
        return self


class QuestionsDataset(GeneratedDataset[QuestionsSection]):
    """Random facts in random order, with a question that one of them answers.

    A person has at most one thing of each relation, and a thing at most one person. There are at least two facts of
    each relation, and the person who is asked about has one of each: neither the person nor the relation is enough to
    find the answer.

    Args:
        section: The settings of the task.
    """

    def generate(self, random: Random) -> Pair:
        person = random.choice(PEOPLE)
        facts = self._facts(random, person)
        relation = random.choice(RELATIONS)
        asked = next(fact for fact in facts if fact.person == person and fact.relation == relation)
        return _question_and_answer(facts, asked)

    def _facts(self, random: Random, person: str) -> list[Fact]:
        """Facts of both relations; one of each is about `person`."""
        count = random.randint(self.section.min_facts, self.section.max_facts)
        first = random.randint(max(MIN_OF_RELATION, count - len(PEOPLE)), min(count - MIN_OF_RELATION, len(PEOPLE)))
        others = [other for other in PEOPLE if other != person]
        facts: list[Fact] = []
        for relation, size in zip(RELATIONS, (first, count - first), strict=True):
            people = [person, *random.sample(others, size - 1)]
            things = random.sample(relation.things, size)
            facts += [Fact(one, relation, thing) for one, thing in zip(people, things, strict=True)]
        random.shuffle(facts)
        return facts


def _question_and_answer(facts: list[Fact], asked: Fact) -> Pair:
    """The facts and a question, and the answer, whose last word is aligned with the same word of the fact."""
    text = " ".join(f"{fact}." for fact in facts)
    answer = str(asked)
    word, last = WORDS.tokenize(text).index(asked.thing), len(WORDS.tokenize(answer)) - 1
    return Pair(f"{text} {asked.relation.question.format(asked.person)}", answer, frozenset({(word, last)}))


@dataclass(frozen=True)
class QuestionsTokenization(Tokenization):
    """Tokens are words and punctuation marks."""

    tokenizer = WORDS


class QuestionsTask(GeneratedTask[QuestionsSection]):
    """`John has the ball. Mary is in the attic. … Where is Mary?` → `Mary is in the attic`.

    Shows attention as a lookup: the answer repeats one of the facts, and the question determines which. Only its last
    word is aligned, because the others are known from the question.

    Args:
        section: The settings of the task.
    """

    Section = QuestionsSection

    @property
    def dataset(self) -> QuestionsDataset:
        return QuestionsDataset(self.section)

    @property
    def tokenization(self) -> QuestionsTokenization:
        return QuestionsTokenization()
