"""Parallel text from files: names of files, pairs, and errors for missing files."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from regard.config import loading
from regard.corpora import datasets
from regard.errors import UserError
from regard.tasks import Pair
from regard.tasks.files import FilesDataset, FilesSection, FilesTask
from regard.tasks.parallel import Multi30kDataset, Multi30kSection, Multi30kTask

TEXTS = [("Ein Hund.", "A dog."), ("Zwei Katzen.", "Two cats.")]
PAIRS = [Pair(*texts) for texts in TEXTS]


def write(path: Path, content: str) -> None:
    data = content.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def lines(texts: list[str]) -> str:
    return "".join(f"{text}\n" for text in texts)


def write_two(folder: Path, split: str, suffix: str = "", texts: list[tuple[str, str]] = TEXTS) -> str:
    for language, side in zip(("de", "en"), zip(*texts, strict=True), strict=True):
        write(folder / f"{split}.{language}{suffix}", lines(list(side)))
    return str(folder / split)


def write_table(folder: Path, split: str, suffix: str = ".tsv", texts: list[tuple[str, str]] = TEXTS) -> str:
    write(folder / f"{split}{suffix}", lines(["\t".join(pair) for pair in texts]))
    return str(folder / f"{split}{suffix}")


KINDS: dict[str, Callable[[Path, str], str]] = {
    "two files": write_two,
    "two .gz files": lambda folder, split: write_two(folder, split, ".gz"),
    ".tsv": write_table,
    ".tsv.gz": lambda folder, split: write_table(folder, split, ".tsv.gz"),
}


def task_of(folder: Path, kind: str = "two files", **settings: Any) -> FilesTask:
    names = {split: KINDS[kind](folder, split) for split in ("train", "validation")}
    return FilesTask(FilesSection.model_validate(names | settings))


# --- User files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_are_read_from_every_kind_of_file(tmp_path: Path, kind: str):
    splits = task_of(tmp_path, kind, test=KINDS[kind](tmp_path, "test")).dataset.splits()
    assert {split: list(pairs) for split, pairs in splits.items()} == dict.fromkeys(
        ("train", "validation", "test"), PAIRS
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_split_can_be_iterated_twice_and_concurrently(tmp_path: Path, kind: str):
    train = task_of(tmp_path, kind).dataset.splits()["train"]
    assert list(train) == list(train) == PAIRS
    assert list(zip(train, train, strict=True)) == [(pair, pair) for pair in PAIRS]


def test_only_one_side_may_be_compressed(tmp_path: Path):
    task = task_of(tmp_path)
    write(tmp_path / "train.de.gz", lines([source for source, _ in TEXTS]))
    (tmp_path / "train.de").unlink()
    assert list(task.dataset.splits()["train"]) == PAIRS


def test_the_languages_complete_the_names_of_the_files(tmp_path: Path):
    swapped = task_of(tmp_path, source="en", target="de")
    assert list(swapped.dataset.splits()["train"]) == [Pair(pair.target, pair.source) for pair in PAIRS]


def test_lines_are_read_lazily_one_by_one(tmp_path: Path):
    task = task_of(tmp_path)
    write(tmp_path / "train.en", "A dog.\n\n")
    pairs = iter(task.dataset.splits()["train"])
    assert next(pairs) == PAIRS[0]
    with pytest.raises(UserError, match=r"train\.en, line 2: the target text is empty"):
        next(pairs)
    del pairs


def test_files_may_change_between_two_readings(tmp_path: Path):
    """Nothing is cached: the second time, the files are read again."""
    train = task_of(tmp_path).dataset.splits()["train"]
    assert len(list(train)) == 2
    write_two(tmp_path, "train", texts=[*TEXTS, ("Drei.", "Three.")])
    assert len(list(train)) == 3


BAD = [("Ein Hund.", "A dog."), ("", "Nothing."), ("Lang.", "x" * 10_001), ("Zwei Katzen.", "Two cats.")]


def test_invalid_pairs_are_refused_or_skipped(tmp_path: Path):
    task = task_of(tmp_path)
    write_two(tmp_path, "train", texts=BAD)
    with pytest.raises(UserError, match=r"train\.de, line 2: the source text is empty"):
        list(task.dataset.splits()["train"])
    assert list(FilesDataset(task.section.model_copy(update={"skip": True})).splits()["train"]) == PAIRS


def write_shards(folder: Path, split: str, kind: str = "two files") -> str:
    """Two shards, a pair in each; the setting that names them."""
    for number, pair in enumerate(TEXTS):
        if kind == "two files":
            write_two(folder, f"{split}.{number}", ".gz" * number, [pair])
        else:
            write_table(folder, f"{split}.{number}", texts=[pair])
    return str(folder / (f"{split}.*" if kind == "two files" else f"{split}.*.tsv"))


@pytest.mark.parametrize("kind", ["two files", ".tsv"])
@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_a_split_may_be_in_shards(tmp_path: Path, split: Any, kind: str):
    settings = {"test": write_two(tmp_path, "test"), split: write_shards(tmp_path, split, kind)}
    task = task_of(tmp_path, **settings)
    assert list(task.dataset.pairs(split)) == list(task.dataset.splits()[split]) == PAIRS
    assert task.missing_files() == {}


def test_a_missing_shard_is_reported_before_training(tmp_path: Path):
    task = task_of(tmp_path, train=write_shards(tmp_path, "train"))
    (tmp_path / "train.0.en").unlink()
    missing = tmp_path / "train.0.en"
    expected = f"data.train: {tmp_path}/train.0.de: there is no {missing}, nor {missing}.gz, for this shard"
    assert task.missing_files() == {"train": expected}
    for file in tmp_path.glob("train.*"):
        file.unlink()
    pattern = tmp_path / "train.*.de"
    assert task.missing_files() == {"train": f"data.train: there is no {pattern}, nor {pattern}.gz"}
    with pytest.raises(UserError, match=r"^data\.train: there is no "):
        task.dataset.splits()


def test_invalid_pairs_of_shards_are_skipped(tmp_path: Path):
    task = task_of(tmp_path, train=write_shards(tmp_path, "train"), skip=True)
    write_two(tmp_path, "train.2", texts=BAD[1:3])
    assert list(task.dataset.splits()["train"]) == PAIRS
    refusing = FilesDataset(task.section.model_copy(update={"skip": False}))
    with pytest.raises(UserError, match=r"train\.2\.de, line 1: the source text is empty"):
        list(refusing.splits()["train"])


def test_new_shards_are_read_the_next_time(tmp_path: Path):
    train = task_of(tmp_path, train=write_shards(tmp_path, "train")).dataset.splits()["train"]
    assert len(list(train)) == 2
    write_two(tmp_path, "train.2")
    assert len(list(train)) == 4


@pytest.mark.parametrize("split", ["validation", "test"])
def test_no_pair_is_skipped_in_validation_and_test(tmp_path: Path, split: str):
    task = task_of(tmp_path, test=write_two(tmp_path, "test"), skip=True)
    write_two(tmp_path, split, texts=BAD)
    with pytest.raises(UserError, match=rf"{split}\.de, line 2: the source text is empty"):
        list(task.dataset.splits()[split])  # type: ignore[index]


@pytest.mark.parametrize(("split", "language"), [("train", "de"), ("train", "en"), ("validation", "en")])
def test_a_missing_file_is_reported_with_the_accepted_names(tmp_path: Path, split: str, language: str):
    task = task_of(tmp_path)
    missing = tmp_path / f"{split}.{language}"
    missing.unlink()
    message = (
        f"data.{split}: there is no {missing}, nor {missing}.gz; give the beginning of two files' names, which "
        "data.source (de) and data.target (en) complete, or a .tsv file"
    )
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        task.dataset.splits()


def test_a_missing_test_set_is_reported_before_training(tmp_path: Path):
    with pytest.raises(UserError, match=r"data\.test: there is no .*/test\.de"):
        task_of(tmp_path, test=str(tmp_path / "test")).dataset.splits()


def test_a_missing_test_table_is_reported_before_training(tmp_path: Path):
    with pytest.raises(UserError, match=r"test\.tsv"):
        task_of(tmp_path, test=str(tmp_path / "test.tsv")).dataset.splits()


@pytest.mark.parametrize("suffix", [".tsv", ".tsv.gz"])
def test_a_missing_table_is_reported(tmp_path: Path, suffix: str):
    task = FilesTask(FilesSection(train=str(tmp_path / f"none{suffix}"), validation="validation.tsv"))
    with pytest.raises(UserError, match=rf"none{suffix}"):
        list(task.dataset.splits()["train"])


def test_a_task_without_a_test_set_has_no_test_split(tmp_path: Path):
    task = task_of(tmp_path)
    assert not task.has_real_test
    assert task.dataset.splits().keys() == {"train", "validation"}
    with pytest.raises(UserError, match=r"data\.test: this experiment has no files for the test split"):
        task.dataset.pairs("test")


def test_a_task_with_a_test_set_has_a_final_evaluation(tmp_path: Path):
    task = task_of(tmp_path, test=write_two(tmp_path, "test"))
    assert task.has_real_test
    assert list(task.dataset.pairs("test")) == PAIRS


@pytest.mark.parametrize("joint", [False, True])
def test_sides_share_their_tokens_as_configured(tmp_path: Path, joint: bool):
    assert task_of(tmp_path, text={"joint": joint}).has_joint_vocabulary == joint


@pytest.mark.parametrize("key", ["source", "target"])
@pytest.mark.parametrize("language", ["", "../de", "d e", "de\n", "de/x"])
def test_a_language_that_is_no_file_suffix_is_refused(key: str, language: str):
    with pytest.raises(ValueError, match=key):
        FilesSection.model_validate({"train": "train", "validation": "validation", key: language})


@pytest.mark.parametrize("key", ["train", "validation", "test"])
def test_an_empty_file_name_is_refused(key: str):
    with pytest.raises(ValueError, match=key):
        FilesSection.model_validate({"train": "a", "validation": "b", key: ""})


# --- Multi30k --------------------------------------------------------------------------------------------


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture
def multi30k(data_folder: Path) -> Path:
    """Files of the right names and sizes."""
    folder = data_folder / "multi30k"
    folder.mkdir()
    for file in datasets.find_dataset("multi30k").files:
        first = f"This is {file.name}\n"
        (folder / file.name).write_text(first + "x" * (file.size - len(first)))
    return folder


def test_without_the_data_both_ways_to_get_it_are_reported(data_folder: Path):
    task = Multi30kTask(Multi30kSection())
    for call in (task.dataset.splits, lambda: task.dataset.pairs("test")):
        with pytest.raises(UserError) as error:
            call()
        assert f".en missing or incomplete in {data_folder / 'multi30k'}" in str(error.value)
        assert "'regard data get multi30k'" in str(error.value)
        assert "'regard data get multi30k --from FOLDER'" in str(error.value)
        assert "REGARD_DATA" in str(error.value)


@pytest.mark.parametrize("name", [file.name for file in datasets.find_dataset("multi30k").select().files])
@pytest.mark.parametrize("change", [-1, 1])
def test_a_file_of_another_size_is_refused(multi30k: Path, name: str, change: int):
    path = multi30k / name
    path.write_bytes(b"x" * (path.stat().st_size + change))
    with pytest.raises(UserError, match=f"multi30k: {name} missing or incomplete in "):
        Multi30kDataset(Multi30kSection()).splits()


@pytest.mark.parametrize(("source", "target"), list(permutations(("de", "en", "fr"), 2)))
@pytest.mark.parametrize(("split", "name"), [("train", "train"), ("validation", "val"), ("test", "test_2016_flickr")])
def test_each_split_is_read_from_its_files(multi30k: Path, split: Any, name: str, source: Any, target: Any):
    task = Multi30kTask(Multi30kSection(source=source, target=target))
    assert task.dataset.splits().keys() == {"train", "validation", "test"}
    assert task.has_real_test
    first = next(iter(task.dataset.splits()[split]))
    assert first == Pair(f"This is {name}.{source}", f"This is {name}.{target}")


@pytest.mark.parametrize("name", ["2016_flickr", "2017_flickr", "2017_mscoco", "2018_flickr"])
def test_the_test_set_is_a_setting(multi30k: Path, name: Any):
    dataset = Multi30kDataset(Multi30kSection(source="fr", target="de", test=name))
    assert next(iter(dataset.pairs("test"))) == Pair(f"This is test_{name}.fr", f"This is test_{name}.de")
    assert next(iter(dataset.splits()["train"])) == Pair("This is train.fr", "This is train.de")


@pytest.mark.parametrize(
    ("settings", "split", "missing", "options"),
    [
        ({"source": "fr"}, "train", "train.fr", " --languages en,fr"),
        ({"target": "fr", "test": "2018_flickr"}, "validation", "val.fr", " --languages de,fr --tests 2018_flickr"),
        ({"test": "2018_flickr"}, "test", "test_2018_flickr.de, test_2018_flickr.en", " --tests 2018_flickr"),
    ],
)
def test_a_missing_language_or_test_set_is_reported_with_the_command(
    multi30k: Path, settings: dict[str, Any], split: Any, missing: str, options: str
):
    default = {file.name for file in datasets.find_dataset("multi30k").select().files}
    for path in multi30k.iterdir():
        if path.name not in default:
            path.unlink()
    with pytest.raises(UserError) as error:
        Multi30kDataset(Multi30kSection(**settings)).pairs(split)
    command = f"regard data get multi30k{options}"
    assert str(error.value) == (
        f"multi30k: {missing} missing or incomplete in {multi30k}; run '{command}' or, if you have the files, "
        f"'{command} --from FOLDER'; REGARD_DATA sets the folder for data sets"
    )


def test_only_the_files_of_the_split_are_needed(multi30k: Path):
    for path in multi30k.glob("[!t]*"):
        path.unlink()
    dataset = Multi30kDataset(Multi30kSection())
    assert next(iter(dataset.pairs("test"))).source == "This is test_2016_flickr.de"
    with pytest.raises(UserError, match=r"val\.de, val\.en missing"):
        dataset.splits()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("data.source=it", r"data\.source: 'it' is not a valid choice"),
        ("data.test=2019_flickr", r"data\.test: '2019_flickr' is not a valid choice; did you mean '201"),
        ("data.test=2018", r"data\.test: 2018 is not a valid choice; choices: .*, 2018_flickr$"),
    ],
)
def test_other_languages_and_test_sets_of_multi30k_are_refused(setting: str, message: str):
    with pytest.raises(UserError, match=message):
        loading.load_experiment("multi30k", [setting])


def test_texts_are_scored_by_bleu():
    assert FilesTask.metrics == Multi30kTask.metrics == ("bleu_lc", "bleu", "chrf", "exact_match")


@pytest.mark.parametrize(
    "recipe",
    [["multi30k", "data.source=en"], ["multi30k", "data.target=de"], ["multi30k", "data.source=fr", "data.target=fr"]],
)
def test_equal_source_and_target_languages_are_refused(recipe: list[str]):
    with pytest.raises(UserError, match=r"data\.target: '(de|en|fr)' is the source as well"):
        loading.load_experiment(recipe[0], recipe[1:])
