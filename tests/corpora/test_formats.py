"""JSON lines, Parquet, Arrow and folders of them: the same pairs, and errors with file and line."""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.corpora import ProblemKind, read_pairs, scan_pairs
from regard.errors import UserError

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

PAIRS = [("Ein Hund.", "A dog."), ("Zwei Katzen.", "Two cats."), ("Ä😀 ß", "e\u2028f")]
COLUMNS = ("de", "en")


def records(pairs: list[tuple[str, str]]) -> list[dict[str, Any]]:
    return [{"id": number, "de": de, "en": en} for number, (de, en) in enumerate(pairs)]


def nested(pairs: list[tuple[str, str]]) -> list[dict[str, Any]]:
    return [{"translation": {"de": de, "en": en}} for de, en in pairs]


def write_json(path: Path, rows: list[Any]) -> Path:
    content = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def write_arrow(path: Path, rows: list[dict[str, Any]], new: Any = None) -> Path:
    table = pyarrow.Table.from_pylist(rows)
    with (new or pyarrow.ipc.new_stream)(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return path


def write_folder(path: Path, rows: list[dict[str, Any]]) -> Path:
    """As `datasets.save_to_disk` writes it."""
    path.mkdir()
    (path / "dataset_info.json").write_text("{}")
    write_arrow(path / "data-00001-of-00002.arrow", rows[1:])
    write_arrow(path / "data-00000-of-00002.arrow", rows[:1])
    write_arrow(path / "cache-1.arrow", rows)
    return path


KINDS: dict[str, Callable[[Path, Any], Path]] = {
    "jsonl": lambda folder, rows: write_json(folder / "p.jsonl", rows),
    "jsonl.gz": lambda folder, rows: write_json(folder / "p.jsonl.gz", rows),
    "parquet": lambda folder, rows: write_parquet(folder / "p.parquet", rows),
    "arrow": lambda folder, rows: write_arrow(folder / "p.arrow", rows),
    "arrow file": lambda folder, rows: write_arrow(folder / "p.arrow", rows, pyarrow.ipc.new_file),
    "folder": lambda folder, rows: write_folder(folder / "train", rows),
}


@pytest.mark.parametrize("rows", [records(PAIRS), nested(PAIRS)], ids=["columns", "translation"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_format_has_the_same_pairs(tmp_path: Path, kind: str, rows: list[dict[str, Any]]):
    path = KINDS[kind](tmp_path, rows)
    assert list(read_pairs(path, None, COLUMNS)) == PAIRS
    assert list(read_pairs(path, None, ("en", "de"))) == [(en, de) for de, en in PAIRS]
    assert list(read_pairs(path, None)) == PAIRS  # there are only two texts


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "arrow"])
def test_columns_have_to_be_named_if_there_are_more(tmp_path: Path, kind: str):
    path = KINDS[kind](tmp_path, [{"de": "a", "en": "b", "fr": "c", "n": 5}])
    with pytest.raises(UserError, match=rf"{kind}: has the columns de, en, fr; name .* \(--columns de,en\)$"):
        list(scan_pairs(path, None))
    assert list(read_pairs(path, None, ("fr", "de"))) == [("c", "a")]
    with pytest.raises(UserError, match=r"'nl'; it has '?de'?, '?en'?, '?fr'?, '?n'?$"):
        list(read_pairs(path, None, ("nl", "de")))
    with pytest.raises(UserError, match=r"'n'.* (no texts|which should be a text)$"):
        list(read_pairs(path, None, ("n", "de")))


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "arrow"])
def test_empty_texts_and_line_breaks_are_treated_as_in_text_files(tmp_path: Path, kind: str):
    rows = [
        {"de": " a ", "en": "b\r\nc"},
        {"de": None, "en": "x"},
        {"de": "x" * 10_001, "en": "y"},
        {"de": "", "en": ""},
    ]
    found = list(scan_pairs(KINDS[kind](tmp_path, rows), None, COLUMNS))
    assert (found[0].source, found[0].target) == ("a", "b c")
    assert [problem.kind for problem in found[0].handled] == [ProblemKind.LINE_BREAK]
    assert [[problem.kind for problem in row.problems] for row in found[1:]] == [
        [ProblemKind.EMPTY],
        [ProblemKind.TOO_LONG],
        [ProblemKind.EMPTY],
    ]
    unit = "line" if kind == "jsonl" else "row"
    assert str(found[1].problems[0]).endswith(f"{kind}, {unit} 2: the source text is empty")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"de": "a", "en": "b"', "line 2: this is not JSON: Expecting ',' delimiter"),
        (b'["a", "b"]', "line 2: a line is an object with two texts"),
        (b'{"de": "a"}', r"line 2: this object has no 'en'; it has 'de'"),
        (b'{"de": "a", "en": 5}', "line 2: 'en' is 5, which should be a text"),
        (b'{"de": "a", "en": ["b"]}', r"line 2: 'en' is \['b'\], which should be a text"),
        (b'{"de": "a\\u0000", "en": "b"}', "line 2: character 2 is NUL"),
        (b'{"de": "a\\ud800", "en": "b"}', r"line 2: byte 2 \(0xED\) is not UTF-8"),
        (b'{"de": "a\xff", "en": "b"}', "line 2: byte 2 .* is not UTF-8"),
        (b'{"de": ' + b"[" * 100_000, "line 2: this object is nested too deeply"),
        (b'{"de": ' + b"1" * 10_000 + b"}", "line 2: this is not JSON: a number has too many digits"),
        (b'{"de": "' + b"a" * 500_000 + b'", "en": "b"}', "line 2: more than 400,160 bytes"),
    ],
)
def test_hostile_json_is_refused_with_its_line(tmp_path: Path, line: bytes, problem: str):
    path = tmp_path / "p.jsonl"
    path.write_bytes(b'{"de": "x", "en": "y"}\n' + line + b'\n{"de": "x", "en": "y"}\n')
    with pytest.raises(UserError, match=rf"^{re.escape(str(path))}, {problem}"):
        list(read_pairs(path, None, COLUMNS))
    assert [bool(row.problems) for row in scan_pairs(path, None, COLUMNS)] == [False, True, False]


