"""Random texts that resemble what people type, and the settings of tasks over such texts."""

from __future__ import annotations

from random import Random
from string import ascii_letters, ascii_lowercase, digits
from typing import Annotated, Self

from pydantic import Field, model_validator

from regard.config.base import invalid_combination
from regard.errors import UserError
from regard.tasks.generated import GeneratedSection

Length = Annotated[int, Field(ge=1, le=1000)]

PRINTABLE = "".join(chr(code) for code in range(0x20, 0x7F))
# Each letter occurs about as often as in a hundred letters of English.
ENGLISH = "eeeeeeeeeeeetttttttttaaaaaaaaooooooooiiiiiiinnnnnnnsssssshhhhhhrrrrrrddddllllcccuuummmwwffggyyppbbvkjxqz"
MARKS = ",,,...!?;:)\"'"
# An `x` is replaced by a word.
PATTERNS = (
    "x@x.com",
    "https://www.x.org/x?x=1&x=2#x",
    "~/x/x.py",
    "C:\\x\\x",
    "<x>x</x>",
    "x_x = x(x, 0);",
    "if (x >= 10) { x[i]++; }",
    "x ^ x | !x % 2",
    "x = {'x': \"x\"}",
    '"x x"',
    "(x)",
    "`x`",
    "*x*",
    "#x",
    "$x",
    "+49 170 5550123",
)


class RandomTextSection(GeneratedSection):
    """Settings of tasks over random texts.

    Attributes:
        min_length: Smallest length, in characters.
        max_length: Largest length, in characters.
    """

    min_length: Length = 1
    max_length: Length = 36

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        if self.min_length > self.max_length:
            raise invalid_combination(
                "min_length", f"{self.min_length} is more than max_length, {self.max_length}; make it smaller"
            )
        return self


def known_characters(text: str, known: str) -> list[str]:
    """The characters of `text`.

    Args:
        text: A source text.
        known: All characters that it may have.

    Raises:
        UserError: If it has another one.
    """
    for character in text:
        if character not in known:
            raise UserError(f"this task was not trained on the character {character!r}, only on: {known}")
    return list(text)


def random_sentence(random: Random, length: int, wide_gaps: float) -> str:
    """A random text of printable characters.

    A model trained on real sentences learns to predict the next letter from the ones before, and fails on texts that
    it cannot predict. So these sentences have no meaning and are as diverse as what people type: some are in capitals,
    some contain an address, some repeat a single character, some are noise.

    Args:
        random: The source of randomness.
        length: The number of characters.
        wide_gaps: The share of gaps between words that have several spaces.
    """
    kinds = random.choices(PIECES, k=random.randint(1, 3))
    text = _gap(random, wide_gaps) if random.random() < 0.1 else ""
    while len(text) < length:
        text += random.choice(kinds)(random) + _gap(random, wide_gaps)
    return text[:length]


def _gap(random: Random, wide_gaps: float) -> str:
    if random.random() < wide_gaps:
        return " " * random.randint(2, 6)
    return " " if random.random() < 0.9 else ""


def _letters(random: Random, longest: int) -> str:
    alphabet = ENGLISH if random.random() < 0.5 else ascii_lowercase
    return "".join(random.choices(alphabet, k=random.randint(1, longest)))


def _word(random: Random) -> str:
    word = _letters(random, longest=10)
    if random.random() < 0.15:
        word += random.choice("'-") + _letters(random, longest=4)
    if random.random() < 0.2:
        word += random.choice(MARKS)
    return word


def _title(random: Random) -> str:
    return _word(random).capitalize()


def _capitals(random: Random) -> str:
    return _word(random).upper()


def _mixed(random: Random) -> str:
    return "".join(random.choice((letter, letter.upper())) for letter in _word(random))


def _digit_string(random: Random) -> str:
    return "".join(random.choices(digits + digits + ".,:-/%", k=random.randint(1, 8)))


def _repetition(random: Random) -> str:
    """`!!!`, `ababab` or `ha ha ha`."""
    if random.random() < 0.3:
        unit = _letters(random, longest=4) + " "
    else:
        alphabet = random.choice((PRINTABLE, ascii_letters))
        unit = "".join(random.choices(alphabet, k=random.randint(1, 3)))
    return unit * random.choice((2, 3, 4, 40))  # 40 fills most sentences to their end


def _pattern(random: Random) -> str:
    """An address, a tag, a line of code."""
    pattern = random.choice(PATTERNS)
    return "".join(_letters(random, longest=6) if sign == "x" else sign for sign in pattern)


def _noise(random: Random) -> str:
    """Each printable character equally often."""
    return "".join(random.choices(PRINTABLE, k=random.randint(1, 40)))


# What is listed twice is drawn twice as often.
PIECES = (_word, _word, _word, _title, _title, _capitals, _mixed, _digit_string, _repetition, _pattern, _noise, _noise)
