"""From files to translations by commands: user text, subwords, scores and errors."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.config import loading
from regard.errors import UserError
from regard.evaluation.data_files import check_data_files
from regard.reports import examples
from regard.runs import Run
from regard.training.progress_display import LineProgress
from regard.training.trainer import Trainer

pytestmark = pytest.mark.slow

Regard = Callable[..., Any]
MINE = """\
description: My own text.
data:
  task: files
  train: corpus/train
  validation: corpus/validation
  test: corpus/test
  source: de
  target: en
  text: {size: 90}
model:
  encoder: {embedding: 16, size: 16}
  decoder: {embedding: 16, size: 32, readout: tied}
  share_embeddings: true
training: {epochs: 1, batch_tokens: 2000, validate_every: 4, rate: {peak: 0.01}}
decoding: {length_factor: 0, length_extra: 12}
"""


@pytest.fixture
def folder(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with my.yaml and corpus/, which is the working directory."""
    shutil.copytree(corpus, tmp_path / "corpus")
    (tmp_path / "my.yaml").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(examples, "_attention_picture", lambda shown: b"a picture")  # which is slow
    return tmp_path


def succeeded(answer: Any) -> Any:
    assert answer.code == 0, answer.err
    assert "Traceback" not in answer.err
    return answer


def refused(answer: Any, *parts: str) -> None:
    """Assert exit code 2, only `regard: …` on stderr after the progress of reading, and no run."""
    assert answer.code == 2, answer
    assert answer.out == ""
    assert all(
        line.startswith("regard: ")
        for line in answer.err.splitlines()
        if not line.startswith(("reading", "training the tokenizer"))
    )
    for part in parts:
        assert part in answer.err
    assert not Path("runs/my").exists()


def test_user_text_is_learned_scored_and_translated(regard: Regard, folder: Path, monkeypatch: pytest.MonkeyPatch):
    answer = succeeded(regard("train", "my.yaml"))
    assert answer.out.startswith("runs/my: done (all epochs done)")
    assert "BLEU" in answer.out
    assert "runs/my/examples/index.html: attention maps of example sentences" in answer.out
    page = Path("runs/my/examples/index.html").read_text(encoding="utf-8")
    examples = re.findall(r"sentence \d+, .*\n    source     (.+)\n    reference  (.+)\n    output     ", answer.out)
    assert 2 <= len(examples) <= 7
    assert all(text in page for pair in examples for text in pair), "the console shows some of the page's sentences"
    assert {"scores.json", "examples", "subwords.model"} <= {path.name for path in Path("runs/my").iterdir()}

    again = succeeded(regard("train", "my.yaml"))
    assert "done (all epochs done)" in again.out
    assert "BLEU" not in again.out, "scored once"

    monkeypatch.chdir(folder / "corpus")  # from another working directory
    answer = succeeded(regard("evaluate", "../runs/my", "--beam", "1,5", "--json"))
    rows = [json.loads(line) for line in answer.out.splitlines()]
    assert [row["beam"] for row in rows] == [1, 5]
    expected = "bleu bleu_lc bleu_signature chrf chrf_signature perplexity loss exact_match sentences_per_second"
    for row, kept in zip(rows, json.loads((folder / "runs/my/scores.json").read_text()), strict=True):
        assert set(expected.split()) <= row.keys()
        assert row["sentences"] == 30
        assert row["bleu"] == kept["bleu"]
        assert row["chrf"] == kept["chrf"]

    for path in (folder / "corpus").glob("train.*"):
        path.unlink()
    assert json.loads(succeeded(regard("evaluate", "../runs/my", "--json")).out)["bleu"] == rows[0]["bleu"]
    for path in (folder / "corpus").glob("test.*"):
        path.unlink()
    assert "done (all epochs done)" in succeeded(regard("train", "../my.yaml", "--out", "../runs/my")).out

    answer = succeeded(regard("translate", "../runs/my", "Der Hund 🐕 schläft.", "--json"))
    translation = json.loads(answer.out)
    assert "🐕" in "".join(translation["source_tokens"])
    assert "<unknown>" not in translation["text"]
    lines = succeeded(regard("translate", "../runs/my", stdin="Der Hund.\n\n漢字\n".encode())).out.splitlines()
    assert len(lines) == 3
    assert lines[1] == ""


