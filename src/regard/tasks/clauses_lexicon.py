"""The words of the task `clauses`, with every form that the grammar needs.

Forms are listed rather than derived, because German and English have many exceptions. Two rules without exceptions are
used: an adjective is a stem with an ending, and a separable verb as one word is its particle and its stem.

Each German word has exactly one translation: there is no `sie` for *they*, and no `mein Mann`, which would be
*my husband*.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Case = Literal["nominative", "accusative", "dative"]
Forms = tuple[str, str, str]  # of a verb, with ich, er and wir
Gloss = tuple[tuple[str, str], ...]  # German words and their English translations


def rows(table: str) -> Iterator[list[list[str]]]:
    """The lines of a table: cells are separated by `:`, and each cell has words."""
    for line in table.strip().splitlines():
        yield [cell.split() for cell in line.split(":")]


# --- Pronouns and determiners ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Pronoun:
    german: str
    english: str
    person: int  # the index of the verb form that agrees with it


ICH = Pronoun("ich", "i", 0)
PRONOUNS = (ICH, Pronoun("er", "he", 1), Pronoun("sie", "she", 1), Pronoun("wir", "we", 2))

# The columns are masculine, feminine, neuter and plural; `-` is an empty form.
Declension = dict[Case, tuple[str, ...]]


def declension(nominative: str, accusative: str, dative: str) -> Declension:
    lines: dict[Case, str] = {"nominative": nominative, "accusative": accusative, "dative": dative}
    return {case: tuple(form.strip("-") for form in line.split()) for case, line in lines.items()}


@dataclass(frozen=True, eq=False)
class Determiner:
    """An article or possessive, and the endings of an adjective that follows it."""

    english: tuple[str, str]  # before a singular, before a plural
    forms: Declension
    endings: Declension


AFTER_THE = declension("e e e en", "en e e en", "en en en en")
AFTER_A = declension("er e es e", "en e es e", "en en en en")
AFTER_MY = declension("er e es en", "en e es en", "en en en en")

THE = Determiner(("the", "the"), declension("der die das die", "den die das die", "dem der dem den"), AFTER_THE)
A = Determiner(("a", ""), declension("ein eine ein -", "einen eine ein -", "einem einer einem -"), AFTER_A)
# What `a` becomes in a negated clause: `kein Buch` is `not ... a book`, `keine Bücher` is `not ... any books`.
NOT_A = Determiner(
    ("a", "any"),
    declension("kein keine kein keine", "keinen keine kein keine", "keinem keiner keinem keinen"),
    AFTER_MY,
)
MY = Determiner(
    ("my", "my"),
    declension("mein meine mein meine", "meinen meine mein meine", "meinem meiner meinem meinen"),
    AFTER_MY,
)


# --- Nouns and adjectives -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Adjective:
    stem: str
    english: str


@dataclass(frozen=True)
class Noun:
    article: str  # `der`, `die` or `das`, which determines the gender
    singular: str
    plural: str
    dative_plural: str
    english: tuple[str, str]  # singular, plural
    adjectives: tuple[Adjective, ...]
    determiners: tuple[Determiner, ...]


# stem : English : the kinds of nouns that it can modify
ADJECTIVES = """
    alt : old : person text garment object place
    arm : poor : person
    blau : blue : garment opening
    freundlich : friendly : person
    frisch : fresh : food
    groß : big : person opening object place
    interessant : interesting : text
    jung : young : person
    kalt : cold : place
    klein : small : person food opening object place
    klug : clever : person
    lang : long : text
    neu : new : text garment object place
    reich : rich : person
    rot : red : garment opening
    schön : beautiful : garment object place
    schwer : heavy : opening object
