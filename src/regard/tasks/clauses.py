"""German into English, by a small grammar that knows which words belong together.

A sentence is made in two steps: its meaning is drawn here, and `clauses_grammar` puts it into words.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import ClassVar, Literal

from pydantic import Field

from regard.tasks import clauses_lexicon as lexicon
from regard.tasks.base import Pair, ScoredBy
from regard.tasks.clauses_grammar import Circumstances, Clause, NounPhrase, Phrase, Tense, sentence
from regard.tasks.clauses_lexicon import Noun, Pronoun, Verb
from regard.tasks.generated import Generated
from regard.text import Spaced, Tokenizer


def draw_noun_phrase(random: Random, nouns: Sequence[Noun]) -> NounPhrase:
    noun = random.choice(nouns)
    adjective = random.choice(noun.adjectives) if random.random() < 0.45 else None
    return NounPhrase(noun, random.choice(noun.determiners), adjective, plural=random.random() < 0.35)


def draw_subject(random: Random) -> Pronoun | NounPhrase:
    if random.random() < 0.5:
        # Twice as often `ich` as the others, because most verbs have a form for `ich` alone.
        return random.choice((lexicon.ICH, *lexicon.PRONOUNS))
    return draw_noun_phrase(random, lexicon.PEOPLE)


def draw_verb(random: Random) -> Verb:
    # A separable verb comes up more often than another, because it has more forms to be learnt.
    return random.choice(lexicon.SEPARABLE_VERBS if random.random() < 0.5 else lexicon.SIMPLE_VERBS)


def draw_setting(random: Random, verb: Verb) -> Circumstances | None:
    if not verb.prepositions or random.random() < 0.5:
        return None
    preposition = random.choice(verb.prepositions)
    return Circumstances(preposition, draw_noun_phrase(random, preposition.nouns))


def draw_clause(random: Random, verb: Verb, past: bool) -> Clause:
    tense: Tense
    if past:
        tense, times = "past", lexicon.TIMES_PAST
    elif random.random() < 0.3:
        tense, times = random.choice(lexicon.MODALS), lexicon.TIMES_MODAL
    else:
        tense, times = "present", lexicon.TIMES_PRESENT
    adverb = random.choice(("time", "frequency", None, None))
    return Clause(
        subject=draw_subject(random),
        verb=verb,
        tense=tense,
        object=draw_noun_phrase(random, verb.objects) if verb.objects else None,
        setting=draw_setting(random, verb),
        time=random.choice(times) if adverb == "time" else (),
        time_first=adverb == "time" and random.random() < 0.5,
        frequency=random.choice(lexicon.FREQUENCIES) if adverb == "frequency" else None,
        negated=adverb != "frequency" and random.random() < 0.3,
    )


def draw_clauses(random: Random, length: int) -> Phrase:
    """A sentence of `length` clauses. All or none are about the past: `if he sang , i sing` would be odd."""
    past = random.random() < 0.25
    clauses: list[Clause] = []
    conjunctions: list[tuple[str, str]] = []
    for _ in range(length - 1):
        if random.random() < 0.3:
            conjunctions.append(lexicon.THAT)
            clauses.append(draw_clause(random, random.choice(lexicon.REPORTING_VERBS), past))
        else:
            conjunctions.append(random.choice(lexicon.CIRCUMSTANCES))
            clauses.append(draw_clause(random, draw_verb(random), past))
    clauses.append(draw_clause(random, draw_verb(random), past))
    # A clause with `dass` stays behind the verb that it depends on.
    may_swap = length > 1 and lexicon.THAT not in conjunctions
    return sentence(clauses, conjunctions, swapped=may_swap and random.random() < 0.4)


class Clauses(Generated):
    """German sentences into English ones, with the order of words that makes German German.

    Verbs stand second in main clauses and last in subordinate ones, some fall into two pieces far apart, and
    `kein` is an article as well as the `not` of a verb elsewhere. To find the next English word, one has to look
    where no rule about positions would send one. As the true alignment comes with each pair, attention can be
    checked against it.
    """

    task: Literal["clauses"] = "clauses"
    train: int = Field(12_000, ge=1)
    max_clauses: int = Field(2, ge=1, le=3)

    tokenizer: ClassVar[Tokenizer] = Spaced()
    scored_by: ClassVar[ScoredBy] = "bleu"
    # Grammar, and the words that the one before them gives away: `up` after `get`, `front of` after `in`.
    function_words: ClassVar[frozenset[str]] = frozenset(
        {"the", "a", "an", "any", "that", "to", "do", "does", "did", ",", "."}
        | {"front", "of", "up", "on", "off", "back", "away", "for"}
    )

    def generate(self, random: Random) -> Pair:
        return draw_clauses(random, random.randint(1, self.max_clauses)).pair()
