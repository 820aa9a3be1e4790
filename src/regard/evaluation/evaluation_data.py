"""The sentences of an evaluation: a split of a task, or texts that a user gives as lists or as files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.corpora.text_lines import read_texts
from regard.errors import UserError, error_location, suggest
from regard.inference.run_ensemble import check_unicode
from regard.tasks import SPLITS, DataSection, Pair, Split, task_for

GIVEN = "given texts"  # the source in results, if texts are not from a file
Sources = str | os.PathLike[str] | Iterable[str]
GivenReferences = str | os.PathLike[str] | Iterable[str | os.PathLike[str] | Sequence[str]]


@dataclass(frozen=True)
class EvaluationData:
    """Sentences to evaluate models on.

    Args:
        pairs: The sources with their references, of which the first is the target.
        source_origin: Names the source of a pair in messages, by its index.
        target_origin: Names its first reference.
        section: The settings of the task whose split it is; None for given texts.
        split: The split; None for given texts.
        source: The file of given sources, or `GIVEN`; None for a split.
    """

    pairs: Sequence[Pair]
    source_origin: Callable[[int], str]
    target_origin: Callable[[int], str]
    section: DataSection | None = None
    split: Split | None = None
    source: str | None = None

    @property
    def test_set(self) -> str | None:
        """The name of the test set, if the task has several."""
        return self.section.test_set if self.section is not None and self.split == "test" else None

    @property
    def references(self) -> list[tuple[str, ...]]:
        """All references of each sentence."""
        return [(pair.target, *pair.other_targets) for pair in self.pairs]

    @classmethod
    def of_split(cls, section: DataSection, split: Split) -> EvaluationData:
        """The sentences of a split.

        Args:
            section: The settings of a task.
            split: `train`, `validation` or `test`.

        Raises:
            UserError: If there is no such split, or its files cannot be read.
        """
        if split not in SPLITS:
            raise UserError(f"split={split!r} is not a split; {suggest(split, SPLITS)}")

        def origin(index: int) -> str:
            return f"sentence {index + 1} of the {split} split"

        return cls(list(task_for(section).dataset.pairs(split)), origin, origin, section, split)

    @classmethod
    def of_texts(cls, source: Sources, references: GivenReferences) -> EvaluationData:
        """Texts of a user.

        Args:
            source: The source texts as a list, or the path of a file with one text per line.
            references: A list with the reference of each text, or a list with a list of references of each text; or
                the path of a file with one reference per line, or a list of such paths, as `Path`.

        Raises:
            UserError: If a file cannot be read, if the numbers of texts differ, or if there are none.
        """
        sources = TextColumn.of("source", source)
        columns = reference_columns(references)
        for column in columns:
            if len(column.texts) != len(sources.texts):
                raise UserError(f"{sources.count()} and {column.count()}: they should be equal{column.hint()}")
        if not sources.texts:
            raise UserError(f"{sources.name}: has no text; at least one is needed")
        pairs = [
            Pair(text, own[0], other_targets=tuple(own[1:]))
            for text, own in zip(sources.texts, _rows(columns), strict=True)
        ]
        return cls(pairs, sources.origin, columns[0].origin, source=sources.name if sources.is_file else GIVEN)


@dataclass(frozen=True)
class TextColumn:
    """Texts from a file or a list.

    Args:
        name: The path of the file, or the name of the parameter.
        texts: The texts; of references also several for each sentence.
        is_file: Whether they are from a file.
    """

    name: str
    texts: Sequence[Any]
    is_file: bool

    @classmethod
    def of(cls, name: str, given: object) -> TextColumn:
        """The texts that a user gives for a parameter.

        Args:
            name: The parameter.
            given: A path or a list of texts.
        """
        if isinstance(given, str | os.PathLike):
            return cls(*_read_file(name, given), is_file=True)
        return cls(name, [_checked(text, f"{name}[{index}]") for index, text in enumerate(_listed(name, given))], False)

    def origin(self, index: int) -> str:
        """Where a text is, for messages.

        Args:
            index: Its index, from 0.
        """
        if self.is_file:
            return f"{self.name}, line {index + 1}"
        several = not isinstance(self.texts[index], str)
        return f"{self.name}[{index}]{'[0]' if several else ''}"

    def count(self) -> str:
        """How many texts there are, for messages."""
        number = len(self.texts)
        return f"{self.name} has {number:,} {'line' if self.is_file else 'text'}{'s' if number != 1 else ''}"

    def hint(self) -> str:
        """The end of a message about a wrong number of references that may be paths, written as str."""
        paths = not self.is_file and all(isinstance(text, str) and os.path.isfile(text) for text in self.texts)
        return "; for files of references, give Path objects" if paths and self.texts else ""


def reference_columns(given: GivenReferences) -> list[TextColumn]:
    """References that a user gives: one column for each file, or one for a list.

    Args:
        given: See `EvaluationData.of_texts`.

    Raises:
        UserError: If it is something else.
    """
    if isinstance(given, str | os.PathLike):
        return [TextColumn.of("references", given)]
    items = _listed("references", given)
    if items and all(isinstance(item, os.PathLike) for item in items):
        return [TextColumn.of("references", item) for item in items]
    if all(isinstance(item, str) for item in items):
        return [TextColumn.of("references", items)]
    rows = []
    for index, item in enumerate(items):
        where = f"references[{index}]"
        if isinstance(item, str | os.PathLike):
            raise UserError(f"{where} is {item!r:.80}; give texts, lists of texts or Path objects, not a mixture")
        texts = [_checked(text, f"{where}[{number}]") for number, text in enumerate(_listed(where, item))]
        if not texts:
            raise UserError(f"{where} is empty; each text needs at least one reference")
        rows.append(texts)
    return [TextColumn("references", rows, is_file=False)]


def _rows(columns: Sequence[TextColumn]) -> list[Sequence[str]]:
    """The references of each sentence."""
    if len(columns) == 1:
        return [[own] if isinstance(own, str) else own for own in columns[0].texts]
    return list(zip(*(column.texts for column in columns), strict=True))


def _read_file(name: str, path: str | os.PathLike[str]) -> tuple[str, list[str]]:
    if isinstance(path, str) and not os.path.exists(path):
        raise UserError(
            f"{name}={path!r:.200}: there is no such file; a str is the path of a text file, so give texts as a list"
        )
    return str(path), read_texts(Path(path))


def _listed(name: str, given: object) -> list[Any]:
    """The items of a list, or of anything else that has an order."""
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping | Set):
        return list(given)
    raise UserError(f"{name} should be a list of texts or the path of a text file, not {given!r:.80}")


def _checked(text: object, where: str) -> str:
    if not isinstance(text, str):
        raise UserError(f"{where} is {text!r:.80}, not a text")
    with error_location(where):
        check_unicode(text)
    return text
