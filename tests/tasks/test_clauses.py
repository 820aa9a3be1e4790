"""The grammar of `clauses`: correct sentences and alignments, and enough examples of everything."""

from __future__ import annotations

from collections import Counter, defaultdict
from random import Random

import pytest
from pydantic import ValidationError

from regard.tasks import clauses_lexicon as lexicon
from regard.tasks.base import Pair
from regard.tasks.clauses import (
    ClausesDataset,
    ClausesSection,
    ClausesTokenization,
    random_clause,
    random_sentence_pair,
    random_verb,
)
from regard.tasks.clauses_grammar import (
    Clause,
    NounPhrase,
    Phrase,
    PrepositionalPhrase,
    main_clause,
    sentence,
    subordinate_clause,
)

KINDS = ("person", "text", "food", "garment", "opening", "object", "place")
NOUNS = {noun.singular: noun for noun in lexicon.nouns(*KINDS)}
ALL_VERBS = lexicon.SIMPLE_VERBS + lexicon.SEPARABLE_VERBS + lexicon.REPORTING_VERBS
VERBS = {verb.particle + verb.forms[2]: verb for verb in ALL_VERBS}
MODALS = {modal.forms[2]: modal for modal in lexicon.MODALS}
PRONOUNS = {pronoun.german: pronoun for pronoun in lexicon.PRONOUNS}
PARTICLES = {verb.particle for verb in lexicon.SEPARABLE_VERBS}
FORMS = [lexicon.HAVE, lexicon.BE, *(verb.forms for verb in ALL_VERBS), *(modal.forms for modal in lexicon.MODALS)]
FINITE = {form for forms in FORMS for form in forms}
TODAY = (("heute", "today"),)
CONJUNCTIONS = {german: (german, english) for german, english in (*lexicon.CONJUNCTIONS, lexicon.THAT)}


def noun_phrase(determiner: lexicon.Determiner, noun: str, adjective: str = "", plural: bool = False) -> NounPhrase:
    known = {known.stem: known for known in NOUNS[noun].adjectives}
    return NounPhrase(NOUNS[noun], determiner, known[adjective] if adjective else None, plural)


def german(phrase: Phrase) -> list[str]:
    return [token.text for token in phrase.german]


def drawn(count: int, max_clauses: int = 2, seed: int = 5) -> list[Pair]:
    dataset, random = ClausesDataset(ClausesSection(max_clauses=max_clauses)), Random(seed)
    return [dataset.generate(random) for _ in range(count)]


@pytest.fixture(scope="module")
def training() -> list[Pair]:
    return ClausesDataset(ClausesSection()).splits()["train"]


A, MY, THE = lexicon.A, lexicon.MY, lexicon.THE
GOLDEN = [
    (
        sentence(
            [
                Clause(PRONOUNS["ich"], VERBS["wissen"]),
                Clause(noun_phrase(THE, "Mann", "alt"), VERBS["lesen"], object=noun_phrase(THE, "Buch", "neu")),
            ],
            [CONJUNCTIONS["dass"]],
        ),
        "ich weiß , dass der alte Mann das neue Buch liest .",
        "i know that the old man reads the new book .",
        "0-0 1-1 3-2 4-3 5-4 6-5 7-7 8-8 9-9 10-6 11-10",
    ),
    (
        sentence(
            [
                Clause(
                    noun_phrase(THE, "Frau"),
                    VERBS["aufmachen"],
                    object=noun_phrase(THE, "Tür", "rot"),
                    time=TODAY,
                    time_first=True,
                    negated=True,
                )
            ],
            [],
        ),
        "heute macht die Frau die rote Tür nicht auf .",
        "today the woman does not open the red door .",
        "0-0 1-3 1-5 2-1 3-2 4-6 5-7 6-8 7-4 8-5 9-9",
    ),
    (
        sentence(
            [
                Clause(noun_phrase(THE, "Kind"), VERBS["aufstehen"], "past", time=TODAY, time_first=True),
                Clause(
                    PRONOUNS["wir"],
                    VERBS["kaufen"],
                    "past",
                    object=noun_phrase(A, "Apfel", "frisch", plural=True),
                    negated=True,
                ),
            ],
            [CONJUNCTIONS["obwohl"]],
            swapped=True,
        ),
        "obwohl wir keine frischen Äpfel gekauft haben , ist das Kind heute aufgestanden .",
        "although we did not buy any fresh apples , the child got up today .",
        "0-0 1-1 2-3 2-5 3-6 4-7 5-4 6-2 7-8 8-11 8-12 9-9 10-10 11-13 12-11 12-12 13-14",
    ),
    (
        sentence(
            [
                Clause(
                    noun_phrase(MY, "Bruder", "klein"),
                    VERBS["helfen"],
                    MODALS["können"],
                    object=noun_phrase(THE, "Tante"),
                    negated=True,
                ),
                Clause(PRONOUNS["sie"], VERBS["weggehen"]),
            ],
            [CONJUNCTIONS["wenn"]],
        ),
        "mein kleiner Bruder kann der Tante nicht helfen , wenn sie weggeht .",
        "my small brother cannot help the aunt if she goes away .",
        "0-0 1-1 2-2 3-3 4-5 5-6 6-3 7-4 9-7 10-8 11-9 11-10 12-11",
    ),
    (
        sentence(
            [
                Clause(
                    noun_phrase(A, "Onkel"),
                    VERBS["suchen"],
                    MODALS["müssen"],
                    object=noun_phrase(A, "Bild", "alt"),
                    setting=PrepositionalPhrase(VERBS["suchen"].prepositions[0], noun_phrase(THE, "Garten")),
                    frequency=("oft", "often"),
                )
            ],
            [],
        ),
        "ein Onkel muss oft ein altes Bild im Garten suchen .",
        "an uncle often has to look for an old picture in the garden .",
        "0-0 1-1 2-3 2-4 3-2 4-7 5-8 6-9 7-10 7-11 8-12 9-5 9-6 10-13",
    ),
]