"""
# article, singular, plural and dative plural : English singular and plural : kind
NOUNS = """
    der Mann Männer Männern : man men : person
    die Frau Frauen Frauen : woman women : person
    das Kind Kinder Kindern : child children : person
    das Mädchen Mädchen Mädchen : girl girls : person
    der Freund Freunde Freunden : friend friends : person
    der Bruder Brüder Brüdern : brother brothers : person
    die Schwester Schwestern Schwestern : sister sisters : person
    der Onkel Onkel Onkeln : uncle uncles : person
    die Tante Tanten Tanten : aunt aunts : person
    der Lehrer Lehrer Lehrern : teacher teachers : person
    das Buch Bücher Büchern : book books : text
    der Brief Briefe Briefen : letter letters : text
    die Zeitung Zeitungen Zeitungen : newspaper newspapers : text
    der Apfel Äpfel Äpfeln : apple apples : food
    die Birne Birnen Birnen : pear pears : food
    das Ei Eier Eiern : egg eggs : food
    das Brötchen Brötchen Brötchen : roll rolls : food
    der Mantel Mäntel Mänteln : coat coats : garment
    die Jacke Jacken Jacken : jacket jackets : garment
    das Hemd Hemden Hemden : shirt shirts : garment
    die Tür Türen Türen : door doors : opening
    das Fenster Fenster Fenstern : window windows : opening
    der Koffer Koffer Koffern : suitcase suitcases : opening
    der Tisch Tische Tischen : table tables : object
    die Lampe Lampen Lampen : lamp lamps : object
    das Bild Bilder Bildern : picture pictures : object
    der Schlüssel Schlüssel Schlüsseln : key keys : object
    das Haus Häuser Häusern : house houses : place
    der Garten Gärten Gärten : garden gardens : place
    die Schule Schulen Schulen : school schools : place
    die Küche Küchen Küchen : kitchen kitchens : place
    das Büro Büros Büros : office offices : place
    der Park Parks Parks : park parks : place
"""
NOT_POSSESSED = ("Mann", "Frau")  # `mein Mann` and `meine Frau` are husband and wife


def nouns(*kinds: str) -> tuple[Noun, ...]:
    """All nouns of these kinds, with the adjectives and determiners that they can have."""
    found = []
    for (article, singular, plural, dative_plural), (one, many), (kind,) in rows(NOUNS):
        if kind in kinds:
            adjectives = [Adjective(stem, english) for [stem], [english], like in rows(ADJECTIVES) if kind in like]
            determiners = (THE, A) if singular in NOT_POSSESSED else (THE, A, MY)
            found.append(Noun(article, singular, plural, dative_plural, (one, many), tuple(adjectives), determiners))
    return tuple(found)


PEOPLE = nouns("person")


@dataclass(frozen=True)
class Preposition:
    """A preposition with the dative, and the nouns that can follow it."""

    german: str
    english: str
    nouns: tuple[Noun, ...]


PREPOSITIONS = {
    "where": tuple(
        Preposition(german, english, nouns("place"))
        for german, english in (("in", "in"), ("hinter", "behind"), ("vor", "in front of"))
    ),
    "with": (Preposition("mit", "with", PEOPLE),),
}


# --- Verbs ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EnglishVerb:
    base: str
    third: str
    past: str
    rest: str = ""  # the `up` of `get up`


@dataclass(frozen=True)
class Verb:
    particle: str  # the `auf` of `aufstehen`; empty if there is none
    forms: Forms  # without the particle; the form with wir is also the infinitive
    participle: str
    english: EnglishVerb
    objects: tuple[Noun, ...]  # empty: the verb takes no object
    case: Case  # of the object
    prepositions: tuple[Preposition, ...]
    perfect: Forms  # forms of the auxiliary of the perfect tense: haben or sein


@dataclass(frozen=True)
class Modal:
    forms: Forms
    english: EnglishVerb


HAVE = ("habe", "hat", "haben")
BE = ("bin", "ist", "sind")

# ich, er, wir, participle : English base, third person, past and rest : frame. A frame lists the kinds of objects,
# `dative` if objects are not accusative, `sein` if the auxiliary is not `haben`, and `where` or `with` if a place or a
# companion can be added.
SIMPLE = """
    arbeite arbeitet arbeiten gearbeitet : work works worked : where with
    koche kocht kochen gekocht : cook cooks cooked : where with
    singe singt singen gesungen : sing sings sang : where with
    tanze tanzt tanzen getanzt : dance dances danced : where with
    warte wartet warten gewartet : wait waits waited : where with
    schlafe schläft schlafen geschlafen : sleep sleeps slept : where
    lese liest lesen gelesen : read reads read : text where
    schreibe schreibt schreiben geschrieben : write writes wrote : text where
    esse isst essen gegessen : eat eats ate : food where with
    kaufe kauft kaufen gekauft : buy buys bought : text food object
    verkaufe verkauft verkaufen verkauft : sell sells sold : text food object
    hole holt holen geholt : fetch fetches fetched : text food object
    suche sucht suchen gesucht : look looks looked for : person text garment object where
    finde findet finden gefunden : find finds found : person text garment object where
    sehe sieht sehen gesehen : see sees saw : person opening object where
    besuche besucht besuchen besucht : visit visits visited : person
    höre hört hören gehört : hear hears heard : person where
    helfe hilft helfen geholfen : help helps helped : person dative
    danke dankt danken gedankt : thank thanks thanked : person dative
    antworte antwortet antworten geantwortet : answer answers answered : person dative
    folge folgt folgen gefolgt : follow follows followed : person dative sein
