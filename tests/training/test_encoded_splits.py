"""Encoded splits: refused before anything is written, and identical when training resumes."""

from __future__ import annotations

import gc
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from regard.config import loading
from regard.config.schema import Experiment
from regard.data import Codec
from regard.errors import UserError
from regard.files import NEW
from regard.runs import Run
from regard.tasks import SPLITS, Pair, Split
from regard.training.callbacks import Callback, TrainingStopped
from regard.training.encoded_splits import ProgressIterator, encode_splits
from regard.training.train_run import train_run

EXPERIMENT = """\
data: {task: files, train: corpus/train, validation: corpus/validation, text: {size: 70}}
model:
  encoder: {cell: tanh, embedding: 8, size: 8}
  decoder: {cell: tanh, embedding: 8, size: 16}
  attention: {kind: dot}
  dropout: 0.1
training: {epochs: 2, batch_tokens: 4000, validate_every: 3, save_every: 1000}
"""
REGULARIZED = ("data.text.regularization={best: 8, alpha: 0.1}",)
WORDS = ("data.text.unit=words", "data.text.size=null")
Make = Callable[..., Experiment]


@pytest.fixture
def texts(corpus: Path, tmp_path: Path) -> Path:
    """A copy of the corpus that may be changed."""
    return Path(shutil.copytree(corpus, tmp_path / "corpus"))


@pytest.fixture
def small(texts: Path) -> Make:
    """A small experiment on these texts."""
    path = texts.parent / "small.yaml"
    path.write_text(EXPERIMENT)
    return lambda *overrides: loading.load_experiment(str(path), overrides)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


# --- A refused run leaves no file ------------------------------------------------------------------------


def empty_line(texts: Path, split: str) -> None:
    for language, text in (("de", "Ein Satz.\n"), ("en", "\n")):
        append(texts / f"{split}.{language}", text)


def lone_line(texts: Path, split: str) -> None:
    append(texts / f"{split}.de", "Ein Satz.\n")


def no_file(texts: Path, split: str) -> None:
    (texts / f"{split}.en").unlink()


@pytest.mark.parametrize("settings", [(), WORDS], ids=["subwords", "words"])
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (empty_line, r"{split}\.en, line \d+: the target text is empty"),
        (lone_line, r"{split}\.en ends after line \d+, this file after line \d+"),
        (no_file, r"data\.{split}: there is no .*{split}\.en"),
    ],
)
def test_invalid_texts_are_refused_and_no_file_is_left(
    small: Make,
    texts: Path,
    train_in: Any,
    tmp_path: Path,
    damage: Callable[[Path, str], None],
    message: str,
    split: str,
    settings: tuple[str, ...],
):
    damage(texts, split)
    before = names(tmp_path)
    with pytest.raises(UserError, match=message.format(split=split)):
        train_in(small(*settings, f"data.test={texts / 'test'}"))
    assert names(tmp_path) == before


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_too_few_positions_are_refused_and_no_file_is_left(small: Make, train_in: Any, tmp_path: Path, side: str):
    experiment = small(f"model.{side}.positions={{kind: learned, longest: 5}}")
    before = names(tmp_path)
    with pytest.raises(
        UserError, match=rf"model\.{side}\.positions\.longest: 5 positions are too few; the data has sequences of \d+"
    ):
        train_in(experiment)
    assert names(tmp_path) == before


@pytest.mark.parametrize("split", ["train", "validation"])
def test_positions_are_counted_in_both_splits(small: Make, texts: Path, train_in: Any, split: str):
    for language in ("de", "en"):
        append(texts / f"{split}.{language}", "der " * 60 + "\n")
    with pytest.raises(UserError, match=r"40 positions are too few; the data has sequences of 61 tokens"):
        train_in(small(*WORDS, "model.decoder.positions={kind: learned, longest: 40}"))


def test_the_parent_folder_is_not_left_either(small: Make, train_in: Any, tmp_path: Path):
    experiment = small("model.decoder.positions={kind: learned, longest: 5}")
    before = names(tmp_path)
    with pytest.raises(UserError, match="5 positions are too few"):
        train_in(experiment, name="runs/mine")
    assert names(tmp_path) == before