@pytest.mark.parametrize(("phrase", "source", "target", "alignment"), GOLDEN, ids=[row[1] for row in GOLDEN])
def test_sentences_checked_by_hand(phrase: Phrase, source: str, target: str, alignment: str) -> None:
    links = (link.split("-") for link in alignment.split())
    assert phrase.pair() == Pair(source, target, frozenset((int(german), int(english)) for german, english in links))


DECLENSIONS = [
    (noun_phrase(THE, "Mann", "alt"), "der alte Mann, den alten Mann, dem alten Mann", "the old man"),
    (noun_phrase(THE, "Frau", "alt"), "die alte Frau, die alte Frau, der alten Frau", "the old woman"),
    (noun_phrase(A, "Haus", "alt"), "ein altes Haus, ein altes Haus, einem alten Haus", "an old house"),
    (noun_phrase(A, "Frau"), "eine Frau, eine Frau, einer Frau", "a woman"),
    (noun_phrase(MY, "Freund", "arm"), "mein armer Freund, meinen armen Freund, meinem armen Freund", "my poor friend"),
    (noun_phrase(THE, "Kind", "", True), "die Kinder, die Kinder, den Kindern", "the children"),
    (noun_phrase(A, "Kind", "klug", True), "kluge Kinder, kluge Kinder, klugen Kindern", "clever children"),
    (
        noun_phrase(MY, "Onkel", "alt", True),
        "meine alten Onkel, meine alten Onkel, meinen alten Onkeln",
        "my old uncles",
    ),
]


@pytest.mark.parametrize(("phrase", "cases", "english"), DECLENSIONS, ids=[row[2] for row in DECLENSIONS])
def test_declension(phrase: NounPhrase, cases: str, english: str) -> None:
    names: list[lexicon.Case] = ["nominative", "accusative", "dative"]
    assert [" ".join(german(phrase.phrase(name))) for name in names] == cases.split(", ")
    assert phrase.phrase("dative").pair().target == english


def clauses_of_all_kinds(count: int = 2000) -> list[Clause]:
    random = Random(3)
    return [random_clause(random, random_verb(random), past=random.random() < 0.3) for _ in range(count)]


def test_the_verb_is_second_in_a_main_clause() -> None:
    fronts = set()
    for clause in clauses_of_all_kinds():
        words = german(main_clause(clause))
        verb = next(position for position, word in enumerate(words) if word in FINITE)
        if isinstance(clause.subject, NounPhrase):
            subject = german(clause.subject.phrase("nominative"))
        else:
            subject = [clause.subject.german]
        front = [word for word, _ in clause.time] if clause.time_first else subject
        assert words[:verb] == front
        fronts.add(clause.time_first)
        assert german(main_clause(clause, after_clause=True))[0] == words[verb]
        if clause.tense == "present" and clause.verb.particle:
            assert words[-1] == clause.verb.particle
    assert fronts == {True, False}


