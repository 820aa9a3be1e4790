"""Between the texts of a task and the numbers of a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Self

from regard.errors import UserError
from regard.tasks import Pair, Task, Tokenization
from regard.text import END, SPECIAL, UNKNOWN, Vocabulary


@dataclass(frozen=True)
class Example:
    """A pair in numbers. Both sides end with `<end>`; the target begins with what the decoder reads first."""

    source: tuple[int, ...]
    target: tuple[int, ...]


@dataclass(frozen=True)
class Codec:
    """A notation and what was learned of its texts: the vocabularies of both sides, and how long a source may be."""

    tokenization: Tokenization
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary
    longest_source: int  # tokens in the longest training source, its end included

    @classmethod
    def build(cls, task: Task, pairs: Iterable[Pair]) -> Self:
        """Notation and vocabularies are those of `pairs`, the training split."""
        tokenization = task.learn(pairs)
        sources: Counter[str] = Counter()
        targets: Counter[str] = Counter()
        longest = 0
        for pair in pairs:
            source = tokenization.source_tokens(pair.source)
            sources.update(source)
            targets.update([tokenization.start_token(pair.source), *tokenization.target_tokens(pair)])
            longest = max(longest, len(source) + 1)
        return cls(tokenization, *tokenization.vocabularies(sources, targets), longest)

    @property
    def sizes(self) -> tuple[int, int]:
        """How many tokens are numbered on each side."""
        return len(self.source_vocabulary), len(self.target_vocabulary)

    def source(self, text: str) -> tuple[int, ...]:
        tokens = self.tokenization.source_tokens(text)
        return (*self._numbers(tokens, self.source_vocabulary), Vocabulary.end)

    def source_tokens(self, text: str) -> list[str]:
        """What the encoder reads, spelled out, `<end>` included."""
        return self.source_vocabulary.spell(self.source(text))

    def start(self, text: str) -> int:
        """What the decoder reads first."""
        token = self.tokenization.start_token(text)
        return self.target_vocabulary.numbers([token])[0] if token in self.target_vocabulary else Vocabulary.begin

    def prefix(self, said: str | tuple[str, ...]) -> tuple[int, ...]:
        """What the decoder has said once its output begins with a text, or with tokens that it has said before.

        Such tokens may be `<unknown>`, and the last of them `<end>`. A text could be written in other tokens.
        """
        if isinstance(said, str):
            tokens = self.tokenization.prefix_tokens(said)
            _check_known(tokens, self.target_vocabulary)
            return tuple(self.target_vocabulary.numbers(tokens))
        ends = said[-1:] == (END,)
        tokens = list(said[: len(said) - ends])
        _check_known(tokens, self.target_vocabulary, besides=(UNKNOWN,))
        return (*self.target_vocabulary.numbers(tokens), *[Vocabulary.end] * ends)

    def example(self, pair: Pair) -> Example:
        said = self._numbers(self.tokenization.target_tokens(pair), self.target_vocabulary)
        return Example(self.source(pair.source), (self.start(pair.source), *said, Vocabulary.end))

    def examples(self, pairs: Iterable[Pair]) -> list[Example]:
        return [self.example(pair) for pair in pairs]

    def text(self, numbers: Sequence[int], instead: Mapping[int, str] | None = None) -> str:
        """The text of what a decoder has said, special tokens left out; `instead` has other words for some places."""
        silent = range(len(SPECIAL))
        said = [place for place, number in enumerate(numbers) if number not in silent]
        words = {place: self.target_vocabulary.tokens[numbers[place]] for place in said} | dict(instead or {})
        return self.tokenization.target_text([words[place] for place in sorted(words)])

    def vary(self, example: Example, random: Random) -> Example:
        """The same pair in other tokens, where the notation knows several ways to write it."""
        source, target = example.source[:-1], example.target[1:-1]
        if Vocabulary.unknown in (*source, *target):
            return example  # how it was spelled is forgotten
        tokens = self.tokenization.resplit(
            self.source_vocabulary.spell(source), self.target_vocabulary.spell(target), random
        )
        return Example(
            (*self.source_vocabulary.numbers(tokens[0]), Vocabulary.end),
            (example.target[0], *self.target_vocabulary.numbers(tokens[1]), Vocabulary.end),
        )

    def _numbers(self, tokens: Sequence[str], vocabulary: Vocabulary) -> list[int]:
        if not self.tokenization.is_open:
            _check_known(tokens, vocabulary)
        return vocabulary.numbers(tokens)


def _check_known(tokens: Sequence[str], vocabulary: Vocabulary, besides: Sequence[str] = ()) -> None:
    for place, token in enumerate(tokens, start=1):
        if token not in vocabulary and token not in besides:
            known = len(vocabulary) - 4
            raise UserError(f"token {place}, {token!r}, is not among the {known} that this model has learned")
