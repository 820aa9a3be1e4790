"""Files of gold alignments, in the format of Moses."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.corpora.alignments import GoldAlignment, parse_alignment, read_gold_alignments
from regard.errors import UserError

SOURCES, TARGETS = 5, 7  # words
links = st.frozensets(st.tuples(st.integers(0, SOURCES - 1), st.integers(0, TARGETS - 1)))


def parsed(text: str) -> GoldAlignment:
    return parse_alignment(text, SOURCES, TARGETS, "gold, line 3")


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_the_source_comes_first_and_p_or_a_question_mark_marks_possible_links() -> None:
    alignment = parsed(" 0-0 4-6\t1p2  3?5 ")
    assert alignment.sure == {(0, 0), (4, 6)}
    assert alignment.unsure == {(1, 2), (3, 5)}
    assert alignment.possible == {(0, 0), (4, 6), (1, 2), (3, 5)}


def test_a_link_that_is_sure_and_possible_is_sure() -> None:
    assert parsed("1-2 1p2 2?1 2-1") == GoldAlignment(frozenset({(1, 2), (2, 1)}))


def test_an_empty_line_has_no_links() -> None:
    assert parsed("") == parsed("  ") == GoldAlignment(frozenset())


@given(links, links, st.sampled_from("p?"))
def test_written_alignments_are_read_back(sure: frozenset, possible: frozenset, sign: str) -> None:
    entries = [f"{source}-{target}" for source, target in sure]
    entries += [f"{source}{sign}{target}" for source, target in possible]
    assert parsed(" ".join(entries)) == GoldAlignment(sure, possible - sure)


@pytest.mark.parametrize(
    "entry", ["1", "1-", "-1-2", "1--2", "1-2-3", "1:2", "1_2", "a-b", "1.0-2", "²-1", "1,2", "1P2"]
)
def test_an_invalid_link_is_reported_with_its_position(entry: str) -> None:
    with pytest.raises(
        UserError, match=r"gold, line 3: .* is not a link; write SOURCE-TARGET, both counted from 0"
    ) as message:
        parsed(f"0-0 {entry}")
    assert repr(entry) in str(message.value)


def test_a_long_entry_is_truncated_in_the_message() -> None:
    with pytest.raises(UserError, match=r"line 3: '0{20}' is not a link"):
        parsed("0" * 5000)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("5-0", "5-0 names word 5 of the source, which has 5 between white space, 0 to 4; a link is SOURCE-TARGET"),
        ("0p7", "0p7 names word 7 of the target, which has 7 between white space, 0 to 6; a link is SOURCE-TARGET"),
        ("999999-0", "999999-0 names word 999999 of the source"),
    ],
)
def test_a_link_to_a_missing_word_is_reported(entry: str, message: str) -> None:
    with pytest.raises(UserError, match=f"gold, line 3: {message}"):
        parsed(f"4-6 {entry}")


class TestFiles:
    def test_each_line_belongs_to_its_pair(self, tmp_path: Path) -> None:
        path = write(tmp_path / "gold", "0-1\n\n2-0 1p0\n")
        alignments, lines = read_gold_alignments(path, [(1, 2), (2, 1), (3, 1)])
        assert alignments == [
            GoldAlignment(frozenset({(0, 1)})),
            GoldAlignment(frozenset()),
            GoldAlignment(frozenset({(2, 0)}), frozenset({(1, 0)})),
        ]
        assert lines == 3

    def test_gzip_windows_and_a_byte_order_mark(self, tmp_path: Path) -> None:
        path = tmp_path / "gold.gz"
        path.write_bytes(gzip.compress("\ufeff0-1\r\n1-0\r\n".encode()))
        assert read_gold_alignments(path, [(2, 2), (2, 2)])[0] == [
            GoldAlignment(frozenset({(0, 1)})),
            GoldAlignment(frozenset({(1, 0)})),
        ]

    @pytest.mark.parametrize(("text", "message"), [("0-0\n0-0\n", "has 2 lines"), ("0-0\n" * 5, "has 5 lines")])
    def test_a_different_number_of_lines_and_pairs_is_reported(self, tmp_path: Path, text: str, message: str) -> None:
        with pytest.raises(UserError, match=f"gold: {message}, and there are 3 pairs of texts; each needs a line"):
            read_gold_alignments(write(tmp_path / "gold", text), [(1, 1)] * 3)

    def test_only_the_lines_of_the_first_pairs_are_read(self, tmp_path: Path) -> None:
        path = write(tmp_path / "gold", "0-0\n0-0\nnonsense\n9-9\n0-0\n")
        alignments, lines = read_gold_alignments(path, [(1, 1)] * 2, more=True)
        assert (len(alignments), lines) == (2, 5)
        with pytest.raises(UserError, match="has 5 lines, and there are 7 pairs"):
            read_gold_alignments(write(tmp_path / "few", "0-0\n" * 5), [(1, 1)] * 7, more=True)

    def test_the_line_of_a_mistake_is_reported(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match=r"gold, line 2: '0=0' is not a link"):
            read_gold_alignments(write(tmp_path / "gold", "0-0\n0=0\n"), [(1, 1)] * 2)
        with pytest.raises(UserError, match=r"gold, line 2: 1-0 names word 1 of the source, which has 1 "):
            read_gold_alignments(write(tmp_path / "gold", "1-0\n1-0\n"), [(2, 1), (1, 1)])

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"0-0\n0-\xe9\n", r"line 2: byte 3 \(0xE9\) is not UTF-8"),
            (b"0-0\n" + b"0-0 " * 3000 + b"\n", "line 2: more than 10,000 characters"),
            (b"0-0\n\0\n", "line 2: character 1 is NUL"),
        ],
    )
    def test_bytes_that_are_not_text_are_reported(self, tmp_path: Path, content: bytes, message: str) -> None:
        path = tmp_path / "gold"
        path.write_bytes(content)
        with pytest.raises(UserError, match=message):
            read_gold_alignments(path, [(1, 1)] * 2)

    def test_a_missing_file_is_reported(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="nowhere: cannot be read: No such file"):
            read_gold_alignments(tmp_path / "nowhere", [(1, 1)])