def test_checked_positions_suffice_for_every_sampled_segmentation(small: Make, train_in: Any):
    """A sampled segmentation may have more tokens."""
    too_few = small(*REGULARIZED, "model.encoder.positions={kind: learned, longest: 2}")
    with pytest.raises(UserError) as error:
        train_in(too_few)
    needed = int(re.findall(r"\d+", str(error.value))[1])
    train_in(small(*REGULARIZED, f"model.encoder.positions={{kind: learned, longest: {needed}}}"))


def test_a_closed_vocabulary_without_validation_tokens_is_reported(tmp_path: Path, dictionary: Path):
    """A closed vocabulary must contain every token."""
    codec = Codec.build(
        loading.load_experiment("g2p", [f"data.file={dictionary}"]).task.learn_tokenization([Pair("ask", "AA S K")]),
        [Pair("ask", "AA S K")],
    )
    pairs: dict[Split, Iterable[Pair]] = {"train": [Pair("ask", "AA S K")], "validation": [Pair("test", "T EH S T")]}
    with (
        pytest.raises(
            UserError, match=r"data\.train: the training split is too small: it lacks tokens of the validation split"
        ),
        encode_splits(codec, pairs, tmp_path),
    ):
        pytest.fail("this should have been refused")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("limit", [99, 100], ids=["generated while they are read", "in memory"])
@pytest.mark.parametrize("name", ["run", "runs/mine"])
def test_too_many_generated_pairs_are_refused_and_no_file_is_left(
    train_in: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, name: str
):
    monkeypatch.setattr("regard.tasks.generated.MAX_IN_MEMORY", limit)
    settings = ["data.alphabet=ab", "data.max_length=5", "data.train=100", "data.validation=2", "data.test=3"]
    with pytest.raises(UserError, match=r"data\.train: 100 pairs .* no new ones after \d+ in all splits; choose fewer"):
        train_in(loading.load_experiment("copy", settings), name=name)
    assert os.listdir(tmp_path) == []


def test_generated_pairs_give_the_same_examples_in_memory_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    task = loading.load_experiment("copy", ["data.train=300", "data.validation=20", "data.test=30"]).task
    digests = []
    for limit in (300, 299):
        monkeypatch.setattr("regard.tasks.generated.MAX_IN_MEMORY", limit)
        pairs = task.dataset.splits()
        codec = Codec.build(task.learn_tokenization(pairs["train"]), pairs["train"])
        with encode_splits(codec, pairs, tmp_path / "run") as encoded:
            digests.append(encoded.digests)
    assert digests[0] == digests[1]


def test_a_read_only_folder_is_reported(small: Make, train_in: Any, tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"file: cannot be written to: (File exists|Not a directory)"):
        train_in(small(*WORDS), name="file/run")


def test_encoded_texts_leave_no_file(small: Make, train_in: Any, tmp_path: Path):
    before = names(tmp_path)
    train_in(small(*WORDS), stop_after=1)
    new = {name.split("/")[0] for name in names(tmp_path) - before}
    assert new == {"run"}


@pytest.mark.parametrize("name", ["runs/first", "some/runs/first"])
def test_encoded_splits_are_closed_and_removed_after_use(small: Make, tmp_path: Path, name: str):
    experiment = small(*WORDS)
    pairs = experiment.task.dataset.splits()
    with encode_splits(
        Codec.build(experiment.task.learn_tokenization(pairs["train"]), pairs["train"]), pairs, tmp_path / name
    ) as encoded:
        [scratch] = (tmp_path / name).parent.iterdir()
        assert {file.name for file in (scratch / NEW).iterdir()} == set(pairs)
        assert {split: len(corpus) for split, corpus in encoded.splits.items()} == {
            split: len(list(examples)) for split, examples in pairs.items()
        }
        assert encoded.splits["train"][0] == encoded.codec.example(next(iter(pairs["train"])))
    assert not (tmp_path / name.split("/")[0]).exists()
    with pytest.raises(ValueError, match="closed"):
        encoded.splits["train"][0]


@pytest.mark.parametrize("overrides", [WORDS, ("data.text.joint=false",), REGULARIZED])
def test_the_longest_training_source_is_known(small: Make, train_in: Any, tmp_path: Path, overrides: tuple[str, ...]):
    train_in(small(*overrides), stop_after=1)
    codec = Run(tmp_path / "run").codec
    expected = max(len(codec.source(pair.source)) for pair in small().task.dataset.pairs("train"))
    assert codec.longest_source == expected > 5


