"""Codecs: between texts and token ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Self

from regard.data.examples import EncodedSource, Example, Source, is_patches
from regard.errors import UserError
from regard.images import PatchGrid
from regard.text import END, SPECIAL, UNKNOWN, Pair, Tokenization, Vocabulary


@dataclass(frozen=True)
class Codec:
    """A tokenization with the vocabularies of both sides.

    Args:
        tokenization: How texts become tokens.
        source_vocabulary: The ids of source tokens.
        target_vocabulary: The ids of target tokens.
        longest_source: The number of positions of the longest training source, `<end>` included; 0 before the training
            split has been encoded.
    """

    tokenization: Tokenization
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary
    longest_source: int = 0

    @classmethod
    def build(cls, tokenization: Tokenization, pairs: Iterable[Pair]) -> Self:
        """The codec with the vocabularies of a training split.

        Args:
            tokenization: The tokenization of the task.
            pairs: The training split, which is read only if its tokens have to be counted.
        """
        sources: Counter[str] = Counter()
        targets: Counter[str] = Counter()
        for pair in () if tokenization.has_fixed_vocabularies else pairs:
            sources.update(tokenization.source_tokens(pair.source))
            targets.update([tokenization.start_token(pair.source), *tokenization.target_tokens(pair)])
        return cls(tokenization, *tokenization.vocabularies(sources, targets))

    @property
    def sizes(self) -> tuple[int | PatchGrid, int]:
        """What `build_model` needs: the sizes of both vocabularies; for pictures, the patches in place of the first."""
        return self.tokenization.patches or len(self.source_vocabulary), len(self.target_vocabulary)

    def encode_source(self, text: str) -> EncodedSource:
        """A source text as token ids, or a picture as patches.

        Args:
            text: A source text, or the data URI of a picture.

        Raises:
            UserError: If the task cannot process this text.
        """
        if self.tokenization.patches is not None:
            image = self.tokenization.patches.read(text)
            patches = (*image.patches, image.grid.end)
            return EncodedSource(text, patches, (*image.labels, END), self.start(text), image)
        tokens = self.tokenization.source_tokens(text)
        if not tokens:
            return EncodedSource(text, (), (), Vocabulary.begin)
        ids = (*self._to_ids(tokens, self.source_vocabulary), Vocabulary.end)
        return EncodedSource(text, ids, (*tokens, END), self.start(text))

    def source(self, text: str) -> Source:
        """The encoder's input, `<end>` included.

        Args:
            text: A source text, or the data URI of a picture.

        Raises:
            UserError: If the task cannot process this text.
        """
        return self.encode_source(text).ids or (Vocabulary.end,)

    def source_tokens(self, text: str) -> list[str]:
        """The encoder's input as tokens, `<end>` included; tokens that are not in the vocabulary are `<unknown>`.

        Args:
            text: A source text. The tokens of a picture are the names of its patches.
        """
        known = self.source_vocabulary
        if self.tokenization.patches is not None:
            return list(self.encode_source(text).tokens)
        tokens = self.tokenization.source_tokens(text)
        return [*known.to_tokens(self._to_ids(tokens, known)), END]

    def start(self, text: str) -> int:
        """The decoder's first input.

        Args:
            text: The source text.
        """
        token = self.tokenization.start_token(text)
        return self.target_vocabulary.to_ids([token])[0] if token in self.target_vocabulary else Vocabulary.begin

    def prefix(self, output: str | tuple[str, ...]) -> tuple[int, ...]:
        """The ids of an output that begins with a given text or with given tokens.

        Args:
            output: A text, or tokens of an earlier output, which are taken as they are: they may include `<unknown>`,
                and the last may be `<end>`. (A text might be tokenized differently.)

        Raises:
            UserError: If a token is not in the target vocabulary.
        """
        if isinstance(output, str):
            tokens = self.tokenization.prefix_tokens(output)
            _check_known(tokens, self.target_vocabulary)
            return tuple(self.target_vocabulary.to_ids(tokens))
        ends = output[-1:] == (END,)
        tokens = list(output[: len(output) - ends])
        _check_known(tokens, self.target_vocabulary, allowed=(UNKNOWN,))
        return (*self.target_vocabulary.to_ids(tokens), *[Vocabulary.end] * ends)

    def example(self, pair: Pair) -> Example:
        """A pair as token ids.

        Args:
            pair: A source text and its target.
        """
        return Example(self.source(pair.source), (self.start(pair.source), *self.target(pair)), pair.weight)

    def target(self, pair: Pair) -> tuple[int, ...]:
        """The decoder's output, `<end>` included.

        Args:
            pair: A source text and its target.
        """
        return (*self._to_ids(self.tokenization.target_tokens(pair), self.target_vocabulary), Vocabulary.end)

    def examples(self, pairs: Iterable[Pair]) -> list[Example]:
        """Pairs as token ids.

        Args:
            pairs: Source texts and their targets.
        """
        return [self.example(pair) for pair in pairs]

    def text(self, ids: Sequence[int], replacements: Mapping[int, str] | None = None) -> str:
        """The text of a decoder's output, without special tokens.

        Args:
            ids: Output tokens.
            replacements: Other tokens for some indices of `ids`.
        """
        special = range(len(SPECIAL))
        tokens = {
            index: self.target_vocabulary.tokens[token] for index, token in enumerate(ids) if token not in special
        } | dict(replacements or {})
        return self.tokenization.target_text([tokens[index] for index in sorted(tokens)])

    def resample(self, example: Example, random: Random) -> Example:
        """The same pair in another segmentation, where the tokenization has several (subword regularization).

        Args:
            example: The pair as token ids; returned unchanged if one of them is unknown.
            random: The source of randomness.
        """
        if is_patches(example.source):
            return example
        source, target = example.source[:-1], example.target[1:-1]
        if Vocabulary.unknown in (*source, *target):
            return example  # its text is lost
        tokens = self.tokenization.resample(
            self.source_vocabulary.to_tokens(source), self.target_vocabulary.to_tokens(target), random
        )
        return Example(
            (*self.source_vocabulary.to_ids(tokens[0]), Vocabulary.end),
            (example.target[0], *self.target_vocabulary.to_ids(tokens[1]), Vocabulary.end),
            example.weight,
        )

    def _to_ids(self, tokens: Sequence[str], vocabulary: Vocabulary) -> list[int]:
        if not self.tokenization.open_vocabulary:
            _check_known(tokens, vocabulary)
        return vocabulary.to_ids(tokens)


def _check_known(tokens: Sequence[str], vocabulary: Vocabulary, allowed: Sequence[str] = ()) -> None:
    for number, token in enumerate(tokens, start=1):
        if token not in vocabulary and token not in allowed:
            size = len(vocabulary) - len(SPECIAL)
            raise UserError(f"token {number}, {token!r}, is not among the {size} that this model has learned")
