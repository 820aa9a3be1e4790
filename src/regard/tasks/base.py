"""Tasks: a task ties settings, a data set and a tokenization together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

from regard.config.kinds import DataSection
from regard.text import Pair, ReadFile, Tokenization

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")


class Dataset(Protocol):
    """Pairs in splits, generated or read from files."""

    def splits(self) -> Mapping[Split, Iterable[Pair]]:
        """All splits. A split can be iterated over any number of times, and may be larger than memory."""

    def pairs(self, split: Split) -> Iterable[Pair]:
        """The pairs of one split; the files of the others may be missing.

        Args:
            split: `train`, `validation` or `test`.
        """


SectionType = TypeVar("SectionType", bound=DataSection)


class Task(ABC, Generic[SectionType]):
    """What a model learns. A subclass names its settings and creates its data set and its tokenization.

    Args:
        section: The settings, an instance of `Section`.
    """

    Section: ClassVar[type[DataSection]]
    # The metrics of output texts: names, or objects of `regard.evaluation.Metric`. The first is the main metric.
    metrics: ClassVar[tuple[Any, ...]] = ("exact_match",)
    # True if `learn_tokenization` takes noticeable time.
    learns_tokenization: ClassVar[bool] = False
    # True if sources are pictures: data URIs, which a tokenization with `patches` reads.
    reads_pictures: ClassVar[bool] = False

    def __init__(self, section: SectionType) -> None:
        self.section = section

    @property
    @abstractmethod
    def dataset(self) -> Dataset:
        """The pairs to train and evaluate on."""

    @abstractmethod
    def learn_tokenization(self, pairs: Iterable[Pair]) -> Tokenization:
        """The tokenization of this task.

        Args:
            pairs: The training split, from which it may be learned.
        """

    @abstractmethod
    def load_tokenization(self, read: ReadFile) -> Tokenization:
        """The tokenization that `learn_tokenization` returned, from the files that a run directory kept.

        Args:
            read: Reads and parses one of these files.
        """

    def missing_files(self, splits: Iterable[Split] = SPLITS) -> dict[str, str]:
        """For each setting that names a missing file, the message about it.

        Args:
            splits: Only the files of these splits.
        """
        return {}

    @property
    def has_joint_vocabulary(self) -> bool:
        """True if tokens have the same ids on both sides."""
        return False

    @property
    def has_real_test(self) -> bool:
        """True if there is a test set of real text, on which a finished training is scored."""
        return False
