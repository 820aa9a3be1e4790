"""Limits of pairs of texts: which of them are too long, too uneven or no sentences."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from regard.config.base import Section, invalid_combination


class PairLimits(Section):
    """The section `data.limits`: training pairs that exceed them are left out. Words are parts between white space.

    Attributes:
        min_words: Fewest words of a text.
        max_words: Most words of a text; null: any number.
        max_ratio: How many times as many words as the other text a text may have; null: any number.
        min_letters: Smallest share of letters among the characters of a text, without white space.
        copies: Whether to keep pairs whose source and target are equal.
    """

    min_words: int = Field(default=1, ge=1, description="Fewest words of a text.")
    max_words: int | None = Field(default=None, ge=1, description="Most words of a text.")
    max_ratio: float | None = Field(
        default=None, ge=1, description="How many times as many words as the other text a text may have."
    )
    min_letters: float = Field(
        default=0.0, ge=0, le=1, description="Smallest share of letters among the characters of a text."
    )
    copies: bool = Field(default=True, description="Whether to keep pairs whose source and target are equal.")

    def exceeded(self, source: str, target: str) -> str | None:
        """The limit that a pair exceeds, for reports; None if it exceeds none.

        Args:
            source: The source text, not empty.
            target: The target text, not empty.
        """
        shorter, longer = sorted((len(source.split()), len(target.split())))
        if shorter < self.min_words:
            return f"fewer than {self.min_words:,} words"
        if self.max_words is not None and longer > self.max_words:
            return f"more than {self.max_words:,} words"
        if self.max_ratio is not None and longer > self.max_ratio * shorter:
            return f"length ratio above {self.max_ratio:g}"
        if self.min_letters and min(letter_share(source), letter_share(target)) < self.min_letters:
            return f"letters below {self.min_letters:.0%}"
        return "source equals target" if not self.copies and source == target else None

    @model_validator(mode="after")
    def _check_words(self) -> Self:
        if self.max_words is not None and self.min_words > self.max_words:
            raise invalid_combination("min_words", f"{self.min_words} is more than max_words, {self.max_words}")
        return self


NO_LIMITS = PairLimits()


def letter_share(text: str) -> float:
    """The share of letters among the characters of a text that are not white space.

    Args:
        text: Any text.
    """
    characters = "".join(text.split())
    return sum(map(str.isalpha, characters)) / max(1, len(characters))
