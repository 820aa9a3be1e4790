"""Filtering a corpus: what is kept, what is reported, and which files are written."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import regard.data
from regard.corpora import read_pairs
from regard.corpora.limits import NO_LIMITS, PairLimits, letter_share
from regard.corpora.parallel_text import find_columns
from regard.errors import UserError

Regard = Callable[..., Any]
PAIRS = [
    ("ein hund", "a dog"),
    ("eins zwei drei vier fünf", "one two three four five"),
    ("ein hund", "a dog"),
    ("ein", "one two three"),
    ("", "nothing"),
    ("same same", "same same"),
    ("12 34", "12 34 :-)"),
    ("ein hund", "the dog"),
]


def write(folder: Path, pairs: list[tuple[str, str]] = PAIRS, suffix: str = "") -> tuple[Path, Path]:
    paths = folder / f"a.de{suffix}", folder / f"a.en{suffix}"
    for path, texts in zip(paths, zip(*pairs, strict=True), strict=True):
        content = "".join(f"{text}\n" for text in texts).encode()
        path.write_bytes(gzip.compress(content) if suffix == ".gz" else content)
    return paths


def test_each_reason_is_counted_with_its_lines(tmp_path: Path):
    limits = {"max_words": 4, "max_ratio": 2, "copies": False, "min_letters": 0.5}
    report = regard.data.filter(*write(tmp_path), out=tmp_path / "new" / "clean", deduplicate=True, **limits)
    assert {reason: (lines.count, lines.first) for reason, lines in report.left_out.items()} == {
        "more than 4 words": (1, (2,)),
        "duplicate pair": (1, (3,)),
        "length ratio above 2": (1, (4,)),
        "empty text": (1, (5,)),
        "source equals target": (1, (6,)),
        "letters below 50%": (1, (7,)),
    }
    assert (report.pairs, report.kept) == (8, 2)
    assert (tmp_path / "new/clean.de").read_text() == "ein hund\nein hund\n"
    assert (tmp_path / "new/clean.en").read_text() == "a dog\nthe dog\n"
    assert report.to_dict()["left_out"]["duplicate pair"] == {"count": 1, "first": (3,), "same_as": ()}
    assert "1  length ratio above 2: line 4\n" in str(report)


@given(
    pairs=st.lists(st.tuples(st.text("ab .", max_size=12), st.text("ab .", max_size=12)), min_size=1, max_size=20),
    min_words=st.integers(1, 3),
    max_ratio=st.none() | st.floats(1, 3),
)
def test_what_is_kept_is_what_training_reads_and_a_second_time_all(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]], min_words: int, max_ratio: float | None
):
    folder = tmp_path_factory.mktemp("filter")
    files = write(folder, pairs)
    options: dict[str, Any] = {"min_words": min_words, "max_ratio": max_ratio, "progress": False}
    try:
        report = regard.data.filter(*files, out=folder / "one", **options)
    except UserError as error:
        assert "no pair is left" in str(error)  # noqa: PT017
        assert not (folder / "one.de").exists()
        return
    limits = PairLimits(min_words=min_words, max_ratio=max_ratio)
    expected = list(read_pairs(*files, skip=True, limits=limits))
    assert list(read_pairs(folder / "one.de", folder / "one.en")) == expected
    assert report.pairs - report.kept == sum(lines.count for lines in report.left_out.values())
    again = regard.data.filter(folder / "one.de", folder / "one.en", out=folder / "two", **options)
    assert (again.kept, again.left_out) == (report.kept, {})


@pytest.mark.parametrize("suffix", [".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz", ".parquet"])
def test_the_format_is_that_of_the_input(tmp_path: Path, suffix: str):
    pytest.importorskip("pyarrow")
    from regard.corpora.pair_writers import open_writer

    with open_writer((Path(f"x{suffix}"), None), tmp_path / "in", [], ("de", "en")) as writer:
        for pair in PAIRS:
            writer.write(*pair)
    report = regard.data.filter(tmp_path / f"in{suffix}", out=tmp_path / "out", min_words=2, max_words=2)
    path = tmp_path / f"out{suffix}"
    assert report.outputs == (str(path),)
    assert list(read_pairs(path, None)) == [("ein hund", "a dog")] * 2 + [("same same", "same same"), PAIRS[-1]]
    assert find_columns(path) == (None if ".tsv" in suffix else ("de", "en"))


def test_names_of_languages_and_compression_are_kept(tmp_path: Path):
    report = regard.data.filter(*write(tmp_path, suffix=".gz"), out=tmp_path / "clean")
    assert report.outputs == (f"{tmp_path}/clean.de.gz", f"{tmp_path}/clean.en.gz")
    for name in ("de.txt", "en.txt"):
        (tmp_path / name).write_text("a\n")
    report = regard.data.filter(tmp_path / "de.txt", tmp_path / "en.txt", out=tmp_path / "clean")
    assert report.outputs == (f"{tmp_path}/clean.de.txt", f"{tmp_path}/clean.en.txt")


def test_the_input_is_never_overwritten(tmp_path: Path):
    files = write(tmp_path)
    before = files[0].read_bytes()
    with pytest.raises(UserError, match=r"a\.de: this is the file that is read; choose another name"):
        regard.data.filter(*files, out=tmp_path / "a")
    assert files[0].read_bytes() == before


def test_both_sides_never_get_the_same_name(tmp_path: Path):
    for folder in ("de", "en"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.txt").write_text("a\n")
    with pytest.raises(UserError, match=r"would be equal, .*clean\.train\.txt; rename one of them"):
        regard.data.filter(tmp_path / "de/train.txt", tmp_path / "en/train.txt", out=tmp_path / "clean")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["de", "en"]


@pytest.mark.parametrize("out", [".", "..", "/"])
def test_a_folder_is_no_name_of_new_files(tmp_path: Path, out: str):
    with pytest.raises(UserError, match="this is a folder; give the beginning of the new files' names"):
        regard.data.filter(*write(tmp_path), out=out)


def test_shards_after_the_language_are_joined_to_files_without_a_wildcard(tmp_path: Path):
    for name in ("a.de.1", "a.de.2", "a.en.1", "a.en.2"):
        (tmp_path / name).write_text("a\n")
    report = regard.data.filter(tmp_path / "a.de.*", tmp_path / "a.en.*", out=tmp_path / "clean")
    assert report.outputs == (f"{tmp_path}/clean.de", f"{tmp_path}/clean.en")


def test_nothing_is_written_if_line_counts_differ(tmp_path: Path):
    source, target = write(tmp_path)
    target.write_text("one\n")
    with pytest.raises(UserError, match=r"a\.de, line 2: .*a\.en ends after line 1"):
        regard.data.filter(source, target, out=tmp_path / "clean")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.de", "a.en"]


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_wrds": 3}, "limits: max_wrds: unknown key; did you mean 'max_words'"),
        ({"max_ratio": 0.5}, "limits: max_ratio: 0.5 is invalid"),
        ({"min_words": 5, "max_words": 3}, "limits: min_words: 5 is more than max_words, 3"),
    ],
)
def test_invalid_limits_are_refused(tmp_path: Path, limits: dict[str, Any], message: str):
    with pytest.raises(UserError, match=message):
        regard.data.filter(*write(tmp_path), out=tmp_path / "clean", **limits)


def test_letters_are_those_of_all_scripts():
    assert letter_share("Ein Hund") == letter_share("两只狗") == 1
    assert letter_share("12 ab") == 0.5
    assert letter_share("") == 0
    assert NO_LIMITS.exceeded("12", "12") is None


def test_commands_check_and_filter_one_file(regard: Regard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("p.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS[:4]))
    checked = regard("data", "check", "p.tsv", "--max-words", "4")
    assert (checked.code, "1  beyond the limits, more than 4 words: line 2" in checked.out) == (0, True)
    answer = regard("data", "filter", "p.tsv", "--out", "c", "--max-words", "4", "--deduplicate", "--report", "r.json")
    assert answer.code == 0
    assert answer.out.startswith("p.tsv: 4 pairs\n")
    assert json.loads(Path("r.json").read_text())["kept"] == len(Path("c.tsv").read_text().splitlines()) == 2
    refused = regard("data", "check", "p.tsv", "--source", "p.tsv")
    assert (refused.code, "give either a file with both sides, or --source" in refused.err) == (2, True)
    assert regard("data", "check").code == 2


def test_the_report_never_replaces_the_corpus(regard: Regard, tmp_path: Path):
    file = tmp_path / "p.tsv"
    file.write_text("a\tb\n")
    answer = regard("data", "filter", str(file), "--out", str(tmp_path / "c"), "--report", str(file))
    assert (answer.code, "p.tsv: this is a file that is read; choose another name" in answer.err) == (2, True)
    assert file.read_text() == "a\tb\n"
    assert not (tmp_path / "c.tsv").exists()


def test_an_empty_file_of_objects_is_called_empty(tmp_path: Path):
    (tmp_path / "p.jsonl").touch()
    with pytest.raises(UserError, match="this file is empty; it should have an object with two texts"):
        regard.data.filter(tmp_path / "p.jsonl", out=tmp_path / "c")
