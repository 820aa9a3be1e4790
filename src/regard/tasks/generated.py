"""Generated data sets: each pair is drawn from a random number generator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Set
from hashlib import blake2b
from random import Random
from typing import Any, Generic, TypeVar

from pydantic import Field

from regard.config.kinds import DataSection
from regard.errors import UserError
from regard.tasks.base import SPLITS, Split, Task
from regard.text import Pair, ReadFile, Tokenization

# The number of repeated sources in a row after which a task is considered exhausted.
MAX_REPETITIONS = 1000
MAX_PAIRS = 10_000_000  # of a split
MAX_IN_MEMORY = 100_000  # training pairs, about 2 kB each; more are generated again whenever they are read


class GeneratedSection(DataSection):
    """The settings of all generated tasks.

    Attributes:
        train: Number of training pairs.
        validation: Number of validation pairs.
        test: Number of test pairs.
        seed: Seed of the pairs.
    """

    train: int = Field(default=20_000, ge=1, le=MAX_PAIRS)
    validation: int = Field(default=500, ge=1, le=MAX_PAIRS)
    test: int = Field(default=1_000, ge=1, le=MAX_PAIRS)
    seed: int = Field(default=1, ge=0)


GeneratedSectionType = TypeVar("GeneratedSectionType", bound=GeneratedSection)


class GeneratedDataset(ABC, Generic[GeneratedSectionType]):
    """Pairs that a subclass generates. No source occurs twice, neither within a split nor in two splits.

    Args:
        section: The settings of the task.
    """

    def __init__(self, section: GeneratedSectionType) -> None:
        self.section = section

    @abstractmethod
    def generate(self, random: Random) -> Pair:
        """One pair.

        Args:
            random: The only source of randomness.
        """

    def splits(self) -> dict[Split, Iterable[Pair]]:
        """All pairs: lists, or `GeneratedPairs` where the training split is larger than `MAX_IN_MEMORY`."""
        return dict(self._generate_splits())

    def pairs(self, split: Split) -> Iterable[Pair]:
        """The pairs of one split.

        Args:
            split: `train`, `validation` or `test`.
        """
        return next(pairs for name, pairs in self._generate_splits() if name == split)

    def _generate_splits(self) -> Iterator[tuple[Split, Iterable[Pair]]]:
        """One split after the other, the test set first, which can thus be had without waiting for the rest.

        The order and a random generator for each split make the test set independent of the size of the training
        set, so that results stay comparable.
        """
        seen: set[int] = set()
        for split in reversed(SPLITS):
            if split == "train" and self.section.train > MAX_IN_MEMORY:
                yield split, GeneratedPairs(self, seen)
            else:
                yield split, list(self._generate_split(split, seen))

    def _generate_split(self, split: Split, seen: set[int]) -> Iterator[Pair]:
        """The pairs of one split, whose sources are not in `seen`; their digests are added."""
        random = Random(f"{self.section.seed}/{split}")
        size: int = getattr(self.section, split)
        count = repetitions = 0
        while count < size:
            pair = self.generate(random)
            digest = _digest(pair.source)
            if digest not in seen:
                seen.add(digest)
                count, repetitions = count + 1, 0
                yield pair
            elif (repetitions := repetitions + 1) == MAX_REPETITIONS:
                raise UserError(
                    f"data.{split}: {size} pairs are more than this task can generate: it had no new ones after "
                    f"{len(seen)} in all splits; choose fewer pairs, or longer texts"
                )


class GeneratedPairs:
    """The training pairs of a generated data set. Each iteration generates them again, one at a time.

    Args:
        dataset: The data set.
        others: The digests of the sources of the other splits.
    """

    def __init__(self, dataset: GeneratedDataset[Any], others: Set[int]) -> None:
        self.dataset, self.others = dataset, others

    def __iter__(self) -> Iterator[Pair]:
        return self.dataset._generate_split("train", set(self.others))

    def __len__(self) -> int:
        size: int = self.dataset.section.train
        return size


def _digest(text: str) -> int:
    """Eight bytes, because the texts of millions of pairs would not fit into memory."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


class GeneratedTask(Task[GeneratedSectionType]):
    """A task with a generated data set and a tokenization that has nothing to learn.

    Args:
        section: The settings of the task.
    """

    @property
    @abstractmethod
    def dataset(self) -> GeneratedDataset[GeneratedSectionType]: ...

    @property
    @abstractmethod
    def tokenization(self) -> Tokenization:
        """How the texts become tokens."""

    def learn_tokenization(self, pairs: Iterable[Pair]) -> Tokenization:
        return self.tokenization

    def load_tokenization(self, read: ReadFile) -> Tokenization:
        return self.tokenization
