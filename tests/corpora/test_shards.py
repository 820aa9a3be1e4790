"""Shards: found by a pattern, matched by name, read in order; problems name the file and the line."""

from __future__ import annotations

import gzip
import os
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.corpora import ProblemKind, read_pairs, scan_pairs
from regard.corpora.check import check_parallel_text
from regard.corpora.shards import find_shards, is_pattern
from regard.errors import UserError

SHARD = st.text(alphabet="0123ab-_.[]", max_size=3)
SUFFIXES = st.sampled_from(["", ".gz"])


def write(path: Path, content: str) -> Path:
    data = content.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write_shards(folder: Path, *shards: str) -> tuple[Path, Path]:
    """A pair of texts in each shard; the patterns of both sides."""
    for shard in shards:
        write(folder / f"train.{shard}.de", f"de {shard}\n")
        write(folder / f"train.{shard}.en", f"en {shard}\n")
    return folder / "train.*.de", folder / "train.*.en"


def shard_names(pairs: tuple[Path, Path]) -> list[str]:
    return [source.removeprefix("de ") for source, _ in read_pairs(*pairs)]


@given(st.dictionaries(SHARD, st.tuples(st.integers(0, 3), SUFFIXES, SUFFIXES), min_size=1), st.booleans())
def test_shards_are_read_one_after_the_other(shards: dict[str, tuple[int, str, str]], in_columns: bool):
    with tempfile.TemporaryDirectory() as name:
        folder, expected = Path(name), []
        for shard, (count, one, other) in shards.items():
            texts = [(f"{number}: {shard}.", f"{shard}: {number}") for number in range(count)]
            if in_columns:
                write(folder / f"train.{shard}.tsv{one}", "".join(f"{source}\t{target}\n" for source, target in texts))
            else:
                write(folder / f"train.{shard}.de{one}", "".join(f"{source}\n" for source, _ in texts))
                write(folder / f"train.{shard}.en{other}", "".join(f"{target}\n" for _, target in texts))
        for shard in sorted(shards):
            expected += [(f"{number}: {shard}.", f"{shard}: {number}") for number in range(shards[shard][0])]
        files = (folder / "train.*.tsv", None) if in_columns else (folder / "train.*.de", folder / "train.*.en")
        assert [(row.source, row.target) for row in scan_pairs(*files)] == expected
        if expected:
            assert list(read_pairs(*files)) == expected


def test_numbers_are_sorted_as_text(tmp_path: Path):
    assert shard_names(write_shards(tmp_path, "2", "10", "1", "02", "a")) == ["02", "1", "10", "2", "a"]


def test_other_files_are_no_shards(tmp_path: Path):
    files = write_shards(tmp_path, "1")
    for other in ("train.de", "trainx1.de", ".train.2.de", "train.1.de.bak", "train.3.fr", "train.4.de.gz.part"):
        write(tmp_path / other, "other\n")
    assert shard_names(files) == ["1"]


def test_a_pattern_matches_no_hidden_file(tmp_path: Path):
    write_shards(tmp_path, "1")
    write(tmp_path / "._train.1.de", "not text\n")  # as macOS writes them
    assert find_shards(tmp_path / "*.de", tmp_path / "*.en") == [(tmp_path / "train.1.de", tmp_path / "train.1.en")]


def test_a_plain_file_is_preferred_to_a_compressed_one(tmp_path: Path):
    files = write_shards(tmp_path, "1")
    write(tmp_path / "train.1.de.gz", "compressed\n")
    assert shard_names(files) == ["1"]


def test_a_pattern_may_match_compressed_files_only(tmp_path: Path):
    write(tmp_path / "a1.gz", "x\n")
    write(tmp_path / "b1.gz", "y\n")
    assert list(read_pairs(tmp_path / "a*.gz", tmp_path / "b*.gz")) == [("x", "y")]


def test_a_pattern_without_a_suffix_matches_each_compressed_file_once(tmp_path: Path):
    for side in ("de", "en"):
        write(tmp_path / f"{side}-1", "plain\n")
        write(tmp_path / f"{side}-2.gz", "compressed\n")
    assert list(read_pairs(tmp_path / "de-*", tmp_path / "en-*")) == [("plain",) * 2, ("compressed",) * 2]


@pytest.mark.parametrize("side", ["de", "en"])
def test_a_shard_without_its_other_side_is_reported(tmp_path: Path, side: str):
    files = write_shards(tmp_path, "1", "2", "3", "4")
    missing = tmp_path / f"train.2.{side}"
    missing.unlink()
    present = tmp_path / f"train.2.{'en' if side == 'de' else 'de'}"
    message = f"{present}: there is no {missing}, nor {missing}.gz, for this shard"
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        next(read_pairs(*files))
    (tmp_path / f"train.4.{side}").unlink()
    with pytest.raises(UserError, match=re.escape(f"{message}; 2 shards lack theirs")):
        next(read_pairs(*files))


@pytest.mark.parametrize("folder", ["", "nowhere", "train.1.de", "a\0b"])
def test_a_pattern_without_files_is_reported(tmp_path: Path, folder: str):
    write_shards(tmp_path, "1")
    pattern = tmp_path / folder / "test.*.de"
    with pytest.raises(UserError, match=f"^{re.escape(f'there is no {pattern}, nor {pattern}.gz')}$"):
        next(read_pairs(pattern, tmp_path / "train.*.en"))


