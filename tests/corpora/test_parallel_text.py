"""Pairs of texts are read back from files, and problems are reported with their position."""

from __future__ import annotations

import gzip
import os
import random
import tempfile
import tracemalloc
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.corpora import ProblemKind, read_lines, read_pairs, scan_pairs, text_lines
from regard.corpora.text_lines import MAX_BYTES, MAX_CHARACTERS
from regard.errors import UserError

# Any text that a line may contain: every Unicode line break except the line feed.
ANY_LINE = st.text(st.characters(exclude_characters="\n\0", exclude_categories=["Cs"]))
LINE = ANY_LINE.map(str.strip).filter(lambda text: text and not text.startswith("\ufeff"))
COLUMN = LINE.filter(lambda text: "\t" not in text)
ENDS = st.sampled_from(["\n", "\r\n"])
SUFFIXES = st.sampled_from(["", ".gz"])


def write(path: Path, content: bytes | str) -> Path:
    content = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def joined(lines: Iterable[str], end: str, mark: bool, ended: bool) -> str:
    content = "\ufeff" * mark + "".join(line + end for line in lines)
    return content if ended else content.removesuffix(end)


@given(st.lists(st.tuples(LINE, LINE), min_size=1), ENDS, SUFFIXES, st.booleans(), st.booleans())
def test_two_files_are_read_back(pairs: list[tuple[str, str]], end: str, suffix: str, mark: bool, ended: bool):
    with tempfile.TemporaryDirectory() as folder:
        source = write(Path(folder, f"s{suffix}"), joined([pair[0] for pair in pairs], end, mark, ended))
        target = write(Path(folder, f"t{suffix}"), joined([pair[1] for pair in pairs], end, not mark, not ended))
        assert list(read_pairs(source, target)) == pairs


@given(st.lists(st.tuples(COLUMN, COLUMN), min_size=1), ENDS, SUFFIXES, st.booleans(), st.booleans())
def test_two_columns_are_read_back(pairs: list[tuple[str, str]], end: str, suffix: str, mark: bool, ended: bool):
    with tempfile.TemporaryDirectory() as folder:
        content = joined([f"{source} \t{target}" for source, target in pairs], end, mark, ended)
        assert list(read_pairs(write(Path(folder, f"s.tsv{suffix}"), content), None)) == pairs


@given(st.binary(), SUFFIXES, st.booleans())
def test_any_bytes_can_be_scanned(content: bytes, suffix: str, in_columns: bool):
    with tempfile.TemporaryDirectory() as folder:
        source = write(Path(folder, f"s{suffix}"), content)
        rows = list(scan_pairs(source, None if in_columns else source))
    lines = content.count(b"\n") + (not content.endswith(b"\n") and bool(content))
    assert [row.number for row in rows] == list(range(1, lines + 1))
    try:
        content.decode()
    except UnicodeDecodeError as error:
        bad = content[: error.start].count(b"\n")
        assert ProblemKind.NOT_UTF8 in {problem.kind for problem in rows[bad].problems}
    else:
        assert ProblemKind.NOT_UTF8 not in {problem.kind for row in rows for problem in row.problems}


def test_a_line_ends_at_a_line_feed_only(tmp_path: Path):
    text = "a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g\rh"
    assert [line.text for line in read_lines(write(tmp_path / "s", f"{text}\n{text}\r\n"))] == [text, text]


def test_white_space_around_texts_is_dropped(tmp_path: Path):
    source = write(tmp_path / "s", " a  b\t\n")
    assert list(read_pairs(source, write(tmp_path / "t", "\tc\u3000\n"))) == [("a  b", "c")]


def test_a_byte_order_mark_and_crlf_are_handled_and_reported(tmp_path: Path):
    source = write(tmp_path / "s", "\ufeffa\r\nb\n\ufeffc\r")
    lines = list(read_lines(source))
    assert [line.text for line in lines] == ["a", "b", "\ufeffc"]
    assert not any(line.problems for line in lines)
    handled = [(problem.kind, problem.line) for line in lines for problem in line.handled]
    assert handled == [(ProblemKind.WINDOWS, 1), (ProblemKind.BYTE_ORDER_MARK, 1), (ProblemKind.WINDOWS, 3)]


