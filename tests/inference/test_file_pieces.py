"""Cutting a file into pieces, and reading them."""

from __future__ import annotations

import gzip
import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.corpora.text_lines import read_texts
from regard.errors import UserError
from regard.inference import file_pieces
from regard.inference.file_pieces import Piece, count_lines, cut_file, read_pieces, shared_path, unfinished
from regard.inference.input_lines import CHUNK_LINES, read_input

HOW = "by the runs a and b"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "in.txt"


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_pieces, "PIECE_LINES", 3)


def test_a_piece_has_whole_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert file_pieces.PIECE_LINES % CHUNK_LINES == 0


def test_two_processes_share_a_file_of_2000_lines(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    path.write_bytes(b"a\n" * 2_000)
    assert len(cut_file(path, HOW)) >= 2


LINES = st.lists(st.text("ab \u2028\x85é𝄞\r", max_size=5), max_size=11)


@given(lines=LINES, end=st.sampled_from(["", "\n"]), mark=st.booleans(), suffix=st.sampled_from(["", ".gz"]))
def test_pieces_have_all_lines_in_order(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], end: str, mark: bool, suffix: str
) -> None:
    path = tmp_path_factory.mktemp("pieces") / f"in{suffix}"
    content = (b"\xef\xbb\xbf" if mark else b"") + ("\n".join(lines) + end).encode()
    path.write_bytes(gzip.compress(content) if suffix else content)
    pieces = cut_file(path, HOW)
    texts = read_texts(path)
    assert count_lines(pieces) == len(texts)
    assert [piece.lines for piece in pieces[:-1]] == [3] * (len(pieces) - 1)
    assert [piece.first for piece in pieces] == list(range(1, len(texts) + 1, 3))
    assert [line for _, own in read_pieces(path, pieces, HOW) for line in own] == read_input(path)
    for piece in pieces[::-1]:  # each on its own
        ((_, own),) = read_pieces(path, [piece], HOW)
        assert [line.text for line in own] == texts[piece.first - 1 : piece.last]
        assert own[-1].origin == f"{path}, line {piece.last}"


def test_pieces_of_other_texts_or_lines_or_options_have_other_names(path: Path, tmp_path: Path) -> None:
    def names(content: bytes, how: str = HOW) -> list[Path]:
        path.write_bytes(content)
        return [piece.output(tmp_path) for piece in cut_file(path, how)]

    original = names(b"a\nb\nc\nd\ne\nf\ng\n")
    assert len(set(original)) == 3
    assert not set(names(b"a\nb\nc\nd\ne\nf\ng\n", "by the run a")) & set(original)
    assert names(b"a\r\nb\r\nc\r\nd\r\ne\r\nf\r\ng") == original, "the texts are the same"
    assert names(b"a\nb\nc\nd\nX\nf\ng\n") == [original[0], names(b"a\nb\nc\nd\nX\nf\ng\n")[1], original[2]]
    assert not set(names(b"a\nb\nab\nc\nd\ne\nf\ng\n")) & set(original[1:])
    assert not set(names(b"ab\n\nc\nd\ne\nf\ng\n")) & set(original[:1])


def test_a_file_that_has_changed_is_refused(path: Path) -> None:
    path.write_bytes(b"a\nb\nc\nd\ne\n")
    pieces = cut_file(path, HOW)
    for changed in (b"a\nb\nc\nd\nE\n", b"a\nb\nc\nd\n", b"a\nb\nc\nd\ne", b"abc\nd\ne\n"):
        path.write_bytes(changed)
        if changed == b"a\nb\nc\nd\ne":  # the same texts
            assert len(list(read_pieces(path, pieces, HOW))) == 2
            continue
        with pytest.raises(UserError, match="has changed since the translation began"):
            list(read_pieces(path, pieces[1:], HOW))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\nb\nc\nd\n\xffe\n", "in.txt, line 5: byte 1 .0xFF. is not UTF-8"),
        (b"a\nb\nc\nd\0\n", "in.txt, line 4: character 2 is NUL"),
        (b"a\nb\nc\n" + b"d" * 50_000 + b"\n", "in.txt, line 4: more than 10,000 characters"),
    ],
)
def test_a_line_that_is_no_text_is_refused(path: Path, content: bytes, message: str) -> None:
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        cut_file(path, HOW)


def test_a_file_that_cannot_be_read_is_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"in\.txt: cannot be read: No such file"):
        cut_file(path, HOW)
    broken = tmp_path / "in.gz"
    broken.write_bytes(gzip.compress(b"a\nb\n" * 500)[:-9])
    with pytest.raises(UserError, match="damaged, truncated or not a gzip file"):
        cut_file(broken, HOW)


@pytest.mark.unix
def test_files_of_this_process_have_a_path_for_others_or_are_refused(path: Path) -> None:
    path.write_bytes(b"a\n")
    assert shared_path(path) == path
    with path.open() as file:
        own = Path(f"/dev/fd/{file.fileno()}")
        if Path("/proc/self/fd").is_dir():
            assert shared_path(own) == path
        path.unlink()
        with pytest.raises(UserError, match=f"^{own}: other processes cannot read this; give the path of a regular"):
            shared_path(own)
    ends = os.pipe()
    with pytest.raises(UserError, match="other processes cannot read this"):
        shared_path(Path(f"/dev/fd/{ends[0]}"))
    for end in ends:
        os.close(end)


def test_finished_pieces_are_files(tmp_path: Path) -> None:
    pieces = [Piece(0, 1 + number, 1, str(number) * 32) for number in range(4)]
    pieces[0].output(tmp_path).write_bytes(b"")
    pieces[1].output(tmp_path).mkdir()
    pieces[2].output(tmp_path).symlink_to(pieces[0].output(tmp_path))
    assert unfinished(pieces, tmp_path) == pieces[1:]


def test_memory_does_not_grow_with_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_pieces, "PIECE_LINES", 512)

    def peak(count: int) -> int:
        path.write_text("".join(f"a line with the number {number}\n" for number in range(count)))
        tracemalloc.start()
        for _ in read_pieces(path, cut_file(path, HOW), HOW):
            pass
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(40 * 512) < peak(2 * 512) + 100_000
