"""The copy task: repeat the source."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from string import ascii_lowercase

from pydantic import Field, field_validator

from regard.tasks.generated import GeneratedDataset, GeneratedTask
from regard.tasks.random_text import Length, RandomTextSection, known_characters
from regard.text import Pair, Tokenization


class StringSection(RandomTextSection):
    """Settings of tasks over random strings.

    Attributes:
        alphabet: The characters, all equally likely.
        max_length: Largest length, in characters.
    """

    alphabet: str = Field(default=ascii_lowercase, min_length=1)
    max_length: Length = 20

    @field_validator("alphabet")
    @classmethod
    def _check_alphabet(cls, alphabet: str) -> str:
        for character in alphabet:
            if alphabet.count(character) > 1:
                raise ValueError(f"the character {character!r} is in the alphabet twice; name each one once")
        return alphabet


@dataclass(frozen=True)
class StringTokenization(Tokenization):
    """Each character is a token.

    Args:
        alphabet: The characters that a source may have.
    """

    alphabet: str

    def source_tokens(self, text: str) -> list[str]:
        return known_characters(text, self.alphabet)


def random_string(random: Random, section: StringSection) -> str:
    """A random string.

    A length is drawn with a probability proportional to itself: if all were equally likely, the test set would use up
    the few strings of one character and leave none to train on.

    Args:
        random: The source of randomness.
        section: The settings of the task.
    """
    lengths = range(section.min_length, section.max_length + 1)
    length = random.choices(lengths, weights=lengths)[0]
    return "".join(random.choices(section.alphabet, k=length))


class CopySection(StringSection):
    """Settings of the copy task.

    Attributes:
        task: Name of the task.
    """

    task: str = "copy"


class CopyDataset(GeneratedDataset[CopySection]):
    """Random strings, and the same strings.

    Args:
        section: The settings of the task.
    """

    def generate(self, random: Random) -> Pair:
        text = random_string(random, self.section)
        return Pair(text, text, frozenset((position, position) for position in range(len(text))))


class CopyTask(GeneratedTask[CopySection]):
    """`abc` → `abc`.

    Shows an attention map with a known correct answer, the diagonal. Characters repeat within a string, so a decoder
    that searches for a character without regard to its position fails.

    Args:
        section: The settings of the task.
    """

    Section = CopySection

    @property
    def dataset(self) -> CopyDataset:
        return CopyDataset(self.section)

    @property
    def tokenization(self) -> StringTokenization:
        return StringTokenization(self.section.alphabet)