LONG = "x" * (MAX_CHARACTERS + 1)
WRONG_LINES = [
    (b"ab\xe4c", ProblemKind.NOT_UTF8, "byte 3 (0xE4) is not UTF-8; save the file as UTF-8"),
    (b"\xed\xa0\x80", ProblemKind.NOT_UTF8, "byte 1 (0xED) is not UTF-8; save the file as UTF-8"),  # a lone surrogate
    ("ä".encode()[:1], ProblemKind.NOT_UTF8, "byte 1 (0xC3) is not UTF-8; save the file as UTF-8"),
    (b"a\0b\0", ProblemKind.NUL, "character 2 is NUL, which no text contains; remove it"),
    (b"", ProblemKind.EMPTY, "the source text is empty"),
    (b" \t\r", ProblemKind.EMPTY, "the source text is empty"),
    (LONG.encode(), ProblemKind.TOO_LONG, "more than 10,000 characters; split the line or leave it out"),
]


@pytest.mark.parametrize(("line", "kind", "message"), WRONG_LINES, ids=range(len(WRONG_LINES)))
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_an_invalid_line_is_reported_with_its_position(
    tmp_path: Path, line: bytes, kind: ProblemKind, message: str, suffix: str
):
    source = write(tmp_path / f"s{suffix}", b"a\nb\n" + line + b"\nd\n")
    target = write(tmp_path / "t", "A\nB\nC\nD\n")
    rows = list(scan_pairs(source, target))
    assert [[problem.kind for problem in row.problems] for row in rows] == [[], [], [kind], []]
    assert str(rows[2].problems[0]) == f"{source}, line 3: {message}"
    with pytest.raises(UserError) as caught:
        list(read_pairs(source, target))
    assert str(caught.value) == f"{source}, line 3: {message}"


@pytest.mark.parametrize(("line", "kind", "_"), WRONG_LINES, ids=range(len(WRONG_LINES)))
def test_which_problems_can_be_skipped(tmp_path: Path, line: bytes, kind: ProblemKind, _: str):
    source = write(tmp_path / "s", b"a\n" + line + b"\nc\n")
    pairs = read_pairs(source, write(tmp_path / "t", "A\nB\nC\n"), skip=True)
    assert next(pairs) == ("a", "A")
    if kind in (ProblemKind.EMPTY, ProblemKind.TOO_LONG):
        assert list(pairs) == [("c", "C")]
    else:
        with pytest.raises(UserError, match="line 2"):
            next(pairs)


def test_empty_texts_are_reported_with_their_file_and_once_per_pair(tmp_path: Path):
    source, target = write(tmp_path / "s", "\na\n \n"), write(tmp_path / "t", "\n\nb\n")
    assert [str(problem) for row in scan_pairs(source, target) for problem in row.problems] == [
        f"{source}, line 1: the source and the target text are empty",
        f"{target}, line 2: the target text is empty",
        f"{source}, line 3: the source text is empty",
    ]


def test_the_target_is_checked_like_the_source(tmp_path: Path):
    source, target = write(tmp_path / "s", "a\nb\n"), write(tmp_path / "t", b"A\n\xff\n")
    with pytest.raises(UserError, match=r"t, line 2: byte 1 \(0xFF\) is not UTF-8"):
        list(read_pairs(source, target))


def test_an_invalid_byte_after_a_byte_order_mark_keeps_its_position(tmp_path: Path):
    source = write(tmp_path / "s", b"\xef\xbb\xbfa\xff\n")
    (line,) = read_lines(source)
    assert [problem.text[:6] for problem in line.problems] == ["byte 5"]


@pytest.mark.parametrize("columns", ["a", "a\tb\tc", "\t\t"])
def test_a_line_without_exactly_two_columns_is_refused(tmp_path: Path, columns: str):
    source = write(tmp_path / "s.tsv", f"a\tb\n{columns}\n")
    tabs = {0: "is no tab", 2: "are 2 tabs"}[columns.count("\t")]
    with pytest.raises(UserError) as caught:
        list(read_pairs(source, None, skip=True))
    assert str(caught.value) == f"{source}, line 2: a line has two texts with a tab between them, but here {tabs}"


