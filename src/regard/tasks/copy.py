"""The copy task: say again what was read."""

from __future__ import annotations

from random import Random
from string import ascii_lowercase
from typing import Literal

from pydantic import Field, field_validator

from regard.tasks.base import Pair
from regard.tasks.random_text import Length, TextTask, split_characters


class StringTask(TextTask):
    """A task over random strings of the characters in `alphabet`, each as likely as the others."""

    alphabet: str = Field(default=ascii_lowercase, min_length=1)
    max_length: Length = 20

    @field_validator("alphabet")
    @classmethod
    def _check_alphabet(cls, alphabet: str) -> str:
        for character in alphabet:
            if alphabet.count(character) > 1:
                raise ValueError(f"the character {character!r} is in the alphabet twice; name each one once")
        return alphabet

    def source_tokens(self, text: str) -> list[str]:
        return split_characters(text, self.alphabet)

    def draw_string(self, random: Random) -> str:
        # A length is drawn in proportion to itself: if all were equally likely, the test set would use up the
        # few strings of one character and leave none to train on.
        lengths = range(self.min_length, self.max_length + 1)
        length = random.choices(lengths, weights=lengths)[0]
        return "".join(random.choices(self.alphabet, k=length))


class Copy(StringTask):
    """`abc` → `abc`.

    Shows an attention map with a known right answer, the diagonal. Characters repeat within a string, so a
    decoder that looks for a character without regard to its position goes wrong.
    """

    task: Literal["copy"] = "copy"

    def generate(self, random: Random) -> Pair:
        text = self.draw_string(random)
        return Pair(text, text, frozenset((place, place) for place in range(len(text))))