def test_a_run_finds_its_texts_at_a_new_place(regard: Regard, folder: Path):
    succeeded(regard("train", "my.yaml", "--set", "data.test=null"))
    score = json.loads(succeeded(regard("evaluate", "runs/my", "--split", "validation", "--json")).out)
    (folder / "corpus").rename(folder / "new place")

    moved = regard("evaluate", "runs/my", "--split", "validation")
    assert moved.code == 2
    missing, hint = moved.err.splitlines()
    assert missing.startswith(f"regard: runs/my: data.validation: there is no {folder}/corpus/validation.de, nor ")
    line = "regard evaluate runs/my --set data.validation=NEW/PLACE/validation"
    assert hint == f"regard: if the files have moved, give their new place: {line}"
    there = line.replace("NEW/PLACE", "new place").split(" ", 4)[1:]
    answer = succeeded(regard(*there, "--split", "validation", "--json"))
    assert json.loads(answer.out)["bleu"] == score["bleu"]
    assert "has changed" not in answer.err, "the texts are the same"

    for name in ("train", "test"):
        options = () if name == "train" else ("--set", "data.train=new place/train", "--set", "data.test=corpus/test")
        answer = regard("probe", "runs/my", *options)
        assert (answer.code, f"data.{name}: there is no " in answer.err) == (2, True), answer
    for command in ("align", "faithful", "gradients"):
        answer = regard(command, "runs/my", "--split", "train")
        assert f"place: regard {command} runs/my --set data.train=NEW/PLACE/train\n" in answer.err
    paths = ("--split", "train", "--set", "data.train=new place/train", "--limit", 2)
    assert succeeded(regard("faithful", "runs/my", *paths, "--json")).out

    text = Path("new place/validation.en").read_text(encoding="utf-8")
    Path("new place/validation.en").write_text("changed\n" + text.partition("\n")[2], encoding="utf-8")
    answer = succeeded(regard(*there, "--split", "validation"))
    assert "runs/my: the validation split has changed since training" in answer.err


def test_texts_may_have_moved_to_shards(folder: Path):
    experiment = loading.load_experiment("my.yaml")
    pairs = list(experiment.task.dataset.pairs("test"))
    for language in ("de", "en"):
        lines = (folder / f"corpus/test.{language}").read_text().splitlines(keepends=True)
        (folder / f"test.a.{language}").write_text("".join(lines[:7]))
        (folder / f"test.b.{language}.gz").write_bytes(gzip.compress("".join(lines[7:]).encode()))
    moved = loading.set_data_paths(experiment, ["data.test=test.*"])
    assert list(moved.task.dataset.pairs("test")) == pairs
    (folder / "test.a.en").unlink()
    with pytest.raises(UserError, match=r"^--set data\.test=test\.\*: data\.test: .*/test\.a\.de: there is no "):
        loading.set_data_paths(experiment, ["data.test=test.*"])
    with pytest.raises(UserError) as caught:
        check_data_files("align", Path("runs/my"), moved, ["test"])
    assert str(caught.value).endswith('new place: regard align runs/my --set "data.test=NEW/PLACE/test.*"')


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("data.test=nowhere/test", "regard: --set data.test=nowhere/test: data.test: there is no "),
        ("data.test=5", "regard: --set data.test=5: data.test: 5 is invalid"),
        ("data.source=en", "data.source: only the texts of a run can be changed; "),
        ("training.seed=2", "training.seed: only the texts of a run can be changed; choices: data.train, "),
        ("data.tset=x", "data.tset: only the texts of a run can be changed; did you mean 'data.test'?"),
        ("data={test: x}", "data: only the texts of a run can be changed; "),
        ("data.test", "--set data.test: this should be KEY=VALUE"),
    ],
)
def test_only_paths_of_texts_can_be_set_in_a_run(folder: Path, setting: str, message: str):
    experiment = loading.load_experiment("my.yaml")
    with pytest.raises(UserError) as caught:
        loading.set_data_paths(experiment, [setting])
    assert message in f"regard: {caught.value}"