def assert_names(error: UserError, path: Path) -> None:
    assert str(path) in str(error)


@given(content=st.binary(max_size=300))
@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".arrow"])
def test_any_content_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, suffix: str, content: bytes):
    path = tmp_path_factory.getbasetemp() / f"any{suffix}"
    path.write_bytes(content)
    try:
        list(scan_pairs(path, None, COLUMNS))
    except UserError as error:
        assert_names(error, path)


@pytest.mark.parametrize("kind", ["parquet", "arrow", "arrow file"])
def test_a_damaged_table_is_refused(tmp_path: Path, kind: str):
    path = KINDS[kind](tmp_path, records(PAIRS))
    whole = path.read_bytes()
    for position in range(0, len(whole), 7):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0xFF]) + whole[position + 1 :])
        try:
            list(scan_pairs(path, None, COLUMNS))
        except UserError as error:
            assert_names(error, path)


def test_invalid_utf8_in_a_table_is_reported_with_its_row(tmp_path: Path):
    invalid = pyarrow.array([b"a", b"\xff"]).view(pyarrow.string())
    table = pyarrow.table({"de": invalid, "en": ["x", "y"]})
    parquet.write_table(table, tmp_path / "p.parquet")
    with pytest.raises(UserError, match=r"p\.parquet, row 2: byte 1 \(0xFF\) is not UTF-8"):
        list(read_pairs(tmp_path / "p.parquet", None, COLUMNS))


def test_a_table_that_expands_without_limit_is_refused(tmp_path: Path):
    path = write_parquet(tmp_path / "p.parquet", [{"de": "a" * 9_000, "en": "b"}] * 3_000)
    assert path.stat().st_size < 20_000
    with pytest.raises(
        UserError, match=r"p\.parquet: more than 200,000 lines or 20,000,000 bytes in a compressed file"
    ):
        list(read_pairs(path, None, COLUMNS))
    assert len(list(scan_pairs(path, None, COLUMNS, max_lines=300_000))) == 3_000


def test_a_folder_without_tables_names_its_folders(tmp_path: Path):
    (tmp_path / "train").mkdir()
    (tmp_path / "dataset_dict.json").write_text("{}")
    with pytest.raises(UserError, match=r"has no \.arrow or \.parquet files; name one of its folders: train$"):
        list(read_pairs(tmp_path, None, COLUMNS))


def test_without_pyarrow_the_message_has_the_command_that_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = write_parquet(tmp_path / "p.parquet", records(PAIRS))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match=r"p\.parquet: .* pip install 'regard\[parquet\]'$"):
        list(read_pairs(path, None, COLUMNS))


def test_shards_of_tables_are_read_in_order(tmp_path: Path):
    write_parquet(tmp_path / "train-1.parquet", records(PAIRS[1:]))
    write_parquet(tmp_path / "train-0.parquet", records(PAIRS[:1]))
    assert list(read_pairs(tmp_path / "train-*.parquet", None, COLUMNS)) == PAIRS


def test_one_row_is_not_all_in_memory(tmp_path: Path):
    """Rows are read when they are needed: a problem at the end does not prevent reading the beginning."""
    path = write_json(tmp_path / "p.jsonl", [{"de": "a", "en": "b"}, {"de": "a"}])
    pairs = read_pairs(path, None, COLUMNS)
    assert next(pairs) == ("a", "b")
    with pytest.raises(UserError):
        next(pairs)
