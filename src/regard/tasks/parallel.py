"""Parallel text: settings, data set and task of pairs of texts in files; the known data set Multi30k."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Annotated, ClassVar, Generic, Literal, Self, TypeVar

from pydantic import Field, SerializeAsAny, model_validator

from regard.config.base import invalid_combination
from regard.config.families import SectionOf
from regard.config.kinds import TOKENIZERS, DataSection, TokenizerSection
from regard.corpora import datasets
from regard.errors import UserError
from regard.tasks.base import SPLITS, Split, Task
from regard.tasks.file_pairs import FilePairs, JoinedPairs
from regard.text import Pair, ReadFile
from regard.text.learned_tokenization import LearnedTokenization


class ParallelSection(DataSection):
    """Settings of parallel text.

    Attributes:
        source: The source language, the suffix of its file names: `train.de`.
        target: The target language.
        text: Tokens and vocabularies.
    """

    source: str = Field(default="de", pattern=r"^[\w-]+$")
    target: str = Field(default="en", pattern=r"^[\w-]+$")
    text: Annotated[SerializeAsAny[TokenizerSection], SectionOf(TOKENIZERS)] = Field(
        default_factory=TOKENIZERS.default_section
    )

    @property
    def known_tags(self) -> list[str]:
        """The tags that sources may begin with, which are tokens of the vocabulary."""
        return []

    @model_validator(mode="after")
    def _languages_differ(self) -> Self:
        if self.source == self.target:
            raise invalid_combination("target", f"'{self.target}' is the source as well; a model would learn to copy")
        return self


ParallelSectionType = TypeVar("ParallelSectionType", bound=ParallelSection)


class ParallelDataset(ABC, Generic[ParallelSectionType]):
    """Pairs of lines in files.

    Args:
        section: The settings of the task.
    """

    def __init__(self, section: ParallelSectionType) -> None:
        self.section = section

    @abstractmethod
    def corpora(self, split: Split) -> list[FilePairs]:
        """The corpora of a split, of which there is none without such a split.

        Args:
            split: `train`, `validation` or `test`.
        """

    def splits(self) -> Mapping[Split, Iterable[Pair]]:
        """All splits that have files."""
        return {split: JoinedPairs(corpora) for split in SPLITS if (corpora := self.corpora(split))}

    def pairs(self, split: Split) -> Iterable[Pair]:
        """The pairs of one split.

        Args:
            split: `train`, `validation` or `test`.

        Raises:
            UserError: If the experiment names no files for this split.
        """
        corpora = self.corpora(split)
        if not corpora:
            raise UserError(f"data.{split}: this experiment has no files for the {split} split; set data.{split}")
        return JoinedPairs(corpora)


class ParallelTask(Task[ParallelSectionType]):
    """A task on parallel text, whose tokenization is learned from the training split.

    Args:
        section: The settings of the task.
    """

    metrics = ("bleu_lc", "bleu", "chrf", "exact_match")
    learns_tokenization = True

    @property
    @abstractmethod
    def dataset(self) -> ParallelDataset[ParallelSectionType]: ...

    def learn_tokenization(self, pairs: Iterable[Pair]) -> LearnedTokenization:
        return LearnedTokenization.learn(self.section.text, pairs, self.section.known_tags)

    def load_tokenization(self, read: ReadFile) -> LearnedTokenization:
        return LearnedTokenization.load(self.section.text, read, self.section.known_tags)

    @property
    def has_joint_vocabulary(self) -> bool:
        return self.section.text.joint

    @property
    def has_real_test(self) -> bool:
        return True


class Multi30kSection(ParallelSection):
    """Settings of Multi30k.

    Attributes:
        task: Name of the task.
        source: `de`, `en` or `fr`.
        target: `de`, `en` or `fr`, another one.
        test: The test set; the names of its files begin with `test_`.
    """

    task: str = "multi30k"
    source: Literal["de", "en", "fr"] = "de"
    target: Literal["de", "en", "fr"] = "en"
    test: Literal["2016_flickr", "2017_flickr", "2017_mscoco", "2018_flickr"] = "2016_flickr"

    test_set_key: ClassVar[str | None] = "test"


class Multi30kDataset(ParallelDataset[Multi30kSection]):
    """31,014 captions of photographs, in German, English and French.

    Args:
        section: The settings of the task.
    """

    def corpora(self, split: Split) -> list[FilePairs]:
        section = self.section
        stem = {"train": "train", "validation": "val", "test": f"test_{section.test}"}[split]
        source, target = f"{stem}.{section.source}", f"{stem}.{section.target}"
        selected = datasets.find_dataset("multi30k").select([section.source, section.target], [section.test])
        folder = datasets.dataset_folder(selected, [source, target])
        return [FilePairs(folder / source, folder / target)]


class Multi30kTask(ParallelTask[Multi30kSection]):
    """Translation of captions between German, English and French.

    Args:
        section: The settings of the task.
    """

    Section = Multi30kSection

    @property
    def dataset(self) -> Multi30kDataset:
        return Multi30kDataset(self.section)