def test_a_task_without_paths_has_none_to_set():
    message = r"data\.test: only the texts of a run can be changed; this run's data is generated$"
    with pytest.raises(UserError, match=message):
        loading.set_data_paths(loading.load_experiment("copy"), ["data.test=2018_flickr"])


def test_a_finished_training_whose_test_set_has_moved_is_not_scored(regard: Regard, folder: Path):
    succeeded(regard("train", "my.yaml"))
    Path("runs/my/scores.json").unlink()
    (folder / "corpus").rename(folder / "moved")
    answer = regard("train", "my.yaml")
    assert answer.code == 2
    assert "place: regard evaluate runs/my --set data.test=NEW/PLACE/test" in answer.err


def test_the_reverse_direction_needs_two_lines(regard: Regard, folder: Path):
    text = MINE.replace("source: de", "source: en").replace("target: en", "target: de")
    Path("back.yaml").write_text(text.replace("  test: corpus/test\n", ""))
    succeeded(regard("train", "back.yaml"))
    task = Run(Path("runs/back")).experiment.task
    first = next(iter(task.dataset.splits()["train"]))
    assert first.source == Path("corpus/train.en").read_text().split("\n")[0]
    assert first.target == Path("corpus/train.de").read_text().split("\n")[0]
    answer = regard("evaluate", "runs/back")
    assert answer.code == 2
    assert "data.test: this experiment has no files for the test split" in answer.err
    succeeded(regard("evaluate", "runs/back", "--split", "validation"))


def test_tables_are_read_like_pairs_of_files(regard: Regard, folder: Path):
    for split in ("train", "validation"):
        sides = [Path(f"corpus/{split}.{language}").read_text().splitlines() for language in ("de", "en")]
        rows = "".join(f"{source}\t{target}\n" for source, target in zip(*sides, strict=True))
        Path(f"{split}.tsv.gz").write_bytes(gzip.compress(rows.encode()))
    tables = ["--set", "data.train=train.tsv.gz", "--set", "data.validation=validation.tsv.gz"]
    for name, options in (("tables", tables), ("files", [])):
        succeeded(regard("train", "my.yaml", "--out", f"runs/{name}", *options, "--set", "data.test=null"))
    losses = [[row["validation_loss"] for row in Run(Path(f"runs/{name}")).metrics()] for name in ("tables", "files")]
    assert losses[0] == losses[1] != []


def test_an_interrupted_training_resumes(regard: Regard, folder: Path, monkeypatch: pytest.MonkeyPatch):
    stepped = LineProgress.on_step_end

    def interrupted(self: LineProgress, trainer: Trainer, loss: float) -> None:
        stepped(self, trainer, loss)
        if trainer.progress.step == 2:
            signal.raise_signal(signal.SIGINT)

    options = ["--set", "data.text.regularization.best=4"]
    with monkeypatch.context() as patch:
        patch.setattr(LineProgress, "on_step_end", interrupted)
        answer = regard("train", "my.yaml", *options)
    assert answer.code == 130
    assert "runs/my: stopped after step 2; run the same command to continue" in answer.err
    assert not Path("runs/my/scores.json").exists()
    succeeded(regard("train", "my.yaml", *options))
    assert Path("runs/my/scores.json").exists()
    succeeded(regard("train", "my.yaml", *options, "--out", "runs/whole"))
    one, other = ([{**row, "seconds": 0} for row in Run(Path(f"runs/{name}")).metrics()] for name in ("my", "whole"))
    assert one == other
    assert Path("runs/my/model.safetensors").read_bytes() == Path("runs/whole/model.safetensors").read_bytes()