@pytest.mark.parametrize("names", [("train.*.de", "train.1.en"), ("train.1.de", "train.*.en"), ("t*.*.de", "t*.*.en")])
def test_both_sides_have_one_asterisk(tmp_path: Path, names: tuple[str, str]):
    write_shards(tmp_path, "1")
    with pytest.raises(UserError, match=r"the names of shards have one \*, on both sides: train\.\*\.de and train\.\*"):
        next(read_pairs(tmp_path / names[0], tmp_path / names[1]))


def test_a_name_that_is_too_long_matches_nothing(tmp_path: Path):
    with pytest.raises(UserError, match="there is no "):
        next(read_pairs(tmp_path / f"{'x' * 300}*", tmp_path / "y*"))


@pytest.mark.unix
def test_a_file_and_a_folder_may_have_an_asterisk_in_their_names(tmp_path: Path):
    folder = tmp_path / "a*b"
    folder.mkdir()
    source, target = write(folder / "x*.de", "x\n"), write(folder / "x*.en", "y\n")
    write(folder / "x1.de", "other\n")
    assert not is_pattern(source)
    assert list(read_pairs(source, target)) == [("x", "y")]
    assert shard_names(write_shards(folder, "1")) == ["1"]


def special_file(path: Path, kind: str) -> None:
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "FIFO":
        os.mkfifo(path)
    else:
        path.symlink_to(path if kind == "link to itself" else path.with_name("nowhere"))


@pytest.mark.unix
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("folder", "cannot be read: Is a directory"),
        ("FIFO", "this is not a regular file"),
        ("link to itself", "cannot be read: Too many levels of symbolic links"),
        ("link to nothing", "cannot be read: No such file or directory"),
    ],
)
def test_a_shard_that_cannot_be_read_is_reported(tmp_path: Path, kind: str, message: str):
    files = write_shards(tmp_path, "1", "2")
    special_file(tmp_path / "train.2.en", kind)
    with pytest.raises(UserError, match=f"^{re.escape(f'{tmp_path}/train.2.en: {message}')}$"):
        list(read_pairs(*files))


@pytest.mark.unix
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may read any folder")
def test_a_folder_without_permission_is_reported(tmp_path: Path):
    files = write_shards(tmp_path, "1")
    tmp_path.chmod(0)
    try:
        with pytest.raises(UserError, match="cannot be read: Permission denied"):
            list(read_pairs(*files))
    finally:
        tmp_path.chmod(0o700)


def test_a_problem_is_reported_with_its_shard_and_line(tmp_path: Path):
    files = write_shards(tmp_path, "1", "2", "3")
    write(tmp_path / "train.2.en", "two\n\n")
    write(tmp_path / "train.2.de", "zwei\ndrei\n")
    with pytest.raises(
        UserError, match=f"^{re.escape(str(tmp_path / 'train.2.en'))}, line 2: the target text is empty"
    ):
        list(read_pairs(*files))
    assert [source for source, _ in read_pairs(*files, skip=True)] == ["de 1", "zwei", "de 3"]


def test_shards_of_different_length_are_reported(tmp_path: Path):
    """Even if both sides have the same number of lines in all."""
    files = write_shards(tmp_path, "1", "2")
    write(tmp_path / "train.1.de", "a\nb\n")
    write(tmp_path / "train.2.en", "A\nB\n")
    one, two = tmp_path / "train.1", tmp_path / "train.2"
    first = f"{one}.de, line 2: {one}.en ends after line 1, this file after line 2; each pair needs a line in both"
    with pytest.raises(UserError, match=f"^{re.escape(first)}$"):
        list(read_pairs(*files))
    problems = [problem for row in scan_pairs(*files) for problem in row.problems]
    assert [problem.kind for problem in problems] == [ProblemKind.LINES_DIFFER] * 2
    assert str(problems[1]).startswith(f"{two}.en, line 2: {two}.de ends after line 1")


def test_shards_without_any_pair_are_refused(tmp_path: Path):
    files = write_shards(tmp_path, "1", "2")
    for file in tmp_path.iterdir():
        write(file, "")
    with pytest.raises(UserError, match=rf"{re.escape(str(files[0]))}: has no pair of texts"):
        list(read_pairs(*files))


def test_one_shard_at_a_time_is_open(tmp_path: Path):
    files = write_shards(tmp_path, *map(str, range(1_009)))
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.glob("*")))
    for count, _ in enumerate(read_pairs(*files), start=1):
        if count % 100 == 0:
            assert len(list(descriptors.glob("*"))) <= before + 2
    assert count == 1_009


def test_the_report_counts_lines_through_all_shards(tmp_path: Path):
    files = write_shards(tmp_path, "1", "2", "3")
    write(tmp_path / "train.3.de", "de 2\n")
    write(tmp_path / "train.3.en", "a longer text of several words\n")
    report = check_parallel_text(*files)
    assert report.ready
    assert (report.shards, report.pairs) == (3, 3)
    assert (report.same_sources.first, report.same_sources.same_as) == ((3,), (2,))
    assert report.target.words.longest_line == 3
    assert report.files == tuple(map(str, files))
