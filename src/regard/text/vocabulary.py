"""Vocabularies: tokens and their ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest

PAD, BEGIN, END, UNKNOWN = "<pad>", "<begin>", "<end>", "<unknown>"
SPECIAL = (PAD, BEGIN, END, UNKNOWN)


class Vocabulary:
    """An immutable list of tokens, the four special ones first; the index of a token is its id.

    Special tokens cannot be looked up by their spelling: a user who types `<end>` gets the id of `<unknown>`.

    Args:
        tokens: All tokens in the order of their ids, beginning with the special ones.

    Raises:
        ValueError: If the special tokens are not first, or a token is repeated.
    """

    pad, begin, end, unknown = range(4)

    def __init__(self, tokens: Sequence[str]) -> None:
        if tuple(tokens[:4]) != SPECIAL or len(set(tokens)) != len(tokens):
            raise ValueError(f"a vocabulary starts with {', '.join(SPECIAL)} and repeats no token")
        self.tokens = tuple(tokens)
        self._ids = {token: index for index, token in enumerate(tokens) if index >= len(SPECIAL)}

    @classmethod
    def build(cls, sentences: Iterable[Iterable[str]]) -> Vocabulary:
        """The vocabulary of all tokens in some sentences.

        Args:
            sentences: Tokenized sentences.
        """
        return cls.from_counts(Counter(token for sentence in sentences for token in sentence))

    @classmethod
    def from_counts(cls, counts: Mapping[str, int], *, min_frequency: int = 1, size: int | None = None) -> Vocabulary:
        """The vocabulary of the most frequent tokens, most frequent first, ties in alphabetical order.

        Args:
            counts: The frequency of each token.
            min_frequency: The smallest frequency of a token that is included.
            size: The largest number of tokens besides the special ones; None for all.
        """
        found = ((-count, token) for token, count in counts.items() if token not in SPECIAL and count >= min_frequency)
        first = sorted(found) if size is None else nsmallest(size, found)  # of maybe millions, without a copy
        return cls.from_list(token for _, token in first)

    @classmethod
    def from_list(cls, tokens: Iterable[str]) -> Vocabulary:
        """The vocabulary of the special tokens followed by `tokens`.

        Args:
            tokens: Ordinary tokens; those that are spelled like a special token are left out.
        """
        return cls([*SPECIAL, *(token for token in tokens if token not in SPECIAL)])

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: str) -> bool:
        return token in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.tokens == other.tokens

    def __hash__(self) -> int:
        return hash(self.tokens)

    def to_ids(self, tokens: Iterable[str]) -> list[int]:
        """The ids of tokens of a text; `<unknown>` for those that are not in the vocabulary.

        Args:
            tokens: What a tokenizer returned. Special tokens among them are unknown, because a user may have typed
                them; for the model's own output, use `output_to_ids`.
        """
        return [self._ids.get(token, self.unknown) for token in tokens]

    def to_tokens(self, ids: Iterable[int]) -> list[str]:
        """The tokens with these ids.

        Args:
            ids: Ids from 0 to `len(vocabulary) - 1`.
        """
        return [self.tokens[index] for index in ids]

    def output_to_ids(self, tokens: Iterable[str]) -> list[int]:
        """The ids of what `to_tokens` returned, special tokens included.

        Args:
            tokens: A model's output tokens; not for text that a user typed.

        Raises:
            ValueError: If a token is not in the vocabulary.
        """
        return [self.tokens.index(token) for token in tokens]
