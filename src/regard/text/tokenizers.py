"""Tokenizers: from a text to tokens and back."""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cache
from random import Random
from typing import Any, ClassVar, Self

from regard.config.kinds import TokenizerSection
from regard.text.sections import TextSection


class Tokenizer(ABC):
    """Splits a text into tokens and joins tokens into a text.

    A tokenizer that learns from the training split overrides `from_texts`, `from_model` and `model`.

    Attributes:
        Section: The settings class of the tokenizer.
        has_model: True if a run directory keeps `model` in a file, from which `from_model` restores the tokenizer.
    """

    Section: ClassVar[type[TokenizerSection]] = TokenizerSection
    has_model: ClassVar[bool] = False

    @classmethod
    def from_texts(cls, texts: Iterable[str], settings: Any) -> Self:
        """The tokenizer, learned from the texts of the training split if it has something to learn.

        Args:
            texts: The texts of both sides, or of one side if each has its own tokenizer.
            settings: The section `data.text`, an instance of `Section`.
        """
        return cls()

    @classmethod
    def from_model(cls, model: bytes, settings: Any) -> Self:
        """The tokenizer that `from_texts` returned.

        Args:
            model: Its `model`; empty if it has none.
            settings: The section `data.text`, an instance of `Section`.
        """
        return cls()

    @property
    def model(self) -> bytes:
        """What has been learned, for the run directory. It is read as data: never use pickle here."""
        return b""

    @property
    def pieces(self) -> list[str] | None:
        """All tokens, if this is a fixed list; None: the vocabulary has the tokens of the training split."""
        return None

    @abstractmethod
    def tokenize(self, text: str) -> list[str]:
        """The tokens of a text.

        Args:
            text: Any text; an empty one has no tokens.
        """

    @abstractmethod
    def detokenize(self, tokens: Sequence[str]) -> str:
        """The text that tokens spell.

        Args:
            tokens: Tokens of this tokenizer, in any order: a model may generate what `tokenize` never returns.
        """

    def starts(self, tokens: Sequence[str]) -> list[bool]:
        """For each token, True if a new word begins with it, False if it continues the word before.

        Args:
            tokens: Tokens of this tokenizer.
        """
        return [True] * len(tokens)

    @property
    def can_resample(self) -> bool:
        """True if `resample` may return other tokens than it was given."""
        return False

    def resample(self, tokens: Sequence[str], random: Random) -> list[str]:
        """Other tokens of the same text, drawn at random (subword regularization).

        Args:
            tokens: The tokens of a text.
            random: The source of randomness.
        """
        return list(tokens)


class CharacterTokenizer(Tokenizer):
    """Every character is a token; `detokenize(tokenize(text)) == text`."""

    Section = TextSection

    def tokenize(self, text: str) -> list[str]:
        return list(text)

    def detokenize(self, tokens: Sequence[str]) -> str:
        return "".join(tokens)


class WhitespaceTokenizer(Tokenizer):
    """Tokens are the parts between white space."""

    def tokenize(self, text: str) -> list[str]:
        return text.split()

    def detokenize(self, tokens: Sequence[str]) -> str:
        return " ".join(tokens)


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


class WordTokenizer(Tokenizer):
    """Words of any script that uses spaces; punctuation marks are tokens of their own.

    A joiner on a mark shows where the text has no space, so that `detokenize` restores the text except for the kind
    and number of its spaces: `"Ja", sagt er.` becomes `"￭ Ja ￭" ￭, sagt er ￭.`
    """

    Section = TextSection

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
