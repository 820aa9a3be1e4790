"""The data sets that Regard can download, and the folder where they are stored. Regard itself contains none of them."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
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

    @property
    def language(self) -> str:
        """The suffix of its name."""
        return self.name.rpartition(".")[2]

    @property
    def test_set(self) -> str | None:
        """`2018_flickr` for `test_2018_flickr.de`; None for the files of other splits."""
        split = self.name.rpartition(".")[0]
        return split.removeprefix("test_") if split.startswith("test_") else None


@dataclass(frozen=True)
class Mirror:
    """A mirror of a data set.

    Args:
        addresses: URLs of files: plain, as .gz, or in archives.
        contents: For the URL of an archive, the names of its files, so that it is not downloaded for others.
    """

    addresses: tuple[str, ...]
    contents: Mapping[str, Collection[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class DatasetSpec:
    """A data set that can be downloaded.

    Args:
        name: Its name in commands and settings.
        description: One line on its content.
        terms: Its terms of use.
        files: Its files, unpacked.
        mirrors: Where to download it from, in the order in which they are tried.
        languages: The languages that are downloaded by default; None means all.
        tests: The test sets that are downloaded by default; None means all.
        options: The options of `regard data get` that select these files, if they are a selection.
    """

    name: str
    description: str
    terms: str
    files: tuple[DataFile, ...]
    mirrors: tuple[Mirror, ...]
    languages: tuple[str, ...] | None = None
    tests: tuple[str, ...] | None = None
    options: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """The command that downloads these files."""
        return " ".join(["regard data get", self.name, *self.options])

    def select(self, languages: Sequence[str] | None = None, tests: Sequence[str] | None = None) -> DatasetSpec:
        """The data set with the files of some languages and test sets only.

        Args:
            languages: Suffixes of file names; None means the default.
            tests: Names of test sets; None means the default.

        Raises:
            UserError: If there is no such language or test set, or if one is listed twice.
        """
        known_languages = list(dict.fromkeys(file.language for file in self.files))
        known_tests = list(dict.fromkeys(file.test_set for file in self.files if file.test_set))
        chosen, language_option = _choose(
            self.name, "language", "--languages", languages, self.languages, known_languages
        )
        tested, test_option = _choose(self.name, "test set", "--tests", tests, self.tests, known_tests)
        files = [file for file in self.files if file.language in chosen and file.test_set in (None, *tested)]
        return replace(self, files=tuple(files), options=(*language_option, *test_option))


def _choose(
    dataset: str,
    noun: str,
    option: str,
    chosen: Sequence[str] | None,
    default: Sequence[str] | None,
    known: Sequence[str],
) -> tuple[Sequence[str], tuple[str, ...]]:
    """What is selected, and the option that selects it; without an option if it is the default."""
    default = known if default is None else default
    if chosen is None:
        return default, ()
    given = f"{option} {','.join(chosen)}"
    for name in chosen:
        if name not in known:
            raise UserError(f"{given}: {dataset} has no {noun} '{name}'; {suggest(name, known)}")
        if chosen.count(name) > 1:
            raise UserError(f"{given}: '{name}' is listed twice")
    ordered = [name for name in known if name in chosen]
    return ordered, () if ordered == list(default) else (option, ",".join(ordered))


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


def dataset_folder(dataset: DatasetSpec, names: Collection[str] | None = None) -> Path:
    """The folder of a data set that has been downloaded. Checks names and sizes; `data get` checked the content.

    Args:
        dataset: The data set, or a selection of its files.
        names: The files that are needed; None means all.

    Raises:
        UserError: If one of them is missing. The message has the command that downloads the data set.
    """
    path = dataset_path(dataset.name)
    needed = [file for file in dataset.files if names is None or file.name in names]
    missing = [file.name for file in needed if not _has_size(path / file.name, file.size)]
    if missing:
        raise UserError(
            f"{dataset.name}: {', '.join(missing)} missing or incomplete in {path}; run '{dataset.command}' or, if you "
            f"have the files, '{dataset.command} --from FOLDER'; REGARD_DATA sets the folder for data sets"
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
MULTI30K_COPY = "https://raw.githubusercontent.com/neychev/small_DL_repo/master/datasets/Multi30k"  # German and English
MULTI30K_FILES = (
    DataFile("train.de", 29_000, 2_110_398, "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72"),
    DataFile("train.en", 29_000, 1_801_238, "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6"),
    DataFile("train.fr", 29_000, 2_111_303, "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d"),
    DataFile("val.de", 1_014, 75_981, "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660"),
    DataFile("val.en", 1_014, 63_297, "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227"),
    DataFile("val.fr", 1_014, 73_924, "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc"),
    DataFile(
        "test_2016_flickr.de",
        1_000,
        70_649,
        "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
        ("test2016.de", "test.de"),
    ),
    DataFile(
        "test_2016_flickr.en",
        1_000,
        62_076,
        "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
        ("test2016.en", "test.en"),
    ),
    DataFile(
        "test_2016_flickr.fr",
        1_000,
        72_261,
        "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
        ("test2016.fr", "test.fr"),
    ),
    DataFile("test_2017_flickr.de", 1_000, 64_059, "c3078bc3b36808bf9d20eb2347ed6137016179ef59ec0d2b9b8ecc3fb2880081"),
    DataFile("test_2017_flickr.en", 1_000, 55_242, "ce1450ddc5ab0834502579d77a170849952e15a2938b34cc503bdc25ebb4fb98"),
    DataFile("test_2017_flickr.fr", 1_000, 65_691, "6f3764e31dac41e9455e612958bcfd4e877c5e15cd66df2c2b2be6d9bd83e5b6"),
    DataFile("test_2017_mscoco.de", 461, 29_906, "58277df3c75f92f7145a11b910b553d1cf82c439249d4dc237c899609eafac22"),
    DataFile("test_2017_mscoco.en", 461, 24_949, "43051fdfa86fd5395182e718a94ca67b1b227b9f7c79596ff0f6b813216981d2"),
    DataFile("test_2017_mscoco.fr", 461, 29_982, "39cde3f43f32b0a6bf29ce4917a46329ff32e53070c2fac87506695a740ae0a0"),
    DataFile("test_2018_flickr.de", 1_071, 80_893, "39fcc8b3331d76fb42d648d019c6898b0d5e58baac87bc2a0bb93f44ec8db207"),
    DataFile("test_2018_flickr.en", 1_071, 70_603, "4e585c2dd525911a6ea7730e9d0b516239af3f1b1ffae6a2130223cfb639f25e"),
    DataFile("test_2018_flickr.fr", 1_071, 84_076, "234b4a887da0da4801a3e2c6f21336231ff7dd46daeb80cfa1b551c8bbb78239"),
)
MULTI30K_ARCHIVES = {
    f"{MULTI30K_COPY}/training.tar.gz": ("train.de", "train.en"),
    f"{MULTI30K_COPY}/validation.tar.gz": ("val.de", "val.en"),
    f"{MULTI30K_COPY}/mmt16_task1_test.tar.gz": ("test_2016_flickr.de", "test_2016_flickr.en"),
}

DATASETS: dict[str, DatasetSpec] = {
    "multi30k": DatasetSpec(
        name="multi30k",
        description="Captions of photographs in German, English and French: Multi30k, task 1, raw text",
        terms="those of Flickr30k: for research and education, not for commerce (https://github.com/multi30k/dataset)",
        files=MULTI30K_FILES,
        mirrors=(
            Mirror(tuple(f"{MULTI30K}/{file.name}.gz" for file in MULTI30K_FILES)),
            Mirror(tuple(MULTI30K_ARCHIVES), MULTI30K_ARCHIVES),
        ),
        languages=("de", "en"),
        tests=("2016_flickr",),
    ),
}
