"""Word vectors in the text format of word2vec."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.corpora.word_vectors import open_word_vectors
from regard.errors import UserError

WORDS = st.text(st.characters(codec="utf-8", exclude_characters=" \n\r\0"), min_size=1, max_size=20)
NUMBERS = st.floats(-1e20, 1e20)


def read(path: Path) -> tuple[int, list[tuple[str, list[float]]]]:
    with open_word_vectors(path) as vectors:
        return vectors.size, [(vector.word, vector.numbers()) for vector in vectors]


@given(
    rows=st.integers(1, 5).flatmap(
        lambda size: st.lists(st.tuples(WORDS, st.lists(NUMBERS, min_size=size, max_size=size)), min_size=1)
    ),
    line_end=st.sampled_from(["\n", "\r\n", " \n"]),
    compressed=st.booleans(),
)
def test_what_was_written_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, list[float]]],
    line_end: str,
    compressed: bool,
):
    lines = [f"{len(rows)} {len(rows[0][1])}", *(" ".join([word, *map(repr, numbers)]) for word, numbers in rows)]
    content = "".join(f"{line}{line_end}" for line in lines).encode()
    path = tmp_path_factory.mktemp("vectors") / ("v.txt.gz" if compressed else "v.txt")
    path.write_bytes(gzip.compress(content) if compressed else content)
    assert read(path) == (len(rows[0][1]), rows)


@given(content=st.binary(max_size=60), header=st.sampled_from([b"", b"1 1\n", b"2 2\n"]))
def test_any_content_is_read_or_refused_with_its_line(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, header: bytes
):
    path = tmp_path_factory.mktemp("vectors") / "v.txt"
    path.write_bytes(header + content)
    message = ""
    try:
        size, rows = read(path)
        assert all(len(numbers) == size for _, numbers in rows)
    except UserError as error:
        message = str(error)
    assert not message or message.startswith(f"{path}, line ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "line 1: this should be the number of words"),
        (b"the 0.1 0.2\n", "line 1: .* such as '20000 300'.*GloVe"),
        (b"1 2\nthe 0.1\n", "line 2: this should be a word and 2 numbers, .* it has 1 numbers"),
        (b"1 2\nthe 0.1 0.2 0.3\n", "line 2: .* it has 3 numbers"),
        (b"1 2\n 0.1 0.2\n", "line 2: .* it has 2 numbers and no word"),
        (b"2 1\nthe 0.1\na nan\n", "line 3: 'nan' should be a number between -1e.30 and 1e.30"),
        (b"1 1\nthe 1e31\n", "line 2: '1e31' should be a number"),
        (b"1 1\nthe x\n", "line 2: 'x' should be a number"),
        (b"1 1\nthe \xff\n", "line 2: '\ufffd' should be a number"),
        (b"2 1\nthe 1\nf\xfcr 1\n", r"line 3: byte 2 \(0xFC\) is not UTF-8"),
        (b"1 1\nthe 1\na 1\n", "line 3: there are more words than the 1 that line 1 announces"),
        (b"3 1\nthe 1\na 1\n", "line 3: the file ends after 2 of the 3 words that line 1 announces"),
        (b"1 1\nthe 1" + b"0" * 9_000, "line 2: more than 4,032 bytes; this is not the text format"),
    ],
)
def test_a_damaged_file_is_refused_with_its_line(tmp_path: Path, content: bytes, message: str):
    path = tmp_path / "v.txt"
    path.write_bytes(content)
    with pytest.raises(UserError, match=f"v.txt, {message}"):
        read(path)


def test_a_byte_order_mark_is_ignored(tmp_path: Path):
    path = tmp_path / "v.txt"
    path.write_bytes("\ufeff1 1\nthe 2\n".encode())
    assert read(path) == (1, [("the", [2.0])])


def test_a_file_that_is_no_gzip_file_is_refused(tmp_path: Path):
    path = tmp_path / "v.txt.gz"
    path.write_bytes(b"1 1\nthe 1\n")
    with pytest.raises(UserError, match="damaged, truncated or not a gzip file"):
        read(path)
