"""German to English sentences of a small grammar, with gold alignments.

A sentence is generated in two steps: its meaning is sampled here, and `clauses_grammar` expresses it in both languages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from pydantic import Field

from regard.tasks import clauses_lexicon as lexicon
from regard.tasks.clauses_grammar import Clause, NounPhrase, Phrase, PrepositionalPhrase, Tense, sentence
from regard.tasks.clauses_lexicon import Noun, Pronoun, Verb
from regard.tasks.generated import GeneratedDataset, GeneratedSection, GeneratedTask
from regard.text import Pair, Tokenization, WhitespaceTokenizer


def random_noun_phrase(random: Random, nouns: Sequence[Noun]) -> NounPhrase:
    """A noun with its determiner, and perhaps an adjective.

    Args:
        random: The source of randomness.
        nouns: Nouns to choose from.
    """
    noun = random.choice(nouns)
    adjective = random.choice(noun.adjectives) if random.random() < 0.45 else None
    return NounPhrase(noun, random.choice(noun.determiners), adjective, plural=random.random() < 0.35)


def random_subject(random: Random) -> Pronoun | NounPhrase:
    """A pronoun or a person.

    Args:
        random: The source of randomness.
    """
    if random.random() < 0.5:
        # `ich` is twice as frequent as the others, because most verbs have a form for `ich` alone.
        return random.choice((lexicon.ICH, *lexicon.PRONOUNS))
    return random_noun_phrase(random, lexicon.PEOPLE)


def random_verb(random: Random) -> Verb:
    """A verb, half of the time a separable one.

    Args:
        random: The source of randomness.
    """
    # Separable verbs are sampled more often, because they have more forms.
    return random.choice(lexicon.SEPARABLE_VERBS if random.random() < 0.5 else lexicon.SIMPLE_VERBS)


def random_setting(random: Random, verb: Verb) -> PrepositionalPhrase | None:
    """A prepositional phrase that fits the verb, or None.

    Args:
        random: The source of randomness.
        verb: The verb.
    """
    if not verb.prepositions or random.random() < 0.5:
        return None
    preposition = random.choice(verb.prepositions)
    return PrepositionalPhrase(preposition, random_noun_phrase(random, preposition.nouns))


def random_clause(random: Random, verb: Verb, past: bool) -> Clause:
    """A clause with a verb.

    Args:
        random: The source of randomness.
        verb: The verb.
        past: Whether it is in the past tense.
    """
    tense: Tense
    if past:
        tense, times = "past", lexicon.TIMES_PAST
    elif random.random() < 0.3:
        tense, times = random.choice(lexicon.MODALS), lexicon.TIMES_MODAL
    else:
        tense, times = "present", lexicon.TIMES_PRESENT
    adverb = random.choice(("time", "frequency", None, None))
    return Clause(
        subject=random_subject(random),
        verb=verb,
        tense=tense,
        object=random_noun_phrase(random, verb.objects) if verb.objects else None,
        setting=random_setting(random, verb),
        time=random.choice(times) if adverb == "time" else (),
        time_first=adverb == "time" and random.random() < 0.5,
        frequency=random.choice(lexicon.FREQUENCIES) if adverb == "frequency" else None,
        negated=adverb != "frequency" and random.random() < 0.3,
    )


def random_sentence_pair(random: Random, length: int) -> Phrase:
    """A sentence with its translation. All of its clauses are in the past tense or none: not `if he sang , i sing`.

    Args:
        random: The source of randomness.
        length: Number of clauses.
    """
    past = random.random() < 0.25
    clauses: list[Clause] = []
    conjunctions: list[tuple[str, str]] = []
    for _ in range(length - 1):
        if random.random() < 0.3:
            conjunctions.append(lexicon.THAT)
            clauses.append(random_clause(random, random.choice(lexicon.REPORTING_VERBS), past))
        else:
            conjunctions.append(random.choice(lexicon.CONJUNCTIONS))
            clauses.append(random_clause(random, random_verb(random), past))
    clauses.append(random_clause(random, random_verb(random), past))
    # A clause with `dass` follows the verb that it depends on.
    may_swap = length > 1 and lexicon.THAT not in conjunctions
    return sentence(clauses, conjunctions, swapped=may_swap and random.random() < 0.4)


class ClausesSection(GeneratedSection):
    """Settings of the task `clauses`.

    Attributes:
        task: Name of the task.
        train: Number of training pairs.
        max_clauses: Largest number of clauses of a sentence.
    """

    task: str = "clauses"
    train: int = Field(default=12_000, ge=1)
    max_clauses: int = Field(default=2, ge=1, le=3)


class ClausesDataset(GeneratedDataset[ClausesSection]):
    """Random German sentences and their English translations.

    Args:
        section: The settings of the task.
    """

    def generate(self, random: Random) -> Pair:
        return random_sentence_pair(random, random.randint(1, self.section.max_clauses)).pair()


@dataclass(frozen=True)
class ClausesTokenization(Tokenization):
    """Tokens are words and punctuation marks, with spaces between them."""

    tokenizer = WhitespaceTokenizer()
    # Grammatical words, and words that follow from the one before them: `up` after `get`, `front of` after `in`.
    function_words = frozenset(
        {"the", "a", "an", "any", "that", "to", "do", "does", "did", ",", "."}
        | {"front", "of", "up", "on", "off", "back", "away", "for"}
    )


class ClausesTask(GeneratedTask[ClausesSection]):
    """German sentences into English ones, with German word order.

    The verb is second in main clauses and last in subordinate ones, the parts of separable verbs are far apart, and
    `kein` is both an article and the `not` of a verb. So no rule about positions predicts the next English word. Each
    pair has a gold alignment, with which attention can be compared.

    Args:
        section: The settings of the task.
    """

    Section = ClausesSection
    metrics = ("bleu_lc", "bleu", "chrf", "exact_match")

    @property
    def dataset(self) -> ClausesDataset:
        return ClausesDataset(self.section)

    @property
    def tokenization(self) -> ClausesTokenization:
        return ClausesTokenization()