@pytest.mark.parametrize(("overrides", "passes"), [(WORDS, 2), ((), 3), (("data.text.joint=false",), 4)])
def test_the_training_split_is_read_no_more_often_than_needed(
    small: Make, tmp_path: Path, overrides: tuple[str, ...], passes: int
):
    """To count words, or to learn subwords (to measure the texts, and to select some for each tokenizer); to encode."""
    read = []

    class Reads(Callback):
        def on_examples_read(self, split: Split, pairs: int) -> None:
            read.append(split)

        def should_stop(self) -> bool:
            return True

    train_run(small("data.text.joint=true", *overrides), tmp_path / "run", Reads())
    assert read.count("train") == passes


def test_shards_are_the_same_data_as_one_file(small: Make, texts: Path, tmp_path: Path):
    for language in ("de", "en"):
        lines = (texts / f"train.{language}").read_text().splitlines(keepends=True)
        (texts / f"part-1.{language}").write_text("".join(lines[:101]))
        (texts / f"part-2.{language}").write_text("".join(lines[101:]))
    digests = []
    for name in ("train", "part-*"):
        experiment = small(f"data.train={texts / name}")
        pairs = experiment.task.dataset.splits()
        codec = Codec.build(experiment.task.learn_tokenization(pairs["train"]), pairs["train"])
        with encode_splits(codec, pairs, tmp_path / "run") as encoded:
            digests.append(encoded.digests)
    assert digests[0] == digests[1]


def test_files_of_a_killed_process_are_removed(small: Make, tmp_path: Path):
    (tmp_path / "runs" / ".first.abcd1234" / NEW / "train").mkdir(parents=True)
    experiment = small(*WORDS)
    pairs = experiment.task.dataset.splits()
    codec = Codec.build(experiment.task.learn_tokenization(pairs["train"]), pairs["train"])
    with encode_splits(codec, pairs, tmp_path / "runs" / "first"):
        assert len(os.listdir(tmp_path / "runs")) == 1
    assert os.listdir(tmp_path / "runs") == []


# --- Progress while reading ------------------------------------------------------------------------------


class StoppingCallback(Callback):
    """Records reports, and stops at the report after a number of them."""

    def __init__(self, reports_before_stop: int) -> None:
        self.reports_before_stop = reports_before_stop
        self.reports: list[tuple[Split, int]] = []

    def on_examples_read(self, split: Split, pairs: int) -> None:
        self.reports.append((split, pairs))
        if len(self.reports) > self.reports_before_stop:
            raise TrainingStopped

    def on_train_begin(self, trainer: Any) -> None:
        pytest.fail("training began although it should have been stopped")


def test_progress_over_pairs_is_reported(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("regard.training.encoded_splits.REPORT_EVERY", 2)
    pairs = [Pair(str(number), "") for number in range(5)]
    callback = StoppingCallback(99)
    assert list(ProgressIterator(pairs, "train", callback)) == pairs
    assert callback.reports == [("train", 2), ("train", 4), ("train", 5)]
    assert list(ProgressIterator([], "validation", callback)) == []
    assert callback.reports[-1] == ("validation", 0)


def test_iteration_over_pairs_can_be_stopped(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("regard.training.encoded_splits.REPORT_EVERY", 2)
    with pytest.raises(TrainingStopped):
        list(ProgressIterator([Pair("a", "b")] * 5, "train", StoppingCallback(1)))


@pytest.mark.parametrize(
    "reports_before_stop",
    [
        0,  # while words are counted
        5,  # while ids are written
    ],
)
def test_stopping_while_reading_texts_leaves_no_file(
    small: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reports_before_stop: int
):
    monkeypatch.setattr("regard.training.encoded_splits.REPORT_EVERY", 100)
    experiment = small(*WORDS)
    before = names(tmp_path)
    callback = StoppingCallback(reports_before_stop)
    with pytest.raises(TrainingStopped):
        train_run(experiment, tmp_path / "run", callback)
    gc.collect()  # a file that was left open would be reported now
    assert len(callback.reports) == reports_before_stop + 1
    assert names(tmp_path) == before


@pytest.mark.parametrize(
    "reports_before_stop",
    [
        0,  # while they are counted
        6,  # while SentencePiece reads them
        11,  # while words are counted
    ],
)
def test_stopping_while_learning_subwords_leaves_no_file(
    small: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reports_before_stop: int
):
    monkeypatch.setattr("regard.training.encoded_splits.REPORT_EVERY", 100)
    experiment = small()
    before = names(tmp_path)
    with pytest.raises(TrainingStopped):
        train_run(experiment, tmp_path / "run", StoppingCallback(reports_before_stop))
    assert names(tmp_path) == before


def test_a_callback_gets_the_number_of_pairs_read(small: Make, train_in: Any):
    assert train_in(small(*WORDS), stop_after=1).read == {"train": 400, "validation": 20}


# --- Resuming --------------------------------------------------------------------------------------------


def change_word(texts: Path) -> None:
    path = texts / "train.de"
    first, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([f"Der {first}", *rest]))


def change_order(texts: Path) -> None:
    for language in ("de", "en"):
        path = texts / f"train.{language}"
        path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))