"""
# The same with the particle first. Some verbs share a stem: only the last word of `er macht die Tür ... zu` determines
# whether the door is opened or closed.
SEPARABLE = """
    auf stehe steht stehen aufgestanden : get gets got up : sein
    an komme kommt kommen angekommen : arrive arrives arrived : with sein
    zurück komme kommt kommen zurückgekommen : come comes came back : with sein
    weg gehe geht gehen weggegangen : go goes went away : with sein
    auf mache macht machen aufgemacht : open opens opened : opening
    zu mache macht machen zugemacht : close closes closed : opening
    an ziehe zieht ziehen angezogen : put puts put on : garment
    aus ziehe zieht ziehen ausgezogen : take takes took off : garment
    an rufe ruft rufen angerufen : call calls called : person
    ab hole holt holen abgeholt : pick picks picked up : person
    weg werfe wirft werfen weggeworfen : throw throws threw away : text garment
"""
# Verbs that a clause with `dass` can follow.
REPORTING = """
    glaube glaubt glauben geglaubt : believe believes believed :
    hoffe hofft hoffen gehofft : hope hopes hoped :
    sage sagt sagen gesagt : say says said :
    weiß weiß wissen gewusst : know knows knew :
"""


def verbs(table: str) -> tuple[Verb, ...]:
    found = []
    for german, (base, third_person, past, *rest), frame in rows(table):
        *particle, first, third, plural, participle = german
        found.append(
            Verb(
                particle="".join(particle),
                forms=(first, third, plural),
                participle=participle,
                english=EnglishVerb(base, third_person, past, " ".join(rest)),
                objects=nouns(*frame),
                case="dative" if "dative" in frame else "accusative",
                prepositions=tuple(p for key in PREPOSITIONS if key in frame for p in PREPOSITIONS[key]),
                perfect=BE if "sein" in frame else HAVE,
            )
        )
    return tuple(found)


SIMPLE_VERBS, SEPARABLE_VERBS, REPORTING_VERBS = verbs(SIMPLE), verbs(SEPARABLE), verbs(REPORTING)

MODALS = (
    Modal(("kann", "kann", "können"), EnglishVerb("can", "can", "")),
    Modal(("soll", "soll", "sollen"), EnglishVerb("should", "should", "")),
    Modal(("will", "will", "wollen"), EnglishVerb("want", "wants", "", "to")),
    Modal(("muss", "muss", "müssen"), EnglishVerb("have", "has", "", "to")),
)


# --- Adverbs and conjunctions ---------------------------------------------------------------------------

TIMES_PRESENT: tuple[Gloss, ...] = (
    (("heute", "today"),),
    (("am", "in the"), ("Nachmittag", "afternoon")),
    (("am", "in the"), ("Abend", "evening")),
)
TIMES_PAST: tuple[Gloss, ...] = (
    *TIMES_PRESENT,
    (("gestern", "yesterday"),),
    (("letzte", "last"), ("Woche", "week")),
)
TIMES_MODAL: tuple[Gloss, ...] = (*TIMES_PRESENT, (("morgen", "tomorrow"),))
FREQUENCIES = (("immer", "always"), ("manchmal", "sometimes"), ("nie", "never"), ("oft", "often"))

THAT = ("dass", "that")
CONJUNCTIONS = (("weil", "because"), ("obwohl", "although"), ("wenn", "if"), ("während", "while"))
