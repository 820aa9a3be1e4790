"""Pairs of texts in tables: Parquet files, and the Arrow files that Hugging Face's `datasets` saves."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from regard.corpora.records import NESTED, only_two, pair_of_contents
from regard.corpora.rows import ScannedPair
from regard.corpora.text_lines import ContentLimit
from regard.errors import UserError
from regard.files import damage_as_user_error, open_regular

if TYPE_CHECKING:
    import pyarrow

ROWS = 1_000  # that are in memory at once
ARROW_FILE = b"ARROW1"  # the beginning of one with an index; others are streams
Field = tuple[str, ...]  # the name of a column, or `translation` and the name of a field in it


def find_text_columns(path: Path) -> tuple[str, str]:
    """The columns of source and target in a table with two columns of texts, the source first.

    Args:
        path: A .parquet or .arrow file.

    Raises:
        UserError: The file cannot be read, or has other columns, or pyarrow is not installed.
    """
    with _open_table(path) as table:
        return only_two([name for name, (_, is_text) in _fields_of(table.schema).items() if is_text], path)


def scan_table(path: Path, columns: tuple[str, str], max_lines: int | None = None) -> Generator[ScannedPair]:
    """Iterate over the pairs of a table; the number of a pair is that of its row, from 1.

    Args:
        path: A .parquet or .arrow file.
        columns: The columns of source and target, or the names of fields of a column `translation`.
        max_lines: Most rows; see `ContentLimit`.

    Raises:
        UserError: The file cannot be read, or pyarrow is not installed.
    """
    number = 0
    with _open_table(path) as table:
        limit = ContentLimit(path, max_lines)
        fields = _select_fields(table.schema, columns, path)
        for batch in table.batches(fields):
            texts = [_texts_of(batch, field) for field in fields]
            limit.add(batch.num_rows, sum(side.nbytes for side in texts))
            for contents in zip(*(side.to_pylist() for side in texts), strict=True):
                number += 1
                yield pair_of_contents(contents, path, number)


class _Table(Protocol):
    """An open file."""

    schema: pyarrow.Schema

    def batches(self, fields: Sequence[Field]) -> Iterator[pyarrow.RecordBatch]: ...


class _ParquetTable:
    def __init__(self, file: BinaryIO) -> None:
        from pyarrow.parquet import ParquetFile

        self.file = ParquetFile(file, buffer_size=2**16)  # of bytes, instead of a whole column
        self.schema = self.file.schema_arrow

    def batches(self, fields: Sequence[Field]) -> Iterator[pyarrow.RecordBatch]:
        yield from self.file.iter_batches(ROWS, columns=[".".join(field) for field in fields])


class _ArrowTable:
    def __init__(self, file: BinaryIO) -> None:
        from pyarrow import ipc

        is_file = file.read(len(ARROW_FILE)) == ARROW_FILE
        file.seek(0)
        self.reader = ipc.open_file(file) if is_file else ipc.open_stream(file)
        self.numbers = range(self.reader.num_record_batches) if is_file else None
        self.schema = self.reader.schema

    def batches(self, fields: Sequence[Field]) -> Iterator[pyarrow.RecordBatch]:
        for batch in self.reader if self.numbers is None else map(self.reader.get_batch, self.numbers):
            batch.validate()
            for begin in range(0, batch.num_rows, ROWS):
                yield batch.slice(begin, ROWS)


@contextmanager
def _open_table(path: Path) -> Generator[_Table]:
    check_pyarrow(path)
    try:
        with damage_as_user_error(path), open_regular(path) as file:
            yield _ParquetTable(file) if path.suffix == ".parquet" else _ArrowTable(file)
    except MemoryError:  # a damaged file may state any size
        raise UserError(f"{path}: is damaged, or a part of it is larger than the memory") from None
    except FileNotFoundError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None


def check_pyarrow(path: Path) -> None:
    """Raise a `UserError` if the package pyarrow is not installed.

    Args:
        path: The file that needs it.
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise UserError(
            f"{path}: Parquet and Arrow files need the package pyarrow; install it with: pip install 'regard[parquet]'"
        ) from None


def _fields_of(schema: pyarrow.Schema) -> dict[str, tuple[Field, bool]]:
    """For each name of a column, or of a field of `translation`, where it is and whether it has texts."""
    from pyarrow import types

    found: dict[str, tuple[Field, bool]] = {}
    for column in schema:
        nested = column.name == NESTED and types.is_struct(column.type)
        for field in column.type if nested else [column]:
            is_text = types.is_string(field.type) or types.is_large_string(field.type)
            found[field.name] = ((NESTED, field.name) if nested else (field.name,), is_text)
    return found


def _select_fields(schema: pyarrow.Schema, columns: tuple[str, str], path: Path) -> list[Field]:
    known = _fields_of(schema)
    for name in columns:
        if name not in known:
            raise UserError(f"{path}: has no column {name!r}; it has {', '.join(list(known)[:20]) or 'none'}")
        if not known[name][1]:
            raise UserError(f"{path}: the column {name!r} has no texts")
    return [known[name][0] for name in columns]


def _texts_of(batch: pyarrow.RecordBatch, field: Field) -> pyarrow.Array:
    """A column of texts as bytes. Their positions are checked, because an Arrow file may be damaged."""
    import pyarrow
    from pyarrow import compute

    texts = batch.column(field[0])
    for name in field[1:]:
        texts = compute.struct_field(texts, name)
    contents = texts.view(pyarrow.binary() if pyarrow.types.is_string(texts.type) else pyarrow.large_binary())
    contents.validate(full=True)
    return contents
