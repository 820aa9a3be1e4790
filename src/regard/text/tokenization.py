"""Tokenizations: how the source and target texts of a task become tokens, and tokens become text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from regard.text.pairs import Pair
from regard.text.tokenizers import CharacterTokenizer, Tokenizer
from regard.text.vocabulary import BEGIN, Vocabulary

if TYPE_CHECKING:
    from regard.images import PatchGrid

# Reads a file by its name and parses its content; reports errors with the path of the file.
ReadFile = Callable[[str, Callable[[bytes], Any]], Any]


class Tokenization:
    """The tokens of both sides. By default both sides are tokenized by `tokenizer`; subclasses change what differs."""

    tokenizer: Tokenizer = CharacterTokenizer()
    # How a source is divided if it is a picture; None: sources are texts.
    patches: PatchGrid | None = None
    # True: texts are converted to lower case.
    lowercase: bool = False
    # True: tokens that were not in the training split become `<unknown>`. False: they are a `UserError`.
    open_vocabulary: bool = False
    # Tokens in front of a source that are never generated, even if both sides have one vocabulary.
    tags: tuple[str, ...] = ()
    # Target tokens that carry grammar rather than meaning; alignment accuracy does not count them.
    function_words: frozenset[str] = frozenset()

    def source_tokens(self, text: str) -> list[str]:
        """The encoder's input without `<end>`.

        Args:
            text: A source text.

        Raises:
            UserError: If the task cannot process this text.
        """
        return self.tokenizer.tokenize(text)

    def start_token(self, text: str) -> str:
        """The decoder's first input.

        Args:
            text: The source text.
        """
        return BEGIN

    def prompt_token(self, text: str) -> str | None:
        """The token of a source text that names the operation to perform on the rest; None if there is none.

        Args:
            text: The source text.
        """
        return None

    def target_tokens(self, pair: Pair) -> list[str]:
        """The decoder's expected output without `<end>`.

        Args:
            pair: A source text and its target.
        """
        return self.prefix_tokens(pair.target)

    def prefix_tokens(self, text: str) -> list[str]:
        """The tokens of an output that begins with `text`.

        Args:
            text: The beginning of a target text.
        """
        return self.tokenizer.tokenize(text)

    def target_text(self, tokens: Sequence[str]) -> str:
        """The text of an output.

        Args:
            tokens: Output tokens without special ones.
        """
        return self.tokenizer.detokenize(tokens)

    def source_starts(self, tokens: Sequence[str]) -> list[bool]:
        """For each source token, True if a word begins with it.

        Args:
            tokens: Source tokens.
        """
        return [True] * len(tokens)

    def target_starts(self, tokens: Sequence[str]) -> list[bool]:
        """For each target token, True if a word begins with it.

        Args:
            tokens: Target tokens.
        """
        return [True] * len(tokens)

    @property
    def has_fixed_vocabularies(self) -> bool:
        """True if `vocabularies` needs no token frequencies: tokens are not counted then."""
        return False

    def vocabularies(self, sources: Counter[str], targets: Counter[str]) -> tuple[Vocabulary, Vocabulary]:
        """The source and the target vocabulary.

        Args:
            sources: Token frequencies of the training sources.
            targets: Token frequencies of the training targets.
        """
        return Vocabulary.from_counts(sources), Vocabulary.from_counts(targets)

    @property
    def can_resample(self) -> bool:
        """True if `resample` may return other tokens than it was given."""
        return False

    def resample(self, source: Sequence[str], target: Sequence[str], random: Random) -> tuple[list[str], list[str]]:
        """The same two texts, in a segmentation drawn at random where there are several (subword regularization).

        Args:
            source: Source tokens.
            target: Target tokens.
            random: The source of randomness.
        """
        return list(source), list(target)

    def matches(self, source: Vocabulary, target: Vocabulary) -> bool:
        """True if these can be the vocabularies of this tokenization.

        Args:
            source: A source vocabulary.
            target: A target vocabulary.
        """
        return True

    def files(self) -> dict[str, bytes]:
        """Names and contents of the files that a run directory keeps besides the vocabularies."""
        return {}
