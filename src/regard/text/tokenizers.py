"""Tokenizers: from a text to tokens and back."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Protocol


class Tokenizer(Protocol):
    """Splits a text into tokens and joins tokens into a text."""

    def tokenize(self, text: str) -> list[str]:
        """The tokens of `text`."""

    def detokenize(self, tokens: Sequence[str]) -> str:
        """The text that `tokens` spell."""

    def starts(self, tokens: Sequence[str]) -> list[bool]:
        """For each token, True if a new word begins with it, False if it continues the word before."""


class CharacterTokenizer:
    """Every character is a token; `detokenize(tokenize(text)) == text`."""

    def tokenize(self, text: str) -> list[str]:
        return list(text)

    def detokenize(self, tokens: Sequence[str]) -> str:
        return "".join(tokens)

    def starts(self, tokens: Sequence[str]) -> list[bool]:
        return [True] * len(tokens)


class WhitespaceTokenizer:
    """Tokens are the parts between white space."""

    def tokenize(self, text: str) -> list[str]:
        return text.split()

    def detokenize(self, tokens: Sequence[str]) -> str:
        return " ".join(tokens)

    def starts(self, tokens: Sequence[str]) -> list[bool]:
        return [True] * len(tokens)


SPACE = "▁"  # in a subword, where the text had a space
JOINER = "￭"  # on the side of a token where the text had no space
SIMILAR = "■"  # replaces a joiner that is part of a text
WORD, MARK = "w", "m"


@cache
def _character_kind(character: str) -> str:
    """`WORD` for letters of all scripts, their combining marks and digits, a space for spaces, else `MARK`."""
    if character.isspace():
        return " "
    return WORD if character == "_" or unicodedata.category(character)[0] in "LMN" else MARK


# A word, which may have apostrophes and hyphens inside, or a single punctuation mark.
PIECE = re.compile(f"{WORD}+(?:i{WORD}+)*|[{MARK}i]")
INSIDE = "'’-‐"


class WordTokenizer:
    """Words of any script that uses spaces; punctuation marks are tokens of their own.

    A joiner on a mark shows where the text has no space, so that `detokenize` restores the text except for the kind
    and number of its spaces: `"Ja", sagt er.` becomes `"￭ Ja ￭" ￭, sagt er ￭.`
    """

    def tokenize(self, text: str) -> list[str]:
        text = text.replace(JOINER, SIMILAR)
        # The same text with each character replaced by its kind: an index into one is an index into the other.
        kinds = "".join("i" if character in INSIDE else _character_kind(character) for character in text)
        return [self._token(text, kinds, *piece.span()) for piece in PIECE.finditer(kinds)]

    def _token(self, text: str, kinds: str, begin: int, end: int) -> str:
        token = text[begin:end]
        if kinds[begin] == WORD:
            return token
        before = JOINER if begin > 0 and kinds[begin - 1] != " " else ""
        after = JOINER if end < len(kinds) and kinds[end] == WORD else ""
        return before + token + after

    def detokenize(self, tokens: Sequence[str]) -> str:
        text = ""
        for index, token in enumerate(tokens):
            joined = token.startswith(JOINER) or (index > 0 and tokens[index - 1].endswith(JOINER))
            text += token.strip(JOINER) if joined or not text else f" {token.strip(JOINER)}"
        return text

    def starts(self, tokens: Sequence[str]) -> list[bool]:
        return [True] * len(tokens)