def test_empty_columns_are_empty_texts(tmp_path: Path):
    source = write(tmp_path / "s.tsv", f"a\t\n\tb\n\t\n\na\tb\n{LONG}\n")
    kinds = [[problem.kind for problem in row.problems] for row in scan_pairs(source, None)]
    assert kinds == [[ProblemKind.EMPTY]] * 4 + [[], [ProblemKind.TOO_LONG]]
    assert list(read_pairs(source, None, skip=True)) == [("a", "b")]


@pytest.mark.parametrize("turned", [False, True])
def test_one_file_ends_before_the_other(tmp_path: Path, turned: bool):
    long, short = write(tmp_path / "long", "a\nb\nc\nd\n"), write(tmp_path / "short", "A\nB\n")
    files = (short, long) if turned else (long, short)
    rows = list(scan_pairs(*files))
    assert len(rows) == 3
    assert str(rows[2].problems[0]) == (
        f"{long}, line 3: {short} ends after line 2, this file after line 4; each pair needs a line in both"
    )
    with pytest.raises(UserError, match="line 3"):
        list(read_pairs(*files, skip=True))


def test_an_empty_file_beside_a_full_one(tmp_path: Path):
    full, empty = write(tmp_path / "full", "a\n"), write(tmp_path / "empty.gz", "")
    with pytest.raises(UserError, match=r"full, line 1: .*empty\.gz has no lines, this file after line 1"):
        list(read_pairs(full, empty))


@pytest.mark.parametrize(("content", "skip"), [("", False), ("", True), ("\n\n", True)])
def test_no_pairs_at_all_are_refused(tmp_path: Path, content: str, skip: bool):
    source = write(tmp_path / "s", content)
    with pytest.raises(UserError, match="s: has no pair of texts"):
        list(read_pairs(source, source, skip=skip))


@pytest.mark.parametrize("limit", [MAX_CHARACTERS, MAX_CHARACTERS + 1])
@pytest.mark.parametrize("character", ["x", "ä", "語", "😀"])
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_the_longest_line_counts_characters(tmp_path: Path, limit: int, character: str, end: str):
    (line,) = read_lines(write(tmp_path / "s", "\ufeff" + character * limit + end))
    assert [problem.kind for problem in line.problems] == [ProblemKind.TOO_LONG] * (limit > MAX_CHARACTERS)
    assert line.text == character * MAX_CHARACTERS


@pytest.mark.parametrize("extra", range(-2, 3))
def test_the_rest_of_an_overlong_line_is_not_read_as_the_next(tmp_path: Path, extra: int):
    for parts in (1, 2):
        source = write(tmp_path / "s", "x" * (parts * MAX_BYTES + extra) + "\nb\n")
        assert [line.text for line in read_lines(source)] == ["x" * MAX_CHARACTERS, "b"]


def test_a_character_split_by_the_limit_is_not_invalid(tmp_path: Path):
    for shift in range(4):
        (line,) = read_lines(write(tmp_path / "s", "x" * shift + "😀" * 2 * MAX_CHARACTERS))
        assert [problem.kind for problem in line.problems] == [ProblemKind.TOO_LONG]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_an_endless_line_is_never_in_memory(tmp_path: Path, suffix: str):
    source = write(tmp_path / f"s{suffix}", b"x" * 20_000_000)
    tracemalloc.start()
    try:
        (line,) = read_lines(source)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
    assert [problem.kind for problem in line.problems] == [ProblemKind.TOO_LONG]


