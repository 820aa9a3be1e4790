"""What a task is: pairs of texts to learn from, and how these texts are written as tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Literal

from regard.config.base import Section
from regard.text import BEGIN, Characters, Tokenizer, Vocabulary

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
# Reads a file by its name, and makes something of its content; what is wrong with it is told with its place.
Read = Callable[[str, Callable[[bytes], Any]], Any]
ScoredBy = Literal["exact match", "bleu", "phonemes"]


@dataclass(frozen=True)
class Pair:
    """A source text, its target text and, where the truth is known, which tokens belong together."""

    source: str
    target: str
    alignment: frozenset[tuple[int, int]] = frozenset()  # (source token, target token), counted from 0
    other_targets: tuple[str, ...] = ()  # further correct targets


class Tokenization:
    """How texts are written as tokens, and tokens as texts. A task has one, or learns it from its training texts."""

    tokenizer: ClassVar[Tokenizer] = Characters()  # of the targets, and of the sources unless they are read otherwise
    is_open: ClassVar[bool] = False  # may texts have tokens that were never seen? If not, they are refused
    # Target tokens that carry grammar more than meaning: not counted when attention is held against the truth.
    function_words: ClassVar[frozenset[str]] = frozenset()

    def source_tokens(self, text: str) -> list[str]:
        """What the encoder reads; a text that this task cannot serve is a `UserError`."""
        return self.tokenizer.split(text)

    def start_token(self, text: str) -> str:
        """What the decoder reads first."""
        return BEGIN

    def prompt_token(self, text: str) -> str | None:
        """The token that says what is to be done with the rest of the text, whoever reads it; None: there is none."""
        return None

    def target_tokens(self, pair: Pair) -> list[str]:
        """What the decoder has to say."""
        return self.prefix_tokens(pair.target)

    def prefix_tokens(self, text: str) -> list[str]:
        """What the decoder says when its output begins with `text`."""
        return self.tokenizer.split(text)

    def target_text(self, tokens: Sequence[str]) -> str:
        return self.tokenizer.join(tokens)

    def source_starts(self, tokens: Sequence[str]) -> list[bool]:
        """Where words begin."""
        return [True] * len(tokens)

    def target_starts(self, tokens: Sequence[str]) -> list[bool]:
        return [True] * len(tokens)

    def vocabularies(self, sources: Counter[str], targets: Counter[str]) -> tuple[Vocabulary, Vocabulary]:
        """What is numbered on both sides, given how often each token stands in the training texts."""
        return Vocabulary.counted(sources), Vocabulary.counted(targets)

    @property
    def varies(self) -> bool:
        """Does `resplit` ever give other tokens?"""
        return False

    def resplit(self, source: Sequence[str], target: Sequence[str], random: Random) -> tuple[list[str], list[str]]:
        """The same two texts, perhaps in other tokens, for a model that shall not get used to one way."""
        return list(source), list(target)

    def fits(self, source: Vocabulary, target: Vocabulary) -> bool:
        """Can these be the vocabularies of its tokens?"""
        return True

    def files(self) -> dict[str, bytes]:
        """What a run has to keep of it besides the vocabularies: file names and contents."""
        return {}


class Task(Section, Tokenization, ABC):
    """The section `data` of an experiment."""

    scored_by: ClassVar[ScoredBy] = "exact match"
    # Settings that name files; relative ones are meant from where the experiment file lies.
    paths: ClassVar[frozenset[str]] = frozenset()
    learns: ClassVar[bool] = False  # does `learn` take its time?

    @abstractmethod
    def splits(self) -> Mapping[Split, Iterable[Pair]]:
        """All pairs; a split can be gone through any number of times, and may be too large to be held in memory."""

    @property
    def has_joint_vocabulary(self) -> bool:
        """Are tokens numbered alike on both sides?"""
        return False

    @property
    def has_real_test(self) -> bool:
        """Is there a test set of real text, on which a finished training is to be scored?"""
        return False

    def pairs(self, split: Split) -> Iterable[Pair]:
        """Those of one split; the others need not be there any more."""
        return self.splits()[split]

    def learn(self, pairs: Iterable[Pair]) -> Tokenization:
        """How texts like those of `pairs`, the training split, are written as tokens."""
        return self

    def learned(self, read: Read) -> Tokenization:
        """What `learn` gave, from its `files`."""
        return self