def test_an_interruption_of_the_last_step_leaves_the_test_set_pending(
    regard: Regard, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    def interrupted(self: LineProgress, trainer: Trainer, metrics: dict[str, Any], best: bool) -> None:
        if trainer.progress.finished:
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(LineProgress, "on_validation_end", interrupted)
        answer = regard("train", "my.yaml", "--set", "training.epochs=1")
    assert answer.code == 143
    assert answer.out.startswith("runs/my: done (all epochs done)")
    assert answer.err.endswith(
        "runs/my: stopped before the evaluation on the test set; run the same command to continue\n"
    )
    assert not Path("runs/my/scores.json").exists()
    for language in ("de", "en"):
        shutil.copy(f"corpus/validation.{language}", f"corpus/test.{language}")
    answer = succeeded(regard("train", "my.yaml", "--set", "training.epochs=1"))
    assert "regard: note: runs/my: the test split has changed since training" in answer.err
    assert Path("runs/my/scores.json").exists()


def test_a_changed_test_set_is_noted(regard: Regard, folder: Path):
    succeeded(regard("train", "my.yaml", "--set", "training.epochs=1"))
    for language in ("de", "en"):
        path = Path(f"corpus/test.{language}")
        first = Path(f"corpus/train.{language}").read_text().split("\n")[0]
        path.write_text(path.read_text() + first + "\n")
    note = "regard: note: runs/my: the {} split has changed since training"
    assert note.format("test") in succeeded(regard("evaluate", "runs/my")).err
    assert "note" not in succeeded(regard("evaluate", "runs/my", "--split", "validation")).err


def test_an_interruption_while_texts_are_read_leaves_no_run(
    regard: Regard, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    def interrupted(self: LineProgress, split: str, pairs: int) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(LineProgress, "on_examples_read", interrupted)
    monkeypatch.setattr("regard.training.encoded_splits.REPORT_EVERY", 100)
    answer = regard("train", "my.yaml")
    assert answer.code == 130
    assert answer.err.endswith("runs/my: stopped while reading the data; run the same command to continue\n")
    assert not Path("runs/my").exists()


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        (
            ["data.train=nowhere/train"],
            ["regard: --set data.train=nowhere/train: data.train: there is no ", "/nowhere/train.de, nor "],
        ),
        (["data.test=nowhere/test"], ["data.test: there is no ", "/nowhere/test.de, nor "]),
        (
            ["data.source=fr"],
            ["regard: my.yaml, line 4: data.train: there is no ", "data.source (fr) and data.target (en) complete"],
        ),
        (["data.train=nowhere.tsv"], ["nowhere.tsv.gz; give"]),
        (["data.train=''"], ["--set data.train='': data.train: '' is invalid"]),
        (["data.trian=x"], ["data.trian: 'files' task has no option trian; did you mean 'train'?"]),
        (["data.text.unit=word"], ["data.text.unit: 'word' is not a valid choice; did you mean 'words'?"]),
        (["data.text.size=9000"], ["data.text: 9000 subwords cannot", "make data.text.size smaller"]),
        (["data.text.joint=false"], ["model.share_embeddings: true needs the same tokens on both sides"]),
        (["model.encoder.embedding=8"], ["model.share_embeddings: the encoder's have size 8 and the decoder's 16"]),
        (
            ["data.text.algorithm=bpe", "data.text.regularization.best=4"],
            ["data.text.regularization.best: 4 segmentations of a text need unigram subwords"],
        ),
        (
            ["model.encoder.positions={kind: learned, longest: 3}"],
            ["model.encoder.positions.longest: 3 positions are too few"],
        ),
    ],
)
def test_invalid_settings_are_reported_with_the_remedy(
    regard: Regard, folder: Path, settings: list[str], parts: list[str]
):
    options = [part for setting in settings for part in ("--set", setting)]
    refused(regard("train", "my.yaml", *options), *parts)


def test_a_damaged_line_is_reported_with_its_file_and_number(regard: Regard, folder: Path):
    with Path("corpus/train.de").open("ab") as file:
        file.write(b"caf\xe9\n")
    with Path("corpus/train.en").open("ab") as file:
        file.write(b"coffee\n")
    refused(regard("train", "my.yaml"), "corpus/train.de, line 401: byte 4 (0xE9) is not UTF-8")


def test_without_multi30k_the_recipe_explains_how_to_get_it(
    regard: Regard, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("REGARD_DATA", str(folder))
    refused(regard("train", "multi30k", "--out", "runs/my"), "'regard data get multi30k'", "--from FOLDER")
