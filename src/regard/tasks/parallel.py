"""Parallel text: pairs of lines in files, the user's own or those of a known data set."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Generic, Literal, Self, TypeVar

from pydantic import Field, SerializeAsAny, model_validator

from regard.config.base import invalid_combination
from regard.config.families import SectionOf
from regard.config.kinds import TOKENIZERS, DataSection, TokenizerSection
from regard.corpora import datasets
from regard.corpora.parallel_text import TSV_SUFFIXES, read_pairs
from regard.corpora.shards import find_shards, is_pattern
from regard.errors import UserError
from regard.tasks.base import SPLITS, Split, Task
from regard.text import Pair, ReadFile
from regard.text.learned_tokenization import LearnedTokenization


class FilePairs:
    """The pairs of two files, line by line, or of one file with two columns. Each iteration reads the files again.

    Args:
        source: The file of the sources, or of both, or a pattern of shards.
        target: The file of the targets, or a pattern; None if `source` has both.
        skip: Whether to leave out invalid pairs instead of raising a `UserError`.
    """

    def __init__(self, source: Path, target: Path | None, *, skip: bool = False) -> None:
        self.source, self.target, self.skip = source, target, skip

    def __iter__(self) -> Iterator[Pair]:
        for source, target in read_pairs(self.source, self.target, skip=self.skip):
            yield Pair(source, target)


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
    def files_of(self, split: Split) -> tuple[Path, Path | None] | None:
        """The files of sources and targets, (file, None) if one file has both, or None without such a split.

        Args:
            split: `train`, `validation` or `test`.
        """

    def splits(self) -> Mapping[Split, Iterable[Pair]]:
        """All splits that have files."""
        return {split: self._open(split, *found) for split in SPLITS if (found := self.files_of(split))}

    def pairs(self, split: Split) -> Iterable[Pair]:
        """The pairs of one split.

        Args:
            split: `train`, `validation` or `test`.

        Raises:
            UserError: If the experiment names no files for this split.
        """
        found = self.files_of(split)
        if found is None:
            raise UserError(f"data.{split}: this experiment has no files for the {split} split; set data.{split}")
        return self._open(split, *found)

    def _open(self, split: Split, source: Path, target: Path | None) -> FilePairs:
        return FilePairs(source, target)


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
        return LearnedTokenization.learn(self.section.text, pairs)

    def load_tokenization(self, read: ReadFile) -> LearnedTokenization:
        return LearnedTokenization.load(self.section.text, read)

    @property
    def has_joint_vocabulary(self) -> bool:
        return self.section.text.joint

    @property
    def has_real_test(self) -> bool:
        return True


class FilesSection(ParallelSection):
    """Settings of the user's own files.

    `train: corpus/train` means corpus/train.de and corpus/train.en, either of which may end in .gz.
    `train: pairs.tsv` (or .tsv.gz) has the source in its first column and the target in its second.
    `train: corpus/train.*` means all files corpus/train.*.de and corpus/train.*.en; see `find_shards`.

    Attributes:
        task: Name of the task.
        train: The training split.
        validation: The validation split.
        test: The test split; null means none.
        skip: Leave out training pairs with an empty side or an over-long line instead of refusing them.
    """

    task: str = "files"
    train: str = Field(min_length=1)
    validation: str = Field(min_length=1)
    test: str | None = Field(default=None, min_length=1)
    skip: bool = False

    path_keys: ClassVar[frozenset[str]] = frozenset(SPLITS)


class FilesDataset(ParallelDataset[FilesSection]):
    """The user's own files.

    Args:
        section: The settings of the task.
    """

    def files_of(self, split: Split) -> tuple[Path, Path | None] | None:
        name: str | None = getattr(self.section, split)
        if name is None:
            return None
        source, target = self.section.source, self.section.target
        if name.endswith(TSV_SUFFIXES):
            files: tuple[Path, Path | None] = self._existing(split, name), None
        else:
            files = self._existing(split, f"{name}.{source}"), self._existing(split, f"{name}.{target}")
        try:
            find_shards(*files)
        except UserError as error:
            raise UserError(f"data.{split}: {error}") from None
        return files

    def _existing(self, split: Split, name: str) -> Path:
        if is_pattern(Path(name)):
            return Path(name)
        for path in (Path(name), Path(f"{name}.gz")):
            if os.path.exists(path):  # Path.exists raises if the name is too long
                return path
        raise UserError(
            f"data.{split}: there is no {name}, nor {name}.gz; give the beginning of two files' names, which "
            f"data.source ({self.section.source}) and data.target ({self.section.target}) complete, or a .tsv file"
        )

    def _open(self, split: Split, source: Path, target: Path | None) -> FilePairs:
        return FilePairs(source, target, skip=self.section.skip and split == "train")


class FilesTask(ParallelTask[FilesSection]):
    """Translation, learned from the user's own files.

    Args:
        section: The settings of the task.
    """

    Section = FilesSection

    @property
    def dataset(self) -> FilesDataset:
        return FilesDataset(self.section)

    @property
    def has_real_test(self) -> bool:
        return self.section.test is not None

    def missing_files(self, splits: Iterable[Split] = SPLITS) -> dict[str, str]:
        missing: dict[str, str] = {}
        for split in splits:
            try:
                self.dataset.files_of(split)
            except UserError as error:
                missing[split] = str(error)
        return missing


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

    def files_of(self, split: Split) -> tuple[Path, Path | None]:
        section = self.section
        stem = {"train": "train", "validation": "val", "test": f"test_{section.test}"}[split]
        source, target = f"{stem}.{section.source}", f"{stem}.{section.target}"
        selected = datasets.find_dataset("multi30k").select([section.source, section.target], [section.test])
        folder = datasets.dataset_folder(selected, [source, target])
        return folder / source, folder / target


class Multi30kTask(ParallelTask[Multi30kSection]):
    """Translation of captions between German, English and French.

    Args:
        section: The settings of the task.
    """

    Section = Multi30kSection

    @property
    def dataset(self) -> Multi30kDataset:
        return Multi30kDataset(self.section)