@pytest.fixture
def low_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least that a compressed file may have is 1,000 lines, or 100,000 bytes."""
    monkeypatch.setattr(text_lines, "MIN_LIMIT", 1_000)


FORGED = {"empty lines": b"\n" * 1_001, "short lines": b"a\tb\n" * 1_001, "a long line": b"x" * 100_001}


@pytest.mark.usefixtures("low_limit")
@pytest.mark.parametrize("content", FORGED.values(), ids=FORGED)
def test_a_small_compressed_file_cannot_have_any_size(tmp_path: Path, content: bytes):
    """Even if its pairs are skipped; a plain file of the same content is read, and so is as much as the limit."""
    path = write(tmp_path / "s.tsv.gz", content * 5)
    with pytest.raises(UserError) as caught:
        list(scan_pairs(path, None))
    assert str(caught.value) == (
        f"{path}: more than 1,000 lines or 100,000 bytes in a compressed file of {path.stat().st_size:,} bytes; "
        "decompress it if it is intact (regard data check has --max-lines to raise the limit)"
    )
    with pytest.raises(UserError, match=r"more than 1,000 lines or 100,000 bytes"):
        list(read_pairs(path, None, skip=True))
    expected = content.count(b"\n") * 5 or 1
    assert len(list(scan_pairs(path, None, max_lines=5_005))) == expected
    assert len(list(scan_pairs(write(tmp_path / "s.tsv", content * 5), None))) == expected
    assert list(scan_pairs(write(tmp_path / "limit.tsv.gz", content[:-1]), None))


@pytest.mark.usefixtures("low_limit")
def test_a_compressed_file_may_have_as_many_lines_as_bytes(tmp_path: Path):
    lines = "".join(f"{random.Random(number).random()}\n" for number in range(2_000))
    path = write(tmp_path / "s.gz", lines)
    assert path.stat().st_size > 2_000
    assert len(list(read_lines(path))) == 2_000
    with pytest.raises(UserError, match=r"more than 1,999 lines or 199,900 bytes"):
        list(read_lines(path, max_lines=1_999))


@pytest.mark.usefixtures("low_limit")
def test_lines_without_a_partner_are_limited(tmp_path: Path):
    """They are only counted."""
    with pytest.raises(UserError, match=r"t\.gz: more than 1,000 lines"):
        list(scan_pairs(write(tmp_path / "s", "a\n"), write(tmp_path / "t.gz", "b\n" * 5_000)))


GOOD = gzip.compress(b"some text\n" * 1000, mtime=0)
DAMAGED = {
    "another format": b"this is no gzip",
    "cut at its end": GOOD[:-4],
    "cut in the middle": GOOD[:30],
    "other bytes inside": GOOD[:20] + b"\xff" * 20 + GOOD[40:],
    "more behind its end": GOOD + b"more",
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_archive_is_reported(tmp_path: Path, content: bytes):
    path = tmp_path / "s.gz"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"s\.gz: is damaged, truncated or not a gzip file"):
        list(read_lines(path))


@pytest.mark.parametrize("name", ["missing", "missing.gz"])
def test_a_missing_file_is_reported(tmp_path: Path, name: str):
    with pytest.raises(UserError) as caught:
        list(read_pairs(tmp_path / name, None))
    assert str(caught.value) == f"{tmp_path / name}: cannot be read: No such file or directory"


@pytest.mark.parametrize("name", ["folder", "folder.gz"])
def test_a_folder_is_reported(tmp_path: Path, name: str):
    (tmp_path / name).mkdir()
    with pytest.raises(UserError, match=f"{name}: cannot be read: Is a directory"):
        list(read_lines(tmp_path / name))


@pytest.mark.unix
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may read any file")
def test_a_file_without_permission_is_reported(tmp_path: Path):
    path = write(tmp_path / "s", "a\n")
    path.chmod(0)
    with pytest.raises(UserError, match="s: cannot be read: Permission denied"):
        list(read_lines(path))


def test_pairs_are_read_lazily(tmp_path: Path):
    pairs = read_pairs(tmp_path / "s", tmp_path / "t")  # neither exists yet
    write(tmp_path / "s", "a\n" + "b\n" * 100_000 + "\n")
    write(tmp_path / "t", "A\n" + "B\n" * 100_000 + "\n")
    assert next(pairs) == ("a", "A")  # and the empty line at the end has not been read


def test_files_are_closed_when_iteration_stops(tmp_path: Path):
    source = write(tmp_path / "s", "a\nb\n")
    before = os.listdir("/proc/self/fd") if Path("/proc/self/fd").exists() else []
    pairs = read_pairs(source, source)
    next(pairs)
    pairs.close()
    after = os.listdir("/proc/self/fd") if Path("/proc/self/fd").exists() else []
    assert len(after) == len(before)


def test_a_file_without_line_ends_is_not_read_to_its_end(tmp_path: Path):
    with (tmp_path / "sparse.de").open("wb") as file:
        file.truncate(1 << 33)
    problems = (line.problems for line in read_lines(tmp_path / "sparse.de"))
    with pytest.raises(UserError, match=r"sparse\.de, line 1: more than 100,000,000 bytes without a line end"):
        list(problems)
