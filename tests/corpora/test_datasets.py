"""The catalogue: what its entries hold, and where data lies."""

from __future__ import annotations

import sys
from hashlib import sha256
from pathlib import Path

import pytest

from regard.corpora import datasets
from regard.corpora.datasets import DATASETS, DataFile, DataSet
from regard.errors import UserError

TEXT = b"one\ntwo\n"
SMALL = DataSet("small", "Two lines", "none", (DataFile("a.txt", 2, len(TEXT), sha256(TEXT).hexdigest()),), ())


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.setitem(DATASETS, "small", SMALL)
    return tmp_path


@pytest.mark.parametrize("name", DATASETS)
def test_every_entry_is_well_formed(name: str):
    dataset = DATASETS[name]
    assert dataset.name == name
    assert dataset.description
    assert "\n" not in dataset.terms
    names = [name for file in dataset.files for name in file.names]
    assert len(set(names)) == len(names)
    for file in dataset.files:
        assert Path(file.name).name == file.name
        assert len(bytes.fromhex(file.sha256)) == 32
        assert 0 < file.lines < file.size
    for source in dataset.sources:
        assert all(address.startswith("https://") for address in source.addresses)


def test_multi30k_has_as_many_lines_as_its_authors_say():
    lines = {file.name: file.lines for file in DATASETS["multi30k"].files}
    for split, count in {"train": 29_000, "val": 1_014, "test_2016_flickr": 1_000}.items():
        assert lines[f"{split}.de"] == lines[f"{split}.en"] == count


def test_a_data_set_that_is_here_has_a_folder(root: Path):
    (root / "small").mkdir()
    (root / "small" / "a.txt").write_bytes(TEXT)
    assert datasets.dataset_folder("small") == root / "small"


@pytest.mark.parametrize("content", [None, TEXT[:-1], TEXT + b"x"])
def test_one_that_is_not_here_as_a_whole_is_an_error_that_tells_both_ways_to_get_it(root: Path, content: bytes | None):
    (root / "small").mkdir()
    if content is not None:
        (root / "small" / "a.txt").write_bytes(content)
    with pytest.raises(UserError) as error:
        datasets.dataset_folder("small")
    assert str(error.value) == (
        f"small is not here yet (looked in {root / 'small'}); get it with 'regard data get small', or, if you have it, "
        "'regard data get small --from FOLDER'; REGARD_DATA says where data lies"
    )


@pytest.mark.parametrize("look_up", [datasets.find_dataset, datasets.dataset_folder])
def test_an_unknown_name_is_answered_with_the_known_ones(look_up):
    with pytest.raises(UserError, match=r"called 'multi30'; did you mean 'multi30k'\? choices: multi30k"):
        look_up("multi30")


def test_regard_data_says_where_data_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("REGARD_DATA", "~/data")
    assert datasets.place("small") == tmp_path / "data" / "small"


@pytest.mark.parametrize(
    ("platform", "variable", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/caches"}, "/caches/regard"),
        ("linux", {}, "/home/me/.cache/regard"),
        ("darwin", {"XDG_CACHE_HOME": "/caches"}, "/home/me/Library/Caches/regard"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/regard"),
        ("win32", {}, "/home/me/AppData/Local/regard"),
    ],
)
def test_otherwise_it_lies_in_the_cache_of_the_operating_system(
    monkeypatch: pytest.MonkeyPatch, platform: str, variable: dict[str, str], expected: str
):
    for name in ("REGARD_DATA", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    for name, value in variable.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert datasets.data_folder() == Path(expected)
