"""The grammar of the task `clauses`: expresses the same meaning in German and in English.

A `Clause` defines who does what, when and where, but no word order. Its parts are generated in both languages and
arranged in German and in English order. Each token has links, and tokens with a common link are aligned, so the gold
alignment of a sentence is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from regard.tasks import clauses_lexicon as lexicon
from regard.tasks.clauses_lexicon import Adjective, Case, Determiner, Gloss, Modal, Noun, Preposition, Pronoun, Verb
from regard.text import Pair

Tense = Literal["present", "past"] | Modal


# --- Words and the links between them -------------------------------------------------------------------


class WordLink:
    """A unit of meaning that both languages express: a German and an English word with a common link are aligned."""


@dataclass(frozen=True)
class Token:
    """A word and the units of meaning that it expresses."""

    text: str
    links: tuple[WordLink, ...]


def tokens(text: str, *links: WordLink) -> tuple[Token, ...]:
    """The words of a text as tokens with the same links."""
    return tuple(Token(word, links) for word in text.split())


@dataclass(frozen=True)
class Phrase:
    """A phrase in both languages."""

    german: tuple[Token, ...] = ()
    english: tuple[Token, ...] = ()

    def __add__(self, other: Phrase) -> Phrase:
        return Phrase(self.german + other.german, self.english + other.english)

    def pair(self) -> Pair:
        """Both texts and their alignment."""
        alignment = {
            (source_position, target_position)
            for source_position, german in enumerate(self.german)
            for target_position, english in enumerate(self.english)
            if set(german.links) & set(english.links)
        }
        source, target = (" ".join(token.text for token in side) for side in (self.german, self.english))
        return Pair(source, target, frozenset(alignment))


def gloss(*words: tuple[str, str]) -> Phrase:
    """A phrase of German and English words; the two sides of each item are aligned."""
    phrase = Phrase()
    for german, english in words:
        link = WordLink()
        phrase += Phrase(tokens(german, link), tokens(english, link))
    return phrase


# --- Noun phrases ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NounPhrase:
    """A noun with its determiner and, optionally, an adjective."""

    noun: Noun
    determiner: Determiner
    adjective: Adjective | None = None
    plural: bool = False

    @property
    def person(self) -> int:
        """The index of the verb form that agrees with it as a subject."""
        return 2 if self.plural else 1

    def phrase(self, case: Case, negation: WordLink | None = None) -> Phrase:
        """The phrase in both languages; with a `negation`, `ein` becomes `kein`, which is aligned to `not` and `a`."""
        determiner, links = self.determiner, [WordLink()]
        if negation and determiner is lexicon.A:
            determiner, links = lexicon.NOT_A, [*links, negation]
        column = 3 if self.plural else ("der", "die", "das").index(self.noun.article)
        content = gloss((self._german_noun(case), self.noun.english[self.plural]))
        if self.adjective:
            ending = determiner.endings[case][column]
            content = gloss((self.adjective.stem + ending, self.adjective.english)) + content
        article = determiner.english[self.plural]
        if article == "a" and content.english[0].text[0] in "aeiou":
            article = "an"
        return Phrase(tokens(determiner.forms[case][column], *links), tokens(article, links[0])) + content

    def _german_noun(self, case: Case) -> str:
        if not self.plural:
            return self.noun.singular
        return self.noun.dative_plural if case == "dative" else self.noun.plural


@dataclass(frozen=True)
class PrepositionalPhrase:
    """Where something happens, or with whom."""

    preposition: Preposition
    noun_phrase: NounPhrase

    def phrase(self) -> Phrase:
        phrase = gloss((self.preposition.german, self.preposition.english)) + self.noun_phrase.phrase("dative")
        preposition, article, *rest = phrase.german
        if (preposition.text, article.text) == ("in", "dem"):
            return Phrase((Token("im", preposition.links + article.links), *rest), phrase.english)
        return phrase


# --- Clauses --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Clause:
    """The meaning of a clause. `frequency` and `negated` exclude each other."""

    subject: Pronoun | NounPhrase
    verb: Verb
    tense: Tense = "present"
    object: NounPhrase | None = None
    setting: PrepositionalPhrase | None = None
    time: Gloss = ()
    time_first: bool = False  # `heute liest er` rather than `er liest heute`
    frequency: tuple[str, str] | None = None
    negated: bool = False


class ClauseParts:
    """The parts of a clause in both languages, before they are arranged.

    A verb has two links: `finite` for person and tense, `content` for its meaning. Often one word has both; in
    `hat gelesen` and `did not read`, each of two words has one.
    """

    def __init__(self, clause: Clause) -> None:
        self.clause = clause
        self.finite, self.content, self.negation = WordLink(), WordLink(), WordLink()
        self.subject = self._subject()
        self.object = self._object()
        self.setting = clause.setting.phrase() if clause.setting else Phrase()
        self.time = gloss(*clause.time)
        self.frequency = gloss(clause.frequency) if clause.frequency else Phrase()

    def _subject(self) -> Phrase:
        subject = self.clause.subject
        if isinstance(subject, Pronoun):
            return gloss((subject.german, subject.english))
        return subject.phrase("nominative")

    def _object(self) -> Phrase:
        if self.clause.object is None:
            return Phrase()
        return self.clause.object.phrase(self.clause.verb.case, self.negation if self.clause.negated else None)

    def german_verb(self) -> tuple[Token, tuple[Token, ...]]:
        """The finite verb, and the rest of the verb, which ends a main clause."""
        verb, person = self.clause.verb, self.clause.subject.person
        match self.clause.tense:
            case "present":
                finite = Token(verb.forms[person], (self.finite, self.content))
                return finite, tokens(verb.particle, self.content)
            case "past":
                return Token(verb.perfect[person], (self.finite,)), tokens(verb.participle, self.content)
            case modal:
                infinitive = verb.particle + verb.forms[2]
                return Token(modal.forms[person], (self.finite,)), tokens(infinitive, self.content)

    def german_middle(self) -> tuple[Token, ...]:
        """The words between the subject and the end of the verb, except for a time."""
        frequency, object, setting = self.frequency.german, self.object.german, self.setting.german
        if self.clause.object and self.clause.object.determiner is lexicon.A:
            return frequency + object + setting  # `kein` in the object is the negation
        negation = tokens("nicht", self.negation) if self.clause.negated else ()
        return object + frequency + negation + setting

    def english_verb(self) -> tuple[Token, ...]:
        """The whole verb; `not` and frequencies follow its auxiliary or, if there is none, precede the verb."""
        tense, negated = self.clause.tense, self.clause.negated
        third = self.clause.subject.person == 1
        head, meaning, infinitive = self.clause.verb.english, self.content, tokens("")
        if isinstance(tense, Modal):
            infinitive = tokens(f"{head.base} {head.rest}", self.content)
            head, meaning = tense.english, self.finite
        if isinstance(tense, Modal) and not head.rest:
            auxiliary, verb = head.base, tokens("")
        elif negated:
            auxiliary = "did" if tense == "past" else "does" if third else "do"
            verb = tokens(f"{head.base} {head.rest}", meaning)
        else:
            form = head.past if tense == "past" else head.third if third else head.base
            auxiliary, verb = "", tokens(f"{form} {head.rest}", self.finite, meaning)
        if negated and auxiliary == "can":
            return tokens("cannot", self.finite, self.negation) + verb + infinitive
        middle = tokens("not", self.negation) if negated else self.frequency.english
        return tokens(auxiliary, self.finite) + middle + verb + infinitive

    def english(self, time_first: bool) -> tuple[Token, ...]:
        """All parts in English order."""
        rest = self.subject.english + self.english_verb() + self.object.english + self.setting.english
        return self.time.english + rest if time_first else rest + self.time.english


def main_clause(clause: Clause, after_clause: bool = False) -> Phrase:
    """A main clause: the finite verb is second, after the subject, a time or a subordinate clause."""
    parts = ClauseParts(clause)
    subject, time = parts.subject.german, parts.time.german
    finite, end = parts.german_verb()
    time_first = clause.time_first and not after_clause
    if after_clause:
        german = (finite, *subject, *time)
    elif time_first:
        german = (*time, finite, *subject)
    else:
        german = (*subject, finite, *time)
    return Phrase(german + parts.german_middle() + end, parts.english(time_first))


def subordinate_clause(conjunction: tuple[str, str], clause: Clause) -> Phrase:
    """A subordinate clause: the finite verb is last, and a separable verb is one word."""
    parts = ClauseParts(clause)
    finite, end = parts.german_verb()
    if clause.tense == "present":
        verb: tuple[Token, ...] = (Token(clause.verb.particle + finite.text, finite.links),)
    else:
        verb = (*end, finite)
    german = parts.subject.german + parts.time.german + parts.german_middle() + verb
    return gloss(conjunction) + Phrase(german, parts.english(time_first=False))


def sentence(clauses: Sequence[Clause], conjunctions: Sequence[tuple[str, str]], swapped: bool = False) -> Phrase:
    """A main clause and subordinate clauses with their conjunctions; `swapped` puts the first of these in front."""
    phrases = [subordinate_clause(*both) for both in zip(conjunctions, clauses[1:], strict=True)]
    if swapped:
        phrase = phrases.pop(0) + gloss((",", ",")) + main_clause(clauses[0], after_clause=True)
    else:
        phrase = main_clause(clauses[0])
    for following in phrases:
        phrase += gloss((",", "")) + following  # German only
    return phrase + gloss((".", "."))
