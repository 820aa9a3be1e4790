"""Sentence pairs segmented into units, between which alignment links are counted.

Units are words or single tokens. Shapes: a token map is [output tokens, source tokens], both end tokens included; a
unit map is [output units, source units + 1], the last column being the source's end token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from torch import Tensor

from regard.errors import UserError
from regard.evaluation.alignment import white_space_starts
from regard.inference.translator import Translator
from regard.tasks import Pair
from regard.text import word_boundaries


@dataclass(frozen=True)
class SegmentedText:
    """One text of a pair in units.

    Args:
        units: The units: words or single tokens.
        starts: For each token whether it starts a unit; the end token does.
        content: The indices of the units that are not punctuation.
    """

    units: tuple[str, ...]
    starts: tuple[bool, ...]
    content: tuple[int, ...]

    @property
    def is_token_level(self) -> bool:
        """True if every token is a unit."""
        return all(self.starts)


@dataclass(frozen=True)
class AlignedSentence:
    """A sentence pair in units.

    Args:
        number: The number of the pair in its split, from 1.
        pair: The texts.
        source: The source in units.
        target: The target in units.
    """

    number: int
    pair: Pair
    source: SegmentedText
    target: SegmentedText

    @classmethod
    def segment(cls, translator: Translator, number: int, pair: Pair, *, by_white_space: bool) -> Self:
        """The pair in units.

        Args:
            translator: The translator whose tokenization is used.
            number: The number of the pair in its split, from 1.
            pair: The texts.
            by_white_space: Units are the words between white space, as in an alignment file; otherwise the words of
                the tokenization.

        Raises:
            UserError: If the tokens do not spell the words between white space.
        """
        tokenization = translator.codec.tokenization
        # In tasks on arbitrary characters, a comma is content like any other character.
        has_punctuation = "bleu" in translator.experiment.task.metrics
        sides = []
        for name, text, tokens, starts_of in (
            ("source", pair.source, tokenization.source_tokens(pair.source), tokenization.source_starts),
            ("target", pair.target, tokenization.target_tokens(pair), tokenization.target_starts),
        ):
            if by_white_space:
                starts, units = _white_space_words(text, tokens, f"sentence {number}: its {name}"), text.split()
            else:
                starts = word_boundaries.word_starts(tokens, starts_of(tokens))
                units = word_boundaries.token_text(tokens, starts)
            content = [
                index
                for index, unit in enumerate(units)
                if not (has_punctuation and word_boundaries.is_punctuation(unit))
            ]
            sides.append(SegmentedText(tuple(units), (*starts, True), tuple(content)))
        return cls(number, pair, *sides)

    def unit_map(self, weights: Tensor) -> Tensor:
        """The unit map of a token map.

        Args:
            weights: A token map; the row of the target's end token may be missing.
        """
        if self.source.is_token_level and self.target.is_token_level:
            return weights
        return word_boundaries.word_attention(weights, self.target.starts[: len(weights)], self.source.starts)

    @property
    def length(self) -> int:
        """The number of units of the longer side."""
        return max(len(self.source.units), len(self.target.units))


def _white_space_words(text: str, tokens: Sequence[str], description: str) -> list[bool]:
    starts = white_space_starts(text, tokens)
    if starts is None:
        raise UserError(
            f"{description} is tokenized as {' '.join(tokens)[:80]!r}, which does not spell the words of "
            f"{text[:80]!r}; word alignments cannot be used for this text"
        )
    return starts
