"""Parallel text: pairs of lines in files, a person's own or those of a known data set."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from regard.config.base import invalid_combination
from regard.corpora import datasets
from regard.corpora.parallel_text import TSV_SUFFIXES, read_pairs
from regard.errors import UserError
from regard.tasks.base import SPLITS, Pair, Read, ScoredBy, Split, Task, Tokenization
from regard.tasks.learned import LearnedTokenization, TextSection


class PairsInFiles:
    """The pairs of two files, line by line, or of one with two columns; read anew each time they are asked for."""

    def __init__(self, source: Path, target: Path | None, *, skip: bool = False) -> None:
        self.source, self.target, self.skip = source, target, skip

    def __iter__(self) -> Iterator[Pair]:
        for source, target in read_pairs(self.source, self.target, skip=self.skip):
            yield Pair(source, target)


class Parallel(Task):
    """Text in two languages, which are the last part of the files' names: `train.de`, `train.en`."""

    source: str = Field("de", pattern=r"^[\w-]+$")
    target: str = Field("en", pattern=r"^[\w-]+$")
    text: TextSection = TextSection()

    scored_by: ClassVar[ScoredBy] = "bleu"
    learns: ClassVar[bool] = True

    @model_validator(mode="after")
    def _languages_differ(self) -> Self:
        if self.source == self.target:
            raise invalid_combination("target", f"'{self.target}' is the source as well; a model would learn to copy")
        return self

    @abstractmethod
    def files_of(self, split: Split) -> tuple[Path, Path | None] | None:
        """Where the sources and the targets are; without the latter, both are in one file. None: no such split."""

    def splits(self) -> Mapping[Split, Iterable[Pair]]:
        return {split: self._lines(split, *found) for split in SPLITS if (found := self.files_of(split))}

    def _lines(self, split: Split, source: Path, target: Path | None) -> PairsInFiles:
        return PairsInFiles(source, target)

    def pairs(self, split: Split) -> Iterable[Pair]:
        found = self.files_of(split)
        if found is None:
            raise UserError(
                f"data.{split}: this experiment names no files for it, so there is nothing to be measured on"
            )
        return self._lines(split, *found)

    @property
    def has_joint_vocabulary(self) -> bool:
        return self.text.joint

    @property
    def has_real_test(self) -> bool:
        return self.files_of("test") is not None

    def learn(self, pairs: Iterable[Pair]) -> Tokenization:
        return LearnedTokenization.learn(self.text, pairs)

    def learned(self, read: Read) -> Tokenization:
        return LearnedTokenization.restored(self.text, read)


class Files(Parallel):
    """Your own files: `train: corpus/train` stands for corpus/train.de and corpus/train.en, each perhaps with .gz.

    `train: pairs.tsv` (or .tsv.gz) has the source in its first column and the target in its second.
    """

    task: Literal["files"] = "files"
    train: str = Field(min_length=1)
    validation: str = Field(min_length=1)
    test: str | None = Field(None, min_length=1)
    skip: bool = False  # leave out training pairs with an empty side or an over-long line, rather than refuse them

    paths: ClassVar[frozenset[str]] = frozenset(SPLITS)

    def files_of(self, split: Split) -> tuple[Path, Path | None] | None:
        name: str | None = getattr(self, split)
        if name is None:
            return None
        if name.endswith(TSV_SUFFIXES):
            return self._existing(split, name), None
        return self._existing(split, f"{name}.{self.source}"), self._existing(split, f"{name}.{self.target}")

    def _existing(self, split: Split, name: str) -> Path:
        for path in (Path(name), Path(f"{name}.gz")):
            if path.exists():
                return path
        raise UserError(
            f"data.{split}: there is no {name}, nor {name}.gz; give the beginning of two files' names, which "
            f"data.source ({self.source}) and data.target ({self.target}) complete, or a .tsv file"
        )

    def _lines(self, split: Split, source: Path, target: Path | None) -> PairsInFiles:
        return PairsInFiles(source, target, skip=self.skip and split == "train")


class Multi30k(Parallel):
    """31,014 captions of photographs, in German and English."""

    task: Literal["multi30k"] = "multi30k"
    source: Literal["de", "en"] = "de"
    target: Literal["de", "en"] = "en"

    FILES: ClassVar[dict[Split, str]] = {"train": "train", "validation": "val", "test": "test_2016_flickr"}

    def files_of(self, split: Split) -> tuple[Path, Path | None]:
        folder = datasets.dataset_folder("multi30k")
        return folder / f"{self.FILES[split]}.{self.source}", folder / f"{self.FILES[split]}.{self.target}"
