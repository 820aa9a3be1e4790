"""Output and exit code of `regard data check`."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.cli.data_check import print_check
from regard.errors import UserError
from regard.terminal import progress


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a temporary folder, so that printed paths are short."""
    monkeypatch.chdir(tmp_path)
    return Path()


VALID_REPORT = """\
train.de, train.en: 3 pairs

length              mean  median  95 %  99 %  longest  in line
source, words        2.0       2     2     2        2        1
source, characters   8.7       8    10    10       10        2
target, words        2.0       2     2     2        2        1
target, characters   5.3       5     6     6        6        2

words   running  different  once only
source        6          4          2
target        6          4          3

1  duplicate source with another target: line 3 (as 1)

Ready for training.
"""


def test_a_valid_corpus_is_reported(in_folder: Path, capsys: pytest.CaptureFixture[str]):
    source = write(in_folder / "train.de", ["ein Hund", "eine Katze", "ein Hund"])
    target = write(in_folder / "train.en", ["a dog", "a  cat", "a hut"])
    print_check(source, target, None, as_json=False)
    out, err = capsys.readouterr()
    assert out == VALID_REPORT
    assert err == ""


def test_shards_are_checked_as_one_corpus(in_folder: Path, regard: Callable[..., Any]):
    for shard, words in (("1", ["ein", "zwei"]), ("2", ["ein"]), ("10", ["drei"])):
        write(in_folder / f"train.{shard}.de", words)
        write(in_folder / f"train.{shard}.en", [f"{word}s" for word in words])
    files = ("--source", "train.*.de", "--target", "train.*.en")
    answer = regard("data", "check", *files)
    assert answer.code == 0
    header, *_, duplicate, _, conclusion = answer.out.splitlines()
    assert header == "train.*.de, train.*.en: 4 pairs in 3 shards; lines are counted through all of them"
    assert duplicate == "1  duplicate pair: line 4 (as 1)"
    assert conclusion == "Ready for training."
    write(in_folder / "train.10.en", ["three", "", "four"])
    answer = regard("data", "check", *files, "--test-source", "train.1*.de", "--test-target", "train.1*.en")
    assert answer.code == 2
    assert "train.10.en, line 2: train.10.de ends after line 1, this file after line 3" in answer.out
    (in_folder / "train.2.de").unlink()
    answer = regard("data", "check", *files)
    assert answer.code == 2
    assert "train.2.en: there is no train.2.de, nor train.2.de.gz, for this shard" in answer.err


INVALID_REPORT = """\
s, t: 2 pairs

length              mean  median  95 %  99 %  longest  in line
source, words        1.0       1     1     1        1        1
source, characters   1.0       1     1     1        1        1
target, words        1.0       1     1     1        1        1
target, characters   1.0       1     1     1        1        1

words   running  different  once only
source        1          1          1
target        1          1          1

1  source equals target: line 1

test: 2 pairs; 50.0% of source words and 50.0% of target words are in the training text
1  pair is in training: line 2 (as 1)
1  source is in training: line 2 (as 1)

corrected while reading: Windows line end (2)

refused: empty text (1)
  t, line 2: the target text is empty
refused: line counts differ (1)
  s, line 3: t ends after line 2, this file after line 3; each pair needs a line in both

Not ready, training would refuse it: empty text (1), line counts differ (1). To do: correct this.
"""


def test_an_invalid_corpus_is_reported_completely_and_then_refused(in_folder: Path, capsys: pytest.CaptureFixture[str]):
    source, target = write(in_folder / "s", ["a", "b", "c"]), in_folder / "t"
    target.write_bytes(b"a\r\n\r\n")
    test = write(in_folder / "test", ["n", "a"])
    with pytest.raises(UserError) as caught:
        print_check(source, target, (test, test), as_json=False)
    assert capsys.readouterr().out == INVALID_REPORT
    assert str(caught.value) == "s, t: not ready for training: empty text (1), line counts differ (1)"


def test_skippable_pairs_are_reported_as_such(in_folder: Path, capsys: pytest.CaptureFixture[str]):
    path = write(in_folder / "s.tsv", ["a\tA", *["a\t"] * 1200])
    with pytest.raises(UserError, match=r"^s\.tsv: not ready for training: empty text \(1,200\)$"):
        print_check(path, None, None, as_json=False)
    *_, last_line, more, _, conclusion = capsys.readouterr().out.splitlines()
    assert last_line == "  s.tsv, line 6: the target text is empty"
    assert more == "  …"
    assert conclusion.endswith("correct this, or skip these pairs in training with data.skip: true.")


