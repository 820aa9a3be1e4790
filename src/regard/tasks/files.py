"""The task `files`: translation, learned from the user's own files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from regard.config.base import Section, invalid_combination
from regard.corpora.limits import NO_LIMITS, PairLimits
from regard.corpora.parallel_text import BOTH_SIDES, has_both_sides
from regard.corpora.shards import find_shards, is_pattern
from regard.errors import UserError
from regard.tasks.base import SPLITS, Split
from regard.tasks.file_pairs import FilePairs
from regard.tasks.parallel import ParallelDataset, ParallelSection, ParallelTask
from regard.text import SPECIAL
from regard.text.tags import TAG

TAGS = f"{TAG}( {TAG})*"


def _check_tags(tags: Any) -> Any:
    if isinstance(tags, str) and not re.fullmatch(TAGS, tags):
        raise ValueError("a tag has the form <…>, such as <bt>; there may be several with one space in between")
    if isinstance(tags, str) and set(tags.split()) & set(SPECIAL):
        raise ValueError(f"{', '.join(SPECIAL)} are Regard's own tokens; choose another tag")
    return tags


Tags = Annotated[str, BeforeValidator(_check_tags), Field(pattern=f"^{TAGS}$", max_length=200)]
Tag = Annotated[str, BeforeValidator(_check_tags), Field(pattern=f"^{TAG}$", max_length=200)]


class CorpusSection(Section):
    """One corpus of a split. A text in its place is its `path`.

    `corpus/train` means corpus/train.de and corpus/train.en, either of which may end in .gz.
    `pairs.tsv` has the source in its first column and the target in its second, without names.
    `pairs.jsonl` and `pairs.parquet` have fields with the names of the languages; so has a folder of such tables.
    `corpus/train.*` means all files corpus/train.*.de and corpus/train.*.en; see `find_shards`.

    Attributes:
        path: The files.
        tag: Is put in front of each source, such as `<bt>`; or several with spaces in between.
    """

    path: str = Field(min_length=1)
    tag: Tags | None = None


class TrainingCorpusSection(CorpusSection):
    """One corpus of the training split.

    Attributes:
        weight: How often its pairs are seen per epoch, on average: with 0.5, each epoch sees another half of them.
    """

    weight: float = Field(default=1.0, gt=0, le=1_000)


def _with_path(value: Any) -> Any:
    if isinstance(value, dict | CorpusSection):
        return value
    if not isinstance(value, str) or not value:
        raise ValueError("give a path, or a section with path and tag")
    return {"path": value}


def _with_path_if_any(value: Any) -> Any:
    return None if value is None else _with_path(value)


def _as_corpora(value: Any) -> Any:
    return list(map(_with_path, value)) if isinstance(value, list) else [_with_path(value)]


def _shortest(corpus: CorpusSection | None) -> Any:
    """A corpus as it is written: its path, if nothing else is set."""
    if corpus is None:
        return None
    options = corpus.model_dump(exclude_defaults=True)
    return corpus.path if len(options) == 1 else options


def _shortest_list(corpora: list[TrainingCorpusSection]) -> Any:
    return _shortest(corpora[0]) if len(corpora) == 1 else list(map(_shortest, corpora))


# What may be written in an experiment file is more than what is validated; the former is the input type.
_TrainingCorpus = str | TrainingCorpusSection
Corpora = Annotated[
    list[TrainingCorpusSection],
    BeforeValidator(_as_corpora, json_schema_input_type=_TrainingCorpus | list[_TrainingCorpus]),
    PlainSerializer(_shortest_list),
]
Corpus = Annotated[
    CorpusSection,
    BeforeValidator(_with_path, json_schema_input_type=str | CorpusSection),
    PlainSerializer(_shortest),
]
OptionalCorpus = Annotated[
    CorpusSection | None,
    BeforeValidator(_with_path_if_any, json_schema_input_type=str | CorpusSection | None),
    PlainSerializer(_shortest),
]


class FilesSection(ParallelSection):
    """Settings of the user's own files. Each corpus is a path, or a `CorpusSection`.

    Attributes:
        task: Name of the task.
        train: The training split: one corpus or several.
        validation: The validation split.
        test: The test split; null means none.
        skip: Leave out training pairs with an empty side or an over-long line instead of refusing them.
        limits: Leave out training pairs that exceed these limits.
        tags: Tags that the vocabulary has besides those in `train`, such as those of a run that is fine-tuned.
    """

    task: str = "files"
    train: Corpora = Field(min_length=1)
    validation: Corpus
    test: OptionalCorpus = None
    skip: bool = False
    limits: PairLimits = NO_LIMITS
    tags: list[Tag] = Field(default=[])

    path_keys: ClassVar[frozenset[str]] = frozenset(SPLITS)

    @property
    def known_tags(self) -> list[str]:
        used = [tag for corpus in self.train if corpus.tag for tag in corpus.tag.split()]
        return list(dict.fromkeys([*self.tags, *used]))

    @model_validator(mode="after")
    def _check_tags(self) -> Self:
        for split, corpus in (("validation", self.validation), ("test", self.test)):
            for tag in ((corpus and corpus.tag) or "").split():
                if tag not in (tags := self.known_tags):
                    known = f"the tags there are {', '.join(tags)}" if tags else "none there has a tag"
                    raise invalid_combination(f"{split}.tag", f"'{tag}' is not the tag of a corpus in train; {known}")
        return self


class FilesDataset(ParallelDataset[FilesSection]):
    """The user's own files.

    Args:
        section: The settings of the task.
    """

    def corpora(self, split: Split) -> list[FilePairs]:
        section = self.section
        if split == "train":
            return [
                self._open(split, corpus, weight=corpus.weight, skip=section.skip, limits=section.limits)
                for corpus in section.train
            ]
        corpus = section.validation if split == "validation" else section.test
        return [self._open(split, corpus)] if corpus else []

    def _open(self, split: Split, corpus: CorpusSection, **options: Any) -> FilePairs:
        """The pairs of a corpus, whose files exist."""
        languages = self.section.source, self.section.target
        path = Path(corpus.path)
        target: Path | None = None
        if path.name.endswith(BOTH_SIDES):
            source = self._existing(split, corpus.path)
        elif has_both_sides(path) and _existing_path(f"{path}.{languages[0]}") is None:
            source = path  # a folder
        else:
            source, target = (self._existing(split, f"{corpus.path}.{language}") for language in languages)
        try:
            find_shards(source, target)
        except UserError as error:
            raise UserError(f"data.{split}: {error}") from None
        return FilePairs(source, target, languages, tag=corpus.tag, **options)

    def _existing(self, split: Split, name: str) -> Path:
        path = _existing_path(name)
        if path is None:
            raise UserError(
                f"data.{split}: there is no {name}, nor {name}.gz; give the beginning of two files' names, which "
                f"data.source ({self.section.source}) and data.target ({self.section.target}) complete, or a .tsv file"
            )
        return path


def _existing_path(name: str) -> Path | None:
    """A file, a compressed file or a pattern of this name."""
    if is_pattern(Path(name)):
        return Path(name)
    # Path.exists raises if the name is too long
    return next((Path(each) for each in (name, f"{name}.gz") if os.path.exists(each)), None)


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
                self.dataset.corpora(split)
            except UserError as error:
                missing[split] = str(error)
        return missing
