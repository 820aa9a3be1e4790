"""The catalog of data sets: its entries, and where the data is stored."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import platformdirs.macos
import platformdirs.unix
import platformdirs.windows
import pytest

from regard.corpora import datasets
from regard.corpora.datasets import DATASETS, DataFile, DatasetSpec
from regard.errors import UserError

TEXT = b"one\ntwo\n"
SMALL = DatasetSpec("small", "Two lines", "none", (DataFile("a.txt", 2, len(TEXT), sha256(TEXT).hexdigest()),), ())


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
    for mirror in dataset.mirrors:
        assert all(address.startswith("https://") for address in mirror.addresses)


def test_multi30k_has_the_published_numbers_of_lines():
    lines = {file.name: file.lines for file in DATASETS["multi30k"].files}
    for split, count in {"train": 29_000, "val": 1_014, "test_2016_flickr": 1_000}.items():
        assert lines[f"{split}.de"] == lines[f"{split}.en"] == count


def test_the_folder_of_a_complete_data_set(root: Path):
    (root / "small").mkdir()
    (root / "small" / "a.txt").write_bytes(TEXT)
    assert datasets.dataset_folder("small") == root / "small"


@pytest.mark.parametrize("content", [None, TEXT[:-1], TEXT + b"x"])
def test_an_incomplete_data_set_is_an_error_that_names_both_ways_to_get_it(root: Path, content: bytes | None):
    (root / "small").mkdir()
    if content is not None:
        (root / "small" / "a.txt").write_bytes(content)
    with pytest.raises(UserError) as error:
        datasets.dataset_folder("small")
    assert str(error.value) == (
        f"small has not been downloaded to {root / 'small'}; run 'regard data get small' or, if you have the files, "
        "'regard data get small --from FOLDER'; REGARD_DATA sets the folder for data sets"
    )


@pytest.mark.parametrize("look_up", [datasets.find_dataset, datasets.dataset_folder])
def test_an_unknown_name_lists_the_known_ones(look_up):
    with pytest.raises(UserError, match=r"there is no data set 'multi30'; did you mean 'multi30k'\? choices: multi30k"):
        look_up("multi30")


def test_regard_data_sets_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("REGARD_DATA", "~/data")
    assert datasets.dataset_path("small") == tmp_path / "data" / "small"


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home folder, without environment variables that set another folder."""
    for name in ("REGARD_DATA", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(platformdirs.windows, "get_win_folder", lambda name: str(tmp_path / "AppData" / "Local"))
    return tmp_path


@pytest.mark.parametrize(
    ("platform", "expected"),
    [
        (platformdirs.unix.Unix, ".cache/regard"),
        (platformdirs.macos.MacOS, "Library/Caches/regard"),
        (platformdirs.windows.Windows, "AppData/Local/regard"),
    ],
)
def test_the_default_is_the_cache_folder_of_the_operating_system_as_in_0_5(
    monkeypatch: pytest.MonkeyPatch, home: Path, platform: type, expected: str
):
    monkeypatch.setattr(platformdirs, "PlatformDirs", platform)
    assert datasets.data_folder() == home / expected


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, home: Path):
    monkeypatch.setattr(platformdirs, "PlatformDirs", platformdirs.unix.Unix)
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "caches"))
    assert datasets.data_folder() == home / "caches" / "regard"


@pytest.mark.parametrize("old", ["Library/Caches/regard", "AppData/Local/regard"])
def test_data_sets_that_0_5_downloaded_are_found(
    monkeypatch: pytest.MonkeyPatch, home: Path, tmp_path_factory: pytest.TempPathFactory, old: str
):
    monkeypatch.setitem(DATASETS, "small", SMALL)
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "caches"))
    assert datasets.dataset_path("small") == home / "caches" / "regard" / "small"
    (home / old / "small").mkdir(parents=True)
    (home / old / "small" / "a.txt").write_bytes(TEXT)
    assert datasets.dataset_folder("small") == home / old / "small"
    (home / "caches" / "regard" / "small").mkdir(parents=True)
    assert datasets.dataset_path("small") == home / "caches" / "regard" / "small"
    monkeypatch.setenv("REGARD_DATA", str(home / "elsewhere"))
    assert datasets.dataset_path("small") == home / "elsewhere" / "small"
