"""The data sets that Regard can get, and where on this computer they lie. Regard itself contains none of them."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from regard.errors import UserError, suggest


@dataclass(frozen=True)
class DataFile:
    """A plain text, as it has to be when it is here; how a source packs it does not matter."""

    name: str
    lines: int
    size: int  # in bytes: nothing beyond is ever read, whatever a source sends
    sha256: str
    also_called: tuple[str, ...] = ()  # in older copies

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.also_called)


@dataclass(frozen=True)
class Source:
    """Addresses that together have the files: plain, as .gz, or in archives."""

    addresses: tuple[str, ...]


@dataclass(frozen=True)
class DataSet:
    name: str
    description: str
    terms: str
    files: tuple[DataFile, ...]
    sources: tuple[Source, ...]  # in the order in which they are tried


def find_dataset(name: str) -> DataSet:
    if name not in DATASETS:
        raise UserError(f"no data set is called '{name}'; {suggest(name, DATASETS)}")
    return DATASETS[name]


def dataset_folder(name: str) -> Path:
    """Where the files of a data set are; only names and sizes are looked at, since `get` has checked the content."""
    dataset = find_dataset(name)
    path = place(name)
    if not all(_has_size(path / file.name, file.size) for file in dataset.files):
        raise UserError(
            f"{name} is not here yet (looked in {path}); get it with 'regard data get {name}', or, if you have it, "
            f"'regard data get {name} --from FOLDER'; REGARD_DATA says where data lies"
        )
    return path


def place(name: str) -> Path:
    """The folder of a data set, which need not be there."""
    return data_folder() / name


def data_folder() -> Path:
    """Where all data sets lie: REGARD_DATA if it is set, otherwise in the folder for what can be had again."""
    if chosen := os.environ.get("REGARD_DATA"):
        return Path(os.path.expanduser(chosen))  # Path's own raises if there is no such user
    return cache_folder() / "regard"


def cache_folder() -> Path:
    """The user's folder for files that programs can get again, by the custom of the operating system."""
    home = Path(os.path.expanduser("~"))
    if sys.platform == "darwin":
        return home / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")


def _has_size(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
MULTI30K_COPY = "https://raw.githubusercontent.com/neychev/small_DL_repo/master/datasets/Multi30k"

DATASETS = {
    "multi30k": DataSet(
        name="multi30k",
        description="Captions of pictures in German and English: Multi30k, task 1, as they were written",
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
                also_called=("test2016.de", "test.de"),
            ),
            DataFile(
                name="test_2016_flickr.en",
                lines=1_000,
                size=62_076,
                sha256="399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
                also_called=("test2016.en", "test.en"),
            ),
        ),
        sources=(
            Source(
                (
                    f"{MULTI30K}/train.de.gz",
                    f"{MULTI30K}/train.en.gz",
                    f"{MULTI30K}/val.de.gz",
                    f"{MULTI30K}/val.en.gz",
                    f"{MULTI30K}/test_2016_flickr.de.gz",
                    f"{MULTI30K}/test_2016_flickr.en.gz",
                )
            ),
            Source(
                (
                    f"{MULTI30K_COPY}/training.tar.gz",
                    f"{MULTI30K_COPY}/validation.tar.gz",
                    f"{MULTI30K_COPY}/mmt16_task1_test.tar.gz",
                )
            ),
        ),
    ),
}