def test_problems_of_the_test_set_are_reported_separately(in_folder: Path, capsys: pytest.CaptureFixture[str]):
    valid, with_empty_line = write(in_folder / "s", ["a"]), write(in_folder / "t", [""])
    with pytest.raises(UserError, match=r"^s, s: not ready for training: in the test: empty text \(1\)$"):
        print_check(valid, valid, (valid, with_empty_line), as_json=False)
    assert "data.skip" not in capsys.readouterr().out


def test_files_without_a_pair_are_refused(in_folder: Path, capsys: pytest.CaptureFixture[str]):
    empty = write(in_folder / "s", [])
    with pytest.raises(UserError, match=r"^s, s: not ready for training: there is no pair of texts$"):
        print_check(empty, empty, None, as_json=False)
    conclusion = "Not ready, training would refuse it: there is no pair of texts. To do: correct this."
    assert capsys.readouterr().out == f"s, s: 0 pairs\n\n{conclusion}\n"


def test_an_empty_test_set_is_named_as_such(in_folder: Path):
    valid, empty = write(in_folder / "s", ["a"]), write(in_folder / "t", [])
    with pytest.raises(UserError, match=r"^s, s: not ready for training: in the test: there is no pair of texts$"):
        print_check(valid, valid, (empty, empty), as_json=False)


@pytest.mark.parametrize("valid", [True, False])
def test_json_output_is_one_object(in_folder: Path, capsys: pytest.CaptureFixture[str], valid: bool):
    source, target = write(in_folder / "s", ["ä", "b"]), write(in_folder / "t", ["A", "B" if valid else " "])
    if valid:
        print_check(source, target, (source, target), as_json=True)
    else:
        with pytest.raises(UserError, match="empty text"):
            print_check(source, target, (source, target), as_json=True)
    out = capsys.readouterr().out
    report = json.loads(out)
    assert out.count("\n") == 1
    assert report["ready"] is valid
    assert report["pairs"] == 2
    assert report["test"]["known_source_words"] == 1.0


def test_a_missing_file_is_reported(in_folder: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(UserError, match=r"^missing: cannot be read"):
        print_check(in_folder / "missing", in_folder / "missing", None, as_json=True)
    assert capsys.readouterr().out == ""


def test_a_text_without_its_translation_is_refused(in_folder: Path):
    path = write(in_folder / "s", ["a"])
    with pytest.raises(UserError, match=r"give its translations as target \(--target\), or a \.tsv file"):
        print_check(path, None, None, as_json=False)
    with pytest.raises(UserError, match=r"give its translations as test_target \(--test-target\), or a \.tsv file"):
        print_check(path, path, (path, None), as_json=False)


def test_handled_problems_of_the_test_set_are_reported(in_folder: Path, capsys: pytest.CaptureFixture[str]):
    path = write(in_folder / "s", ["a"])
    (in_folder / "windows").write_bytes(b"b\r\n")
    print_check(path, path, (in_folder / "windows", path), as_json=False)
    assert "corrected while reading the test: Windows line end (1)" in capsys.readouterr().out


def test_a_small_compressed_file_cannot_keep_the_command_busy(in_folder: Path, regard: Callable[..., Any]):
    """60 million empty lines in a gzip file of 58 kB."""
    path = in_folder / "s.tsv.gz"
    with gzip.open(path, "wb") as file:
        for _ in range(60):
            file.write(b"\n" * 1_000_000)
    answer = regard("data", "check", "--source", path)
    assert answer.code == 2
    assert answer.out == ""
    assert "s.tsv.gz: more than 200,000 lines" in answer.err
    assert "--max-lines" in answer.err


def test_the_limit_of_a_compressed_file_can_be_raised(in_folder: Path, regard: Callable[..., Any]):
    path = in_folder / "s.tsv.gz"
    path.write_bytes(gzip.compress(b"a\tb\n" * 30))
    answer = regard("data", "check", "--source", path, "--test-source", path, "--max-lines", 29)
    assert (answer.code, "more than 29 lines" in answer.err) == (2, True)
    assert regard("data", "check", "--source", path, "--test-source", path, "--max-lines", 30).code == 0


def test_progress_is_printed_to_stderr(
    in_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(progress, "LOG_INTERVAL", 0.0)
    path = write(in_folder / "s", ["a"] * 2500)
    print_check(path, path, None, as_json=True)
    out, err = capsys.readouterr()
    assert [line.split(" sentences")[0] for line in err.splitlines()] == ["1,000", "2,000", "2,500"]
    json.loads(out)
