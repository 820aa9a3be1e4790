"""What a generated task is: settings, a way to make one pair, and how its texts are read and written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar, Literal

from pydantic import Field

from regard.errors import UserError
from regard.settings import Section
from regard.text import BEGIN, Characters, Tokenizer

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
# How often in a row a task may repeat itself before we conclude that it has nothing new to say.
PATIENCE = 1000


@dataclass(frozen=True)
class Pair:
    """A source text, its target text and, where the truth is known, which tokens belong together."""

    source: str
    target: str
    alignment: frozenset[tuple[int, int]] = frozenset()  # (target token, source token), counted from 0


class Task(Section, ABC):
    """The settings that all tasks share; a task adds its own and says how to make one pair."""

    train: int = Field(20_000, ge=1)
    validation: int = Field(500, ge=1)
    test: int = Field(1_000, ge=1)
    seed: int = Field(1, ge=0)

    tokenizer: ClassVar[Tokenizer] = Characters()
    # Target tokens that carry grammar more than meaning: not counted when attention is held against the truth.
    function_words: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def generate(self, random: Random) -> Pair:
        """One pair, drawn with nothing but `random`."""

    def source_tokens(self, text: str) -> list[str]:
        """What the encoder reads; a text that this task cannot serve is a `UserError`."""
        return self.tokenizer.split(text)

    def start_token(self, text: str) -> str:
        """What the decoder reads first."""
        return BEGIN

    def target_tokens(self, pair: Pair) -> list[str]:
        """What the decoder has to say."""
        return self.tokenizer.split(pair.target)

    def target_text(self, tokens: Sequence[str]) -> str:
        return self.tokenizer.join(tokens)

    def splits(self) -> dict[Split, list[Pair]]:
        """All pairs. No source stands twice, be it in one split or in two.

        The test set is drawn first and each split has its own random numbers, so a larger training set leaves
        the sentences on which results are compared as they were.
        """
        seen: set[str] = set()
        return {split: self._draw(split, seen) for split in reversed(SPLITS)}

    def _draw(self, split: Split, seen: set[str]) -> list[Pair]:
        random = Random(f"{self.seed}/{split}")
        pairs: list[Pair] = []
        wanted: int = getattr(self, split)
        failures = 0
        while len(pairs) < wanted:
            pair = self.generate(random)
            if pair.source not in seen:
                seen.add(pair.source)
                pairs.append(pair)
                failures = 0
            elif (failures := failures + 1) == PATIENCE:
                raise UserError(
                    f"data.{split}: {wanted} pairs were asked for, but this task ran out of new ones after "
                    f"{len(seen)} in all splits; ask for fewer, or make the task larger"
                )
        return pairs
