"""The report of a corpus describes the files, and needs little memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.corpora import check
from regard.corpora.check import CorpusReport, LineSummary, ProblemLines, check_parallel_text


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def check_texts(folder: Path, sources: list[str], targets: list[str]) -> CorpusReport:
    return check_parallel_text(write(folder / "train.de", sources), write(folder / "train.en", targets))


def test_a_valid_corpus_is_ready(tmp_path: Path):
    report = check_texts(tmp_path, ["ein Hund", "eine Katze"], ["a dog", "a cat"])
    assert report.ready
    assert report.ready_with_skip
    assert (report.pairs, report.sound_pairs) == (2, 2)
    assert report.problems == report.handled == ()
    assert report.test is None


def test_lengths_are_those_of_the_texts(tmp_path: Path):
    sources = [" ".join(["äh"] * count) for count in (*range(1, 101), 7)]
    side = check_texts(tmp_path, sources, ["x"] * 101).source
    assert side.words.mean == pytest.approx(5057 / 101)
    assert (side.words.median, side.words.percent_95, side.words.percent_99) == (50, 95, 99)
    assert (side.words.longest, side.words.longest_line) == (100, 100)
    assert (side.characters.longest, side.characters.median) == (299, 149)


@given(texts=st.lists(st.text(alphabet="abc ", min_size=1).filter(str.strip), min_size=1))
def test_words_are_counted(tmp_path_factory: pytest.TempPathFactory, texts: list[str]):
    side = check_texts(tmp_path_factory.mktemp("counted"), texts, texts).target
    expected = Counter(word for text in texts for word in text.split())
    assert side.running_words == expected.total()
    assert side.different_words == len(expected)
    assert side.words_occurring_once == sum(count == 1 for count in expected.values())
    assert side.all_words_counted


def test_the_most_frequent_words_cover_their_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(check, "COVERING", (1, 2, 3, 4))
    side = check_texts(tmp_path, ["c b a a", "b a a a d"], ["x", "y"]).source
    assert side.coverage == pytest.approx({1: 5 / 9, 2: 7 / 9, 3: 8 / 9})  # there are only four


def test_the_word_table_has_a_maximum_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(check, "MAX_WORDS", 3)
    report = check_texts(tmp_path, ["a b", "c a", "b d", "a e"], ["x", "x", "y", "z"])
    assert not report.source.all_words_counted
    assert (report.source.different_words, report.source.running_words) == (3, 8)
    assert report.source.words_occurring_once == 1  # c; b occurred again after the table was full
    assert report.target.all_words_counted


def test_problems_are_counted_and_the_first_ones_located(tmp_path: Path):
    source = write(tmp_path / "s", ["a"] + [""] * 7 + ["b", "c\0"])
    target = write(tmp_path / "t", ["A"] + ["x"] * 7 + ["B", "C"])
    report = check_parallel_text(source, target)
    assert not report.ready
    assert not report.ready_with_skip
    assert (report.pairs, report.sound_pairs) == (10, 2)
    empty, nul = report.problems
    assert empty == ProblemLines(
        "empty text", 7, tuple(f"{source}, line {n}: the source text is empty" for n in range(2, 7))
    )
    assert (nul.kind, nul.count) == ("NUL character", 1)
    assert nul.first[0].startswith(f"{source}, line 10: character 2 is NUL")
    assert report.source.words.longest_line == 1  # statistics are over the valid pairs


def test_pairs_skippable_in_training_are_refused_in_a_test_set(tmp_path: Path):
    valid, with_empty_line = write(tmp_path / "s", ["a", "b"]), write(tmp_path / "t", ["A", ""])
    assert check_parallel_text(valid, with_empty_line).ready_with_skip
    report = check_parallel_text(valid, valid, (valid, with_empty_line))
    assert not report.ready
    assert not report.ready_with_skip
    assert report.test is not None
    assert [(found.kind, found.count) for found in report.test.problems] == [("empty text", 1)]


def test_lines_without_a_counterpart_are_no_pairs(tmp_path: Path):
    report = check_texts(tmp_path, ["a", "b", "c", "d"], ["A", "B"])
    assert (report.pairs, report.sound_pairs) == (2, 2)
    assert [(found.kind, found.count) for found in report.problems] == [("line counts differ", 1)]


def test_handled_problems_are_reported_and_not_refused(tmp_path: Path):
    source = tmp_path / "s"
    source.write_bytes(b"\xef\xbb\xbfa\r\nb\r\nc\n")
    report = check_parallel_text(source, write(tmp_path / "t", ["a", "B", "C"]))
    assert report.ready
    assert {found.kind: found.count for found in report.handled} == {"Windows line end": 2, "byte-order mark": 1}
    assert report.copies == LineSummary(1, (1,))  # the mark is not part of the text


def test_unusual_length_ratios_are_relative_to_the_corpus(tmp_path: Path):
    sources = ["字" * 10] * 9
    targets = ["x" * 30] * 9  # three times as long is usual here
    targets[3], targets[6] = "x" * 120, "x" * 2
    report = check_texts(tmp_path, sources, targets)
    assert report.usual_ratio == pytest.approx(3.0)
    assert report.unusual_ratio == LineSummary(2, (4, 7))


def test_duplicates_are_found(tmp_path: Path):
    sources = ["a", "b", "a", "a", "", "a", "a", "B"]
    targets = ["A", "B", "A", "X", "B", "X", "A", "b"]
    report = check_texts(tmp_path, sources, targets)
    assert report.same_pairs == LineSummary(3, (3, 6, 7), (1, 4, 1))
    assert report.same_sources == LineSummary(1, (4,), (1,))  # line 6 duplicates line 4
    assert report.copies == LineSummary(0, ())


def test_only_the_first_occurrences_are_listed(tmp_path: Path):
    report = check_texts(tmp_path, ["a"] * 100, ["a"] * 100)
    assert report.same_pairs == LineSummary(99, (2, 3, 4, 5, 6), (1,) * 5)
    assert report.copies == LineSummary(100, (1, 2, 3, 4, 5))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1))
def test_duplicates_equal_those_of_a_naive_count(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]
):
    report = check_texts(tmp_path_factory.mktemp("again"), [pair[0] for pair in pairs], [pair[1] for pair in pairs])
    assert report.same_pairs.count == len(pairs) - len(set(pairs))
    assert report.same_sources.count == len(set(pairs)) - len({source for source, _ in pairs})
    assert report.copies.count == sum(source == target for source, target in pairs)


def test_a_test_text_is_compared_with_the_training_text(tmp_path: Path):
    source, target = write(tmp_path / "s", ["", "a b", "c d"]), write(tmp_path / "t", ["x", "A", "C"])
    test = write(tmp_path / "test.tsv", ["c d\tC", "a b\tZ A", "a e\tA"])
    found = check_parallel_text(source, target, (test, None)).test
    assert found is not None
    assert (found.pairs, found.sound_pairs) == (3, 3)
    assert found.known_source_words == pytest.approx(5 / 6)
    assert found.known_target_words == pytest.approx(3 / 4)
    assert found.same_pairs == LineSummary(1, (1,), (3,))
    assert found.same_sources == LineSummary(2, (1, 2), (3, 2))


def test_two_columns_are_source_and_target(tmp_path: Path):
    path = write(tmp_path / "s.tsv", ["a b\tA", "c\tC"])
    report = check_parallel_text(path, None)
    assert report.ready
    assert report.source.file == report.target.file == str(path)
    assert (report.source.running_words, report.target.running_words) == (3, 2)


@pytest.mark.parametrize("lines", [[], ["", ""]])
def test_files_without_a_pair_are_reported_and_not_ready(tmp_path: Path, lines: list[str]):
    report = check_texts(tmp_path, lines, lines)
    assert not report.ready
    assert not report.ready_with_skip
    assert report.sound_pairs == report.source.words.longest == 0
    valid = write(tmp_path / "s", ["a"])
    assert not check_parallel_text(valid, valid, (tmp_path / "train.de", tmp_path / "train.en")).ready


def test_a_report_survives_json(tmp_path: Path):
    source = write(tmp_path / "s", ["a", "", "a"])
    report = check_parallel_text(source, source, (source, source))
    back = json.loads(json.dumps(asdict(report)))
    assert back["problems"][0]["kind"] == "empty text"
    assert back["same_pairs"] == {"count": 1, "first": [3], "same_as": [1]}


@pytest.mark.parametrize("rows", [0, 7, 2000, 2345])
def test_advance_is_called_for_every_row(tmp_path: Path, rows: int):
    reported: list[int] = []
    source = write(tmp_path / "s", ["a"] * rows)
    check_parallel_text(source, source, advance=reported.append)
    assert sum(reported) == rows
    assert max(reported) <= check.REPORT_EVERY


def test_keys_of_a_pair_distinguish_the_sides(tmp_path: Path):
    assert check_texts(tmp_path, ["a", "b"], ["b", "a"]).same_pairs == LineSummary(0, ())


PEAK = """
import sys
from pathlib import Path
from regard.corpora.check import check_parallel_text

def peak():
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) * 1024

before = peak()
check_parallel_text(Path(sys.argv[1]), Path(sys.argv[1]))
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not report peak memory")
def test_memory_stays_far_below_the_size_of_the_file(tmp_path: Path):
    path = tmp_path / "large"
    draw = Random(1)
    words = [f"{number}-donaudampfschifffahrt" for number in range(5_000)]
    with path.open("w", encoding="utf-8") as file:
        file.writelines(" ".join(draw.choices(words, k=10)) + "\n" for _ in range(100_000))
    done = subprocess.run([sys.executable, "-c", PEAK, str(path)], capture_output=True, text=True, check=True)
    assert int(done.stdout) < path.stat().st_size / 2
