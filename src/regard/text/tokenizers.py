"""How a text becomes tokens, and tokens become a text again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Tokenizer(Protocol):
    def split(self, text: str) -> list[str]: ...

    def join(self, tokens: Sequence[str]) -> str: ...


class Characters:
    """Every character is a token; `join(split(text)) == text`."""

    def split(self, text: str) -> list[str]:
        return list(text)

    def join(self, tokens: Sequence[str]) -> str:
        return "".join(tokens)


class Words:
    """Whatever stands between white space is a token."""

    def split(self, text: str) -> list[str]:
        return text.split()

    def join(self, tokens: Sequence[str]) -> str:
        return " ".join(tokens)
