"""Output of `regard data get`."""

from __future__ import annotations

import gzip
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from regard.cli import data_get
from regard.corpora.datasets import DATASETS, DataFile, DatasetSpec
from regard.errors import UserError

Regard = Callable[..., Any]
TEXTS = {"a.de": b"eins\nzwei\n", "long.en": b"one\n"}
CHECKSUMS = {name: sha256(text).hexdigest()[:12] for name, text in TEXTS.items()}
SMALL = DatasetSpec(
    "small",
    "Some lines",
    "for everyone",
    tuple(DataFile(name, text.count(b"\n"), len(text), sha256(text).hexdigest()) for name, text in TEXTS.items()),
    (),
)


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the small data set, which is in the catalog for this test."""
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))
    monkeypatch.setitem(DATASETS, "small", SMALL)
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, text in TEXTS.items():
        (folder / name).write_bytes(text)
    return folder


def test_sources_of_files_are_printed_and_existing_files_listed(mine: Path, capsys: pytest.CaptureFixture[str]):
    data_get.print_get("small", str(mine))
    folder = mine.parent / "data" / "small"
    assert capsys.readouterr().out.splitlines() == [
        "small: Some lines",
        "terms of use: for everyone",
        "file     lines  sha256         origin",
        f"a.de         2  {CHECKSUMS['a.de']}…  {mine / 'a.de'}",
        f"long.en      1  {CHECKSUMS['long.en']}…  {mine / 'long.en'}",
        f"data set folder: {folder}",
    ]
    data_get.print_get("small", None)
    assert capsys.readouterr().out.splitlines()[2:] == [
        "file     lines  sha256         origin",
        f"a.de         2  {CHECKSUMS['a.de']}…  already downloaded",
        f"long.en      1  {CHECKSUMS['long.en']}…  already downloaded",
        f"data set folder: {folder}",
    ]


def test_languages_and_test_sets_are_options(mine: Path, regard: Regard):
    (mine / "test_17.en").write_bytes(b"three\n")
    test = DataFile("test_17.en", 1, 6, sha256(b"three\n").hexdigest())
    DATASETS["small"] = replace(SMALL, files=(*SMALL.files, test), languages=("de",), tests=())
    folder = mine.parent / "data" / "small"
    for options, names in [
        ((), {"a.de"}),
        (("--languages", " de , en "), {"a.de", "long.en"}),
        (("--languages", "en", "--tests", "17"), {"a.de", "long.en", "test_17.en"}),
    ]:
        assert regard("data", "get", "small", "--from", mine, *options).code == 0
        assert {path.name for path in folder.iterdir()} - {".lock"} == names
    answer = regard("data", "get", "small", "--languages", "de,fr")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == "regard: --languages de,fr: small has no language 'fr'; choices: de, en\n"


def test_a_failure_is_reported_once(mine: Path, capsys: pytest.CaptureFixture[str]):
    (mine / "a.de").write_bytes(b"")
    reason = f"{mine / 'a.de'}: a.de has the wrong content: 0 of 10 bytes"
    with pytest.raises(UserError, match=re.escape(f"small: could not download a.de\n  {reason}\n")):
        data_get.print_get("small", str(mine))
    assert capsys.readouterr().err == ""

    (mine / "a.de.gz").write_bytes(gzip.compress(TEXTS["a.de"]))
    data_get.print_get("small", str(mine))
    assert capsys.readouterr().err == f"failed attempt: {reason}\n"


def test_an_unknown_name_is_reported_with_the_known_ones(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(UserError, match="did you mean 'multi30k'"):
        data_get.print_get("multi30", None)
    assert capsys.readouterr().out == ""


def test_progress_of_a_long_download_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    clock = iter([0.0, 1.0, 20.0, 21.0, 40.0, 50.0])
    monkeypatch.setattr(data_get.time, "monotonic", lambda: next(clock))
    with data_get.GetObserver() as observer:
        for done in (1_000, 1_100, 5_000, 5_100, 9_000):
            observer.received("http://a/b", done, 20_000)
        observer.received("http://a/c", 0, None)
    assert capsys.readouterr().err.splitlines() == [
        "http://a/b  5,000/20,000 bytes  200 bytes/s  1:15 left",
        "http://a/b  9,000/20,000 bytes  200 bytes/s  0:55 left",
    ]
    assert data_get.format_amount(7_000, None, 3.5) == "7,000 bytes  4 bytes/s"


def test_on_a_terminal_a_bar_shows_the_download(
    mine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with data_get.GetObserver() as observer:
        observer.received("http://a/b[c]", 500, 1_000)
        observer.kept(SMALL.files[0], "http://a/b[c]")
        observer.received("http://a/d", 0, None)
        observer.received("http://a/d", 2_000, None)
    captured = capsys.readouterr()
    assert captured.out.splitlines()[1].startswith("a.de ")
    assert "b[c] " in captured.err
    assert "0.5/1.0 kB" in captured.err
    assert "2.0/? kB" in captured.err
