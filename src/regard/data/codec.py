"""Between the texts of a task and the numbers of a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from regard.errors import UserError
from regard.tasks import Pair, Task
from regard.text import Vocabulary


@dataclass(frozen=True)
class Example:
    """A pair in numbers. Both sides end with `<end>`; the target begins with what the decoder reads first."""

    source: tuple[int, ...]
    target: tuple[int, ...]


@dataclass(frozen=True)
class Codec:
    """A task with what was learned of its texts: the vocabularies of both sides, and how long a source may be."""

    task: Task
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary
    longest_source: int  # tokens in the longest training source, its end included

    @classmethod
    def build(cls, task: Task, pairs: Sequence[Pair]) -> Self:
        """The vocabularies are those of `pairs`, the training split."""
        sources = [task.source_tokens(pair.source) for pair in pairs]
        targets = [[task.start_token(pair.source), *task.target_tokens(pair)] for pair in pairs]
        longest = max(len(source) for source in sources) + 1
        return cls(task, Vocabulary.build(sources), Vocabulary.build(targets), longest)

    def source(self, text: str) -> tuple[int, ...]:
        tokens = self.task.source_tokens(text)
        _check_known(tokens, self.source_vocabulary)
        return (*self.source_vocabulary.numbers(tokens), Vocabulary.end)

    def source_tokens(self, text: str) -> list[str]:
        """What the encoder reads, spelled out, `<end>` included."""
        return self.source_vocabulary.spell(self.source(text))

    def start(self, text: str) -> int:
        """What the decoder reads first."""
        token = self.task.start_token(text)
        return self.target_vocabulary.numbers([token])[0] if token in self.target_vocabulary else Vocabulary.begin

    def prefix(self, text: str) -> tuple[int, ...]:
        """What the decoder has said once its output begins with `text`."""
        tokens = self.task.tokenizer.split(text)
        _check_known(tokens, self.target_vocabulary)
        return tuple(self.target_vocabulary.numbers(tokens))

    def example(self, pair: Pair) -> Example:
        tokens = self.task.target_tokens(pair)
        _check_known(tokens, self.target_vocabulary)
        target = (self.start(pair.source), *self.target_vocabulary.numbers(tokens), Vocabulary.end)
        return Example(self.source(pair.source), target)

    def examples(self, pairs: Iterable[Pair]) -> list[Example]:
        return [self.example(pair) for pair in pairs]

    def text(self, numbers: Iterable[int]) -> str:
        """The text of what a decoder has said; special tokens say nothing."""
        special = (Vocabulary.pad, Vocabulary.begin, Vocabulary.end)
        return self.task.target_text(self.target_vocabulary.spell(n for n in numbers if n not in special))


def _check_known(tokens: Sequence[str], vocabulary: Vocabulary) -> None:
    for place, token in enumerate(tokens, start=1):
        if token not in vocabulary:
            known = len(vocabulary) - 4
            raise UserError(f"token {place}, {token!r}, is not among the {known} that this model has learned")
