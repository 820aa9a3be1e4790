"""Writing pairs of texts, in the formats that `parallel_text` reads."""

from __future__ import annotations

import gzip
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from regard.corpora.parallel_text import BOTH_SIDES, Columns
from regard.corpora.shards import WILDCARD
from regard.corpora.table_files import ROWS, check_pyarrow
from regard.errors import UserError
from regard.files import atomic_writer


class PairWriter(ABC):
    """Writes pairs to open files.

    Args:
        paths: The names of the files.
        files: The files.
        columns: The names of source and target.
    """

    def __init__(self, paths: Sequence[Path], files: Sequence[IO[bytes]], columns: Columns) -> None:
        self.paths, self.files, self.columns = paths, files, columns

    @abstractmethod
    def write(self, source: str, target: str) -> None:
        """Write a pair.

        Args:
            source: The source text, without line breaks.
            target: The target text, without line breaks.
        """

    def finish(self) -> None:  # noqa: B027 (most have nothing to do)
        """Write what remains to be written at the end."""


class _LineWriter(PairWriter):
    """A text per line, in one file for each side."""

    def write(self, source: str, target: str) -> None:
        for file, text in zip(self.files, (source, target), strict=True):
            file.write(f"{text}\n".encode())


class _TabWriter(PairWriter):
    """Both texts in a line, with a tab in between."""

    def write(self, source: str, target: str) -> None:
        self.files[0].write(f"{source}\t{target}\n".encode())


class _JsonWriter(PairWriter):
    """An object per line."""

    def write(self, source: str, target: str) -> None:
        record = dict(zip(self.columns, (source, target), strict=True))
        self.files[0].write(f"{json.dumps(record, ensure_ascii=False)}\n".encode())


class _ParquetWriter(PairWriter):
    """A table with two columns."""

    def __init__(self, paths: Sequence[Path], files: Sequence[IO[bytes]], columns: Columns) -> None:
        super().__init__(paths, files, columns)
        import pyarrow
        from pyarrow.parquet import ParquetWriter

        self.schema = pyarrow.schema([(name, pyarrow.string()) for name in columns])
        self.table = ParquetWriter(files[0], self.schema)
        self.rows: list[dict[str, str]] = []

    def write(self, source: str, target: str) -> None:
        self.rows.append(dict(zip(self.columns, (source, target), strict=True)))
        if len(self.rows) == 10 * ROWS:
            self._write_rows()

    def finish(self) -> None:
        self._write_rows()
        self.table.close()

    def _write_rows(self) -> None:
        import pyarrow

        self.table.write_batch(pyarrow.RecordBatch.from_pylist(self.rows, self.schema))
        self.rows = []


WRITERS: dict[str, type[PairWriter]] = {".tsv": _TabWriter, ".jsonl": _JsonWriter, ".parquet": _ParquetWriter}


@contextmanager
def open_writer(
    like: tuple[Path, Path | None], out: Path, inputs: Sequence[Path], columns: Columns
) -> Generator[PairWriter]:
    """A writer of new files, which replace existing ones when the block ends without an exception.

    Args:
        like: The files whose format to write; a folder of tables becomes a .parquet file.
        out: The beginning of the names of the new files.
        inputs: The files that are read, which are not overwritten.
        columns: The names of source and target, in a format that names them.

    Raises:
        UserError: A file cannot be written, or is among `inputs`.
    """
    if out.name in ("", ".."):
        raise UserError(f"{out}: this is a folder; give the beginning of the new files' names, too (--out)")
    endings = output_endings(*like)
    paths = [out.with_name(out.name + ending) for ending in endings]
    if len(paths) != len(set(paths)):
        raise UserError(
            f"{like[0]}, {like[1]}: the names of the new files are made from these and would be equal, {paths[0]}; "
            "rename one of them, such as to train.de"
        )
    for path in paths:
        if any(path.exists() and os.path.samefile(path, each) for each in inputs if each.exists()):
            raise UserError(f"{path}: this is the file that is read; choose another name (--out)")
    kind = _LineWriter if len(endings) == 2 else WRITERS[endings[0].removesuffix(".gz")]
    if kind is _ParquetWriter:
        check_pyarrow(paths[0])
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            writer = kind(paths, [_create(stack, path) for path in paths], columns)
            yield writer
            writer.finish()
    except OSError as error:
        raise UserError(f"{error.filename or out}: cannot be written: {error.strerror or error}") from None


def _create(stack: ExitStack, path: Path) -> Any:
    file = stack.enter_context(atomic_writer(path))
    return stack.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0)) if path.suffix == ".gz" else file


def output_endings(source: Path, target: Path | None) -> list[str]:
    """How the names of files in the same format end: `.de` and `.en`, or `.tsv`.

    Args:
        source: The file of the sources, or of both sides.
        target: The file of the targets, if there is one.
    """
    if target is None:
        known = sorted(BOTH_SIDES, key=len, reverse=True)  # .tsv.gz before .gz
        ending = next((each for each in known if source.name.endswith(each)), ".arrow")
        return [".parquet" if ending == ".arrow" else ending]
    endings = [_language_ending(path) for path in (source, target)]
    # de.txt and en.txt end alike; the caller refuses de/train.txt and en/train.txt.
    return endings if endings[0] != endings[1] else [f".{path.name}" for path in (source, target)]


def _language_ending(path: Path) -> str:
    compressed = ".gz" if path.suffix == ".gz" else ""
    name = path.name.removesuffix(".gz").replace(f".{WILDCARD}", "")  # of train.de.*, too
    return Path(name).suffix + compressed