def add_pair(texts: Path) -> None:
    for language in ("de", "en"):
        append(texts / f"train.{language}", "Neu.\n")


@pytest.mark.parametrize("saved", [True, False])
@pytest.mark.parametrize("change", [change_word, change_order, add_pair])
def test_training_does_not_resume_with_changed_texts(
    small: Make, texts: Path, train_in: Any, tmp_path: Path, change: Callable[[Path], None], saved: bool
):
    experiment = small(*WORDS)
    train_in(experiment, stop_after=2)
    if not saved:
        (tmp_path / "run" / "state.safetensors").unlink()  # as if killed before
    before, saved_files = contents(texts), contents(tmp_path / "run")
    change(texts)
    message = "the training data has changed since this run was started; restore it, or choose another run directory"
    with pytest.raises(UserError, match=f"^{re.escape(str(tmp_path / 'run'))}: {message}"):
        train_in(experiment)
    assert contents(tmp_path / "run") == saved_files
    for name, content in before.items():
        (texts / name).write_bytes(content)
    assert train_in(experiment, stop_after=1).train_begins[0][0] == (2 if saved else 0)


def test_an_unfinished_run_of_an_older_version_is_refused(small: Make, train_in: Any, tmp_path: Path):
    train_in(small(*WORDS), stop_after=2)
    path = tmp_path / "run" / "run.json"
    path.write_text(json.dumps({"format": 1, "regard": "0.2.0", "torch": "2.13.0"}))
    with pytest.raises(UserError, match=r"started by an older version of Regard, .*; start again with another run dir"):
        train_in(small(*WORDS))


def test_a_finished_run_is_not_changed(small: Make, train_in: Any, tmp_path: Path):
    experiment = small(*WORDS, "training.epochs=1")
    assert train_in(experiment).progress.finished
    saved_files = contents(tmp_path / "run")
    assert train_in(experiment).losses == []
    assert contents(tmp_path / "run") == saved_files


@pytest.mark.slow
@pytest.mark.parametrize("settings", [REGULARIZED, (*REGULARIZED, "data.text.joint=false"), WORDS])
def test_training_on_files_resumes_bit_identically(
    small: Make, train_in: Any, tmp_path: Path, read_tensors: Any, read_rows: Any, settings: tuple[str, ...]
):
    experiment = small(*settings, "training.epochs=1", "training.batch_tokens=2000")
    whole = train_in(experiment, name="whole")
    assert whole.progress.step > 3
    for steps in (1, 2):
        assert not train_in(experiment, stop_after=steps, name="parts").progress.finished
    parts = train_in(experiment, name="parts")
    assert parts.progress.finished
    assert whole.losses[3:] == parts.losses != []
    assert read_rows(tmp_path / "whole") == read_rows(tmp_path / "parts")
    for name in ("model.safetensors", "state.safetensors"):
        (mine, about), (theirs, about_theirs) = (read_tensors(tmp_path / run / name) for run in ("whole", "parts"))
        assert about == about_theirs
        assert mine.keys() == theirs.keys()
        assert all(mine[key].equal(theirs[key]) for key in mine)
    assert names(tmp_path / "whole") == names(tmp_path / "parts")


def test_sampled_segmentations_change_the_training(small: Make, train_in: Any):
    plain, varied = (
        train_in(small(*settings), stop_after=2, name=name) for settings, name in (((), "a"), (REGULARIZED, "b"))
    )
    assert plain.losses != varied.losses


def test_a_resumed_run_keeps_its_learned_vocabulary(small: Make, train_in: Any, tmp_path: Path):
    train_in(small(*WORDS), stop_after=1)
    vocabulary = Run(tmp_path / "run").codec.source_vocabulary
    train_in(small(*WORDS), stop_after=1)
    assert Run(tmp_path / "run").codec.source_vocabulary == vocabulary
