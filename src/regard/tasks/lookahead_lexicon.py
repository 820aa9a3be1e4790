"""The words of the task `lookahead`: English plurals and their German translations.

All nouns are plurals without an article, and all sentences have the order subject, verb, objects. So German has one
form of each word, in the same order as in English.
"""

from __future__ import annotations

from typing import NamedTuple


class Word(NamedTuple):
    """A word.

    Args:
        english: The English word.
        german: Its German translation.
    """

    english: str
    german: str


class Sense(NamedTuple):
    """A meaning of an ambiguous noun.

    Args:
        german: The translation of the noun.
        cues: Nouns, each of which selects this meaning.
    """

    german: str
    cues: tuple[Word, ...]


class AmbiguousNoun(NamedTuple):
    """An English noun with two meanings.

    Args:
        english: The noun.
        senses: Its meanings.
    """

    english: str
    senses: tuple[Sense, Sense]


def words(text: str) -> tuple[Word, ...]:
    """The words of a text.

    Args:
        text: English and German words in turn.
    """
    tokens = text.split()
    return tuple(map(Word, tokens[::2], tokens[1::2]))


def ambiguous_nouns(table: str) -> tuple[AmbiguousNoun, ...]:
    """The nouns of a table.

    Args:
        table: Two lines for each noun, one for each meaning: the noun, its translation, and the cues with theirs.
    """
    rows = [[cell.strip() for cell in line.split(":")] for line in table.strip().splitlines()]
    senses = [Sense(german, words(cues)) for _, german, cues in rows]
    return tuple(AmbiguousNoun(rows[index][0], (senses[index], senses[index + 1])) for index in range(0, len(rows), 2))


SUBJECTS = words("we wir they sie children Kinder parents Eltern friends Freunde tourists Touristen")
VERBS = words(
    "see sehen draw zeichnen paint malen know kennen describe beschreiben find finden need brauchen like mögen"
)
ADJECTIVES = words("old alte new neue small kleine large große beautiful schöne strange seltsame")
AMBIGUOUS = ambiguous_nouns("""
    banks : Ufer : rivers Flüsse boats Boote bridges Brücken
    banks : Banken : streets Straßen loans Kredite coins Münzen
    bats : Fledermäuse : caves Höhlen owls Eulen insects Insekten
    bats : Schläger : balls Bälle teams Teams stadiums Stadien
    springs : Quellen : mountains Berge streams Bäche valleys Täler
    springs : Federn : mattresses Matratzen screws Schrauben clocks Uhren
    cranes : Kraniche : swamps Sümpfe nests Nester frogs Frösche
    cranes : Kräne : bricks Ziegel trucks Lastwagen engineers Ingenieure
    seals : Robben : penguins Pinguine whales Wale icebergs Eisberge
    seals : Siegel : kings Könige documents Dokumente crowns Kronen
    keys : Schlüssel : doors Türen thieves Diebe prisons Gefängnisse
    keys : Tasten : pianos Klaviere computers Computer melodies Melodien
    letters : Briefe : envelopes Umschläge stamps Briefmarken mailboxes Briefkästen
    letters : Buchstaben : alphabets Alphabete syllables Silben vowels Vokale
    matches : Streichhölzer : candles Kerzen fires Feuer stoves Öfen
    matches : Spiele : goals Tore referees Schiedsrichter trophies Pokale
""")
NEUTRAL_NOUNS = words(
    "tables Tische chairs Stühle books Bücher apples Äpfel bottles Flaschen shoes Schuhe hats Hüte windows Fenster "
    "cars Autos cups Tassen flowers Blumen dogs Hunde cats Katzen horses Pferde houses Häuser pictures Bilder "
    "knives Messer plates Teller spoons Löffel shirts Hemden bags Taschen carpets Teppiche pillows Kissen "
    "toys Spielzeuge"
)
