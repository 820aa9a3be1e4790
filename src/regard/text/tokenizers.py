"""How a text becomes tokens, and tokens become a text again."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Protocol


class Tokenizer(Protocol):
    def split(self, text: str) -> list[str]: ...

    def join(self, tokens: Sequence[str]) -> str: ...

    def starts(self, tokens: Sequence[str]) -> list[bool]:
        """Does a new word begin with this token? One that goes on with the word before says False."""


class Characters:
    """Every character is a token; `join(split(text)) == text`."""

    def split(self, text: str) -> list[str]:
        return list(text)

    def join(self, tokens: Sequence[str]) -> str:
        return "".join(tokens)

    def starts(self, tokens: Sequence[str]) -> list[bool]:
        return [True] * len(tokens)


class Spaced:
    """Whatever stands between white space is a token."""

    def split(self, text: str) -> list[str]:
        return text.split()

    def join(self, tokens: Sequence[str]) -> str:
        return " ".join(tokens)

    def starts(self, tokens: Sequence[str]) -> list[bool]:
        return [True] * len(tokens)


SPACE = "▁"  # in a piece of a word, where a space stood in the text
JOINER = "￭"  # on the side of a token where no space stood
SIMILAR = "■"  # stands in for a joiner that is part of a text
WORD, MARK = "w", "m"


@cache
def _kind(character: str) -> str:
    """Letters of all scripts, their combining marks, digits: `WORD`; spaces as they are; all else: `MARK`."""
    if character.isspace():
        return " "
    return WORD if character == "_" or unicodedata.category(character)[0] in "LMN" else MARK


# A word, which may have apostrophes and hyphens inside, or a single mark.
PIECE = re.compile(f"{WORD}+(?:i{WORD}+)*|[{MARK}i]")
INSIDE = "'’-‐"


class Words:
    """Words of any script that has spaces; punctuation marks are tokens of their own.

    A mark says with a joiner where no space stood, so that `join` gives back the text but for the kind and number
    of its spaces: `"Ja", sagt er.` is `"￭ Ja ￭" ￭, sagt er ￭.`
    """

    def split(self, text: str) -> list[str]:
        text = text.replace(JOINER, SIMILAR)
        # The text again, each character replaced by its kind: places in one are places in the other.
        kinds = "".join("i" if character in INSIDE else _kind(character) for character in text)
        return [self._token(text, kinds, *piece.span()) for piece in PIECE.finditer(kinds)]

    def _token(self, text: str, kinds: str, begin: int, end: int) -> str:
        token = text[begin:end]
        if kinds[begin] == WORD:
            return token
        before = JOINER if begin > 0 and kinds[begin - 1] != " " else ""
        behind = JOINER if end < len(kinds) and kinds[end] == WORD else ""
        return before + token + behind

    def join(self, tokens: Sequence[str]) -> str:
        text = ""
        for place, token in enumerate(tokens):
            joined = token.startswith(JOINER) or (place > 0 and tokens[place - 1].endswith(JOINER))
            text += token.strip(JOINER) if joined or not text else f" {token.strip(JOINER)}"
        return text

    def starts(self, tokens: Sequence[str]) -> list[bool]:
        return [True] * len(tokens)