def test_the_verb_is_last_and_whole_in_a_subordinate_clause() -> None:
    for clause in clauses_of_all_kinds():
        words = german(subordinate_clause(CONJUNCTIONS["weil"], clause))
        particle = clause.verb.particle if clause.tense == "present" else ""
        assert words[-1].startswith(particle)
        assert words[-1].removeprefix(particle) in FINITE
        assert not PARTICLES & set(words)


@pytest.mark.parametrize("max_clauses", [1, 3])
def test_everything_is_aligned_except_commas_that_english_lacks(max_clauses: int) -> None:
    for pair in drawn(1000, max_clauses):
        source, target = pair.source.split(), pair.target.split()
        assert {target_position for _, target_position in pair.alignment} == set(range(len(target)))
        columns = {column for column, _ in pair.alignment}
        assert columns <= set(range(len(source)))
        assert {source[column] for column in set(range(len(source))) - columns} <= {","}


def test_equal_sources_have_equal_targets() -> None:
    targets = defaultdict(set)
    pairs = drawn(20_000, max_clauses=1)  # short sentences, which are repeated
    for pair in pairs:
        targets[pair.source].add((pair.target, pair.alignment))
    assert len(targets) < len(pairs) - 1000, "too few repetitions to show anything"
    assert [source for source, found in targets.items() if len(found) > 1] == []


def test_every_german_word_has_one_translation() -> None:
    meanings: defaultdict[str, set[object]] = defaultdict(set)
    for noun in NOUNS.values():
        for form in (noun.singular, noun.plural, noun.dative_plural):
            meanings[form].add(noun.english)
    for [stem], [english], _ in lexicon.rows(lexicon.ADJECTIVES):
        for ending in ("e", "en", "er", "es"):
            meanings[stem + ending].add(english)
    times = [piece for time in lexicon.TIMES_PAST + lexicon.TIMES_MODAL for piece in time]
    for word, translation in (*times, *lexicon.FREQUENCIES, *CONJUNCTIONS.values()):
        meanings[word].add(translation)
    for preposition in lexicon.PREPOSITIONS["where"] + lexicon.PREPOSITIONS["with"]:
        meanings[preposition.german].add(preposition.english)
    for pronoun in lexicon.PRONOUNS:
        meanings[pronoun.german].add(pronoun.english)
    for modal in lexicon.MODALS:
        for form in modal.forms:
            meanings[form].add(modal.english)
    for verb in ALL_VERBS:
        # The particle decides: `holt ... ab` is not `holt`. So a separable verb is looked up in one piece.
        for form in (*(verb.particle + form for form in verb.forms), verb.participle):
            meanings[form].add(verb.english)
    assert {word: found for word, found in meanings.items() if len(found) > 1} == {}
    assert not PARTICLES & set(meanings)


def test_a_feminine_noun_shows_its_number() -> None:
    """`die`, `meine` and `keine` go before feminine singulars and before plurals, so only the noun shows the number."""
    feminine = [noun for noun in NOUNS.values() if noun.article == "die"]
    assert feminine
    assert all(noun.singular not in (noun.plural, noun.dative_plural) for noun in feminine)


def test_sentences_depend_on_the_seed() -> None:
    assert drawn(200) == drawn(200)
    assert drawn(200) != drawn(200, seed=6)


def test_max_clauses() -> None:
    for most in (1, 2, 3):
        assert {pair.source.count(",") for pair in drawn(300, most)} == set(range(most))
    with pytest.raises(ValidationError):
        ClausesSection(max_clauses=4)


def test_sizes(training: list[Pair]) -> None:
    source = Counter(word for pair in training for word in pair.source.split())
    target = Counter(word for pair in training for word in pair.target.split())
    assert 250 <= len(source) <= 500
    assert 200 <= len(target) <= 400
    assert ClausesTokenization.function_words <= set(target)
    assert [word for counts in (source, target) for word, count in counts.items() if count < 20] == []
    lengths = sorted(len(pair.source.split()) for pair in training)
    assert lengths[0] >= 3
    assert lengths[int(0.95 * len(lengths))] <= 20


def test_there_are_millions_of_sentences() -> None:
    """Of n things that are equally likely, 10,000 draws repeat about 50,000,000 / n."""
    random = Random(4)
    sources = {random_sentence_pair(random, 2).pair().source for _ in range(10_000)}
    assert len(sources) > 10_000 - 10
