"""The data sets that Regard can download, and the folder where they are stored. Regard itself contains none of them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from regard.errors import UserError, suggest


@dataclass(frozen=True)
class DataFile:
    """A plain text file of a data set.

    Args:
        name: Its file name.
        lines: Its number of lines.
        size: Its size in bytes; nothing beyond is ever read, whatever a mirror sends.
        sha256: Its checksum.
        other_names: Its names in older copies.
    """

    name: str
    lines: int
    size: int
    sha256: str
    other_names: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All names that the file may have."""
        return (self.name, *self.other_names)


@dataclass(frozen=True)
class Mirror:
    """A mirror of a data set.

    Args:
        addresses: URLs that together have all files: plain, as .gz, or in archives.
    """

    addresses: tuple[str, ...]


@dataclass(frozen=True)
class DatasetSpec:
    """A data set that can be downloaded.

    Args:
        name: Its name in commands and settings.
        description: One line on its content.
        terms: Its terms of use.
        files: Its files, unpacked.
        mirrors: Where to download it from, in the order in which they are tried.
    """

    name: str
    description: str
    terms: str
    files: tuple[DataFile, ...]
    mirrors: tuple[Mirror, ...]


def find_dataset(name: str) -> DatasetSpec:
    """The data set of this name.

    Args:
        name: A key of `DATASETS`.

    Raises:
        UserError: If there is none.
    """
    if name not in DATASETS:
        raise UserError(f"there is no data set '{name}'; {suggest(name, DATASETS)}")
    return DATASETS[name]


def dataset_folder(name: str) -> Path:
    """The folder of a data set that has been downloaded. Checks names and sizes; `data get` checked the content.

    Args:
        name: The name of the data set.

    Raises:
        UserError: If a file is missing.
    """
    dataset = find_dataset(name)
    path = dataset_path(name)
    if not all(_has_size(path / file.name, file.size) for file in dataset.files):
        raise UserError(
            f"{name} has not been downloaded to {path}; run 'regard data get {name}' or, if you have the files, "
            f"'regard data get {name} --from FOLDER'; REGARD_DATA sets the folder for data sets"
        )
    return path


def dataset_path(name: str) -> Path:
    """The folder for a data set, which may not exist yet.

    Args:
        name: The name of the data set.
    """
    paths = [folder / name for folder in (data_folder(), *_older_data_folders())]
    return next((path for path in paths if path.is_dir()), paths[0])


def data_folder() -> Path:
    """The folder for all data sets: REGARD_DATA if it is set, else the user's cache folder."""
    if chosen := os.environ.get("REGARD_DATA"):
        return Path(os.path.expanduser(chosen))  # Path.expanduser raises if there is no such user
    return platformdirs.user_cache_path("regard", appauthor=False, opinion=False)


def _older_data_folders() -> tuple[Path, ...]:
    """Where 0.5 kept data sets on macOS and Windows, unless an environment variable is set."""
    if os.environ.get("REGARD_DATA"):
        return ()
    home = Path(os.path.expanduser("~"))
    local = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    return (home / "Library" / "Caches" / "regard", local / "regard")


def _has_size(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
MULTI30K_COPY = "https://raw.githubusercontent.com/neychev/small_DL_repo/master/datasets/Multi30k"

DATASETS: dict[str, DatasetSpec] = {
    "multi30k": DatasetSpec(
        name="multi30k",
        description="Captions of photographs in German and English: Multi30k, task 1, raw text",
        terms="those of Flickr30k: for research and education, not for commerce (https://github.com/multi30k/dataset)",
        files=(
            DataFile(
                name="train.de",
                lines=29_000,
                size=2_110_398,
                sha256="2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
            ),
            DataFile(
                name="train.en",
                lines=29_000,
                size=1_801_238,
                sha256="460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
            ),
            DataFile(
                name="val.de",
                lines=1_014,
                size=75_981,
                sha256="660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
            ),
            DataFile(
                name="val.en",
                lines=1_014,
                size=63_297,
                sha256="1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
            ),
            DataFile(
                name="test_2016_flickr.de",
                lines=1_000,
                size=70_649,
                sha256="4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
                other_names=("test2016.de", "test.de"),
            ),
            DataFile(
                name="test_2016_flickr.en",
                lines=1_000,
                size=62_076,
                sha256="399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
                other_names=("test2016.en", "test.en"),
            ),
        ),
        mirrors=(
            Mirror(
                (
                    f"{MULTI30K}/train.de.gz",
                    f"{MULTI30K}/train.en.gz",
                    f"{MULTI30K}/val.de.gz",
                    f"{MULTI30K}/val.en.gz",
                    f"{MULTI30K}/test_2016_flickr.de.gz",
                    f"{MULTI30K}/test_2016_flickr.en.gz",
                )
            ),
            Mirror(
                (
                    f"{MULTI30K_COPY}/training.tar.gz",
                    f"{MULTI30K_COPY}/validation.tar.gz",
                    f"{MULTI30K_COPY}/mmt16_task1_test.tar.gz",
                )
            ),
        ),
    ),
}
