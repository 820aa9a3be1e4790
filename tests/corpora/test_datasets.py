"""The catalog of data sets: its entries, and where the data is stored."""

from __future__ import annotations

from dataclasses import replace
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


LINES = {
    "train": 29_000,
    "val": 1_014,
    "test_2016_flickr": 1_000,
    "test_2017_flickr": 1_000,
    "test_2017_mscoco": 461,
    "test_2018_flickr": 1_071,
}


def test_multi30k_has_the_published_numbers_of_lines():
    lines = {file.name: file.lines for file in DATASETS["multi30k"].files}
    assert lines == {f"{split}.{language}": count for split, count in LINES.items() for language in ("de", "en", "fr")}


def test_every_archive_of_a_mirror_has_known_files():
    """Names that no file has would keep an archive from being used."""
    for dataset in DATASETS.values():
        for mirror in dataset.mirrors:
            assert mirror.contents.keys() <= set(mirror.addresses)
            assert {name for names in mirror.contents.values() for name in names} <= {
                file.name for file in dataset.files
            }


def selected(*options: list[str] | None) -> dict[str, set[str]]:
    """For each split, the languages of the selected files."""
    found: dict[str, set[str]] = {}
    for file in DATASETS["multi30k"].select(*options).files:
        found.setdefault(file.name.rpartition(".")[0], set()).add(file.language)
    return found


def test_the_default_selection_is_that_of_0_5():
    assert selected() == {key: {"de", "en"} for key in ["train", "val", "test_2016_flickr"]}
    assert DATASETS["multi30k"].select().command == "regard data get multi30k"


@pytest.mark.parametrize(
    ("languages", "tests", "splits", "options"),
    [
        (["fr", "de", "en"], None, ["test_2016_flickr"], " --languages de,en,fr"),
        (["fr", "en"], ["2018_flickr"], ["test_2018_flickr"], " --languages en,fr --tests 2018_flickr"),
        (["fr"], None, ["test_2016_flickr"], " --languages fr"),
        (["en", "de"], ["2016_flickr"], ["test_2016_flickr"], ""),  # the default
        (
            None,
            ["2017_mscoco", "2016_flickr"],
            ["test_2016_flickr", "test_2017_mscoco"],
            " --tests 2016_flickr,2017_mscoco",
        ),
    ],
)
def test_languages_and_test_sets_are_selected(
    languages: list[str] | None, tests: list[str] | None, splits: list[str], options: str
):
    assert selected(languages, tests) == {key: set(languages or ["de", "en"]) for key in ["train", "val", *splits]}
    assert DATASETS["multi30k"].select(languages, tests).command == f"regard data get multi30k{options}"


@pytest.mark.parametrize(
    ("languages", "tests", "message"),
    [
        (["de", "it"], None, "--languages de,it: multi30k has no language 'it'; choices: de, en, fr"),
        ([""], None, "--languages : multi30k has no language ''; choices: de, en, fr"),
        (["de", "en", "de"], None, "--languages de,en,de: 'de' is listed twice"),
        (
            None,
            ["2018_flicker"],
            "--tests 2018_flicker: multi30k has no test set '2018_flicker'; did you mean '2018_flickr'? choices: "
            "2016_flickr, 2017_flickr, 2017_mscoco, 2018_flickr",
        ),
        (None, ["2018_flickr", "2018_flickr"], "--tests 2018_flickr,2018_flickr: '2018_flickr' is listed twice"),
    ],
)
def test_an_impossible_selection_is_refused(languages: list[str] | None, tests: list[str] | None, message: str):
    with pytest.raises(UserError) as error:
        DATASETS["multi30k"].select(languages, tests)
    assert str(error.value) == message


def test_a_data_set_without_optional_parts_is_selected_as_a_whole():
    assert SMALL.select() == SMALL


def test_the_folder_of_a_complete_data_set(root: Path):
    (root / "small").mkdir()
    (root / "small" / "a.txt").write_bytes(TEXT)
    assert datasets.dataset_folder(SMALL) == root / "small"


def test_only_the_files_that_are_needed_must_exist(root: Path):
    both = replace(SMALL, files=(*SMALL.files, replace(SMALL.files[0], name="test_x.txt")), options=("--tests", "x"))
    (root / "small").mkdir()
    (root / "small" / "a.txt").write_bytes(TEXT)
    assert datasets.dataset_folder(both, ["a.txt"]) == root / "small"
    with pytest.raises(UserError, match=r"small: test_x\.txt missing .* run 'regard data get small --tests x' or"):
        datasets.dataset_folder(both)


@pytest.mark.parametrize("content", [None, TEXT[:-1], TEXT + b"x"])
def test_an_incomplete_data_set_is_an_error_that_names_both_ways_to_get_it(root: Path, content: bytes | None):
    (root / "small").mkdir()
    if content is not None:
        (root / "small" / "a.txt").write_bytes(content)
    with pytest.raises(UserError) as error:
        datasets.dataset_folder(SMALL)
    assert str(error.value) == (
        f"small: a.txt missing or incomplete in {root / 'small'}; run 'regard data get small' or, if you have the "
        "files, 'regard data get small --from FOLDER'; REGARD_DATA sets the folder for data sets"
    )


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(UserError, match=r"there is no data set 'multi30'; did you mean 'multi30k'\? choices: multi30k"):
        datasets.find_dataset("multi30")


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
    assert datasets.dataset_folder(SMALL) == home / old / "small"
    (home / "caches" / "regard" / "small").mkdir(parents=True)
    assert datasets.dataset_path("small") == home / "caches" / "regard" / "small"
    monkeypatch.setenv("REGARD_DATA", str(home / "elsewhere"))
    assert datasets.dataset_path("small") == home / "elsewhere" / "small"
