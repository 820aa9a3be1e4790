"""The lookahead task: the translation of an early word depends on a later word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Self

from pydantic import Field, model_validator

from regard.config.base import invalid_combination
from regard.tasks import lookahead_lexicon as lexicon
from regard.tasks.generated import GeneratedDataset, GeneratedSection, GeneratedTask
from regard.tasks.lookahead_lexicon import Word
from regard.text import Pair, Tokenization, WhitespaceTokenizer

COMMA, AND, PERIOD = Word(",", ","), Word("and", "und"), Word(".", ".")
ADJECTIVE_SHARE = 0.3  # of the nouns


class LookaheadSection(GeneratedSection):
    """Settings of the lookahead task.

    Attributes:
        task: Name of the task.
        ambiguous: Number of ambiguous nouns of a sentence, each of which has a cue.
        min_distance: Smallest number of other nouns between the ambiguous nouns and the cues.
        max_distance: Largest number of other nouns between the ambiguous nouns and the cues.
    """

    task: str = "lookahead"
    ambiguous: int = Field(default=2, ge=1, le=len(lexicon.AMBIGUOUS))
    min_distance: int = Field(default=1, ge=0, le=100)
    max_distance: int = Field(default=4, ge=0, le=100)

    @model_validator(mode="after")
    def _check_distances(self) -> Self:
        if self.min_distance > self.max_distance:
            raise invalid_combination(
                "min_distance", f"{self.min_distance} is more than max_distance, {self.max_distance}; make it smaller"
            )
        return self


class LookaheadDataset(GeneratedDataset[LookaheadSection]):
    """Random lists: ambiguous nouns, other nouns, and one cue for each ambiguous noun, in any order.

    Both meanings of a noun are equally likely, and its cue alone determines which one it has.

    Args:
        section: The settings of the task.
    """

    def generate(self, random: Random) -> Pair:
        nouns = self._nouns(random)
        words = [random.choice(lexicon.SUBJECTS), random.choice(lexicon.VERBS)]
        for index, noun in enumerate(nouns):
            if index:
                words.append(AND if index == len(nouns) - 1 else COMMA)
            if random.random() < ADJECTIVE_SHARE:
                words.append(random.choice(lexicon.ADJECTIVES))
            words.append(noun)
        return _word_by_word([*words, PERIOD])

    def _nouns(self, random: Random) -> list[Word]:
        distance = random.randint(self.section.min_distance, self.section.max_distance)
        ambiguous, cues = [], []
        for noun in random.sample(lexicon.AMBIGUOUS, self.section.ambiguous):
            sense = random.choice(noun.senses)
            ambiguous.append(Word(noun.english, sense.german))
            cues.append(random.choice(sense.cues))
        random.shuffle(cues)
        return [*ambiguous, *random.choices(lexicon.NEUTRAL_NOUNS, k=distance), *cues]


def _word_by_word(words: Sequence[Word]) -> Pair:
    """The English sentence, the German one, and the alignment of their words, which is the diagonal."""
    alignment = frozenset((position, position) for position in range(len(words)))
    return Pair(" ".join(word.english for word in words), " ".join(word.german for word in words), alignment)


@dataclass(frozen=True)
class LookaheadTokenization(Tokenization):
    """Tokens are words and punctuation marks, with spaces between them."""

    tokenizer = WhitespaceTokenizer()
    function_words = frozenset({COMMA.german, AND.german, PERIOD.german})


class LookaheadTask(GeneratedTask[LookaheadSection]):
    """`we see banks , bats , cars , owls and rivers .` → `wir sehen Ufer , Fledermäuse , Autos , Eulen und Flüsse .`

    With `streets` instead of `rivers`, the translation of `banks` is `Banken`; with `balls` instead of `owls`, that of
    `bats` is `Schläger`. Shows whether a state of the encoder depends on later words. All words but the ambiguous ones
    have one translation, at the same position, so that a model without lookahead translates (½)^`ambiguous` of the
    sentences correctly.

    Args:
        section: The settings of the task.
    """

    Section = LookaheadSection

    @property
    def dataset(self) -> LookaheadDataset:
        return LookaheadDataset(self.section)

    @property
    def tokenization(self) -> LookaheadTokenization:
        return LookaheadTokenization()
