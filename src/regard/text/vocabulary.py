"""Tokens and their numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

PAD, BEGIN, END, UNKNOWN = "<pad>", "<begin>", "<end>", "<unknown>"
SPECIAL = (PAD, BEGIN, END, UNKNOWN)


class Vocabulary:
    """A numbered list of tokens, the four special ones first.

    Text is never trusted: a user who types `<end>` gets the number of `<unknown>`, because only what was seen as
    an ordinary token can be looked up by its spelling.
    """

    pad, begin, end, unknown = range(4)

    def __init__(self, tokens: Sequence[str]) -> None:
        if tuple(tokens[:4]) != SPECIAL or len(set(tokens)) != len(tokens):
            raise ValueError(f"a vocabulary starts with {', '.join(SPECIAL)} and repeats no token")
        self.tokens = tuple(tokens)
        self._numbers = {token: number for number, token in enumerate(tokens) if number >= len(SPECIAL)}

    @classmethod
    def build(cls, sentences: Iterable[Iterable[str]]) -> Vocabulary:
        """All tokens of `sentences`."""
        return cls.counted(Counter(token for sentence in sentences for token in sentence))

    @classmethod
    def counted(cls, counts: Mapping[str, int], *, min_frequency: int = 1, size: int | None = None) -> Vocabulary:
        """The most frequent first, equals in the order of their spelling; `size` of them at most."""
        ordinary = {token: count for token, count in counts.items() if token not in SPECIAL and count >= min_frequency}
        return cls.listed(sorted(ordinary, key=lambda token: (-ordinary[token], token))[:size])

    @classmethod
    def listed(cls, tokens: Iterable[str]) -> Vocabulary:
        """These tokens, behind the special ones; what is only spelled like a special one is left out."""
        return cls([*SPECIAL, *(token for token in tokens if token not in SPECIAL)])

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: str) -> bool:
        return token in self._numbers

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.tokens == other.tokens

    def __hash__(self) -> int:
        return hash(self.tokens)

    def numbers(self, tokens: Iterable[str]) -> list[int]:
        return [self._numbers.get(token, self.unknown) for token in tokens]

    def spell(self, numbers: Iterable[int]) -> list[str]:
        return [self.tokens[number] for number in numbers]

    def unspell(self, tokens: Iterable[str]) -> list[int]:
        """The numbers of what `spell` gave, special tokens included: not for texts that somebody typed."""
        return [self.tokens.index(token) for token in tokens]
