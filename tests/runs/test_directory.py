"""The run directory: created atomically, readable without Regard, refused when damaged."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import regard
from regard import files
from regard.config.schema import Experiment
from regard.data import Codec
from regard.errors import UserError
from regard.nn.build import build_model
from regard.runs import MODEL, STATE, Run, named_weights
from regard.tasks.files import FilesSection, FilesTask
from regard.text.subwords import SubwordTokenizer


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    """A copy of a run that may be damaged."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


def codec_of(experiment: Experiment) -> Codec:
    return Codec.build(
        experiment.task.learn_tokenization(experiment.task.dataset.splits()["train"]),
        experiment.task.dataset.splits()["train"],
    )


# --- Creation --------------------------------------------------------------------------------------------


def test_a_created_run_can_be_opened(tiny: Callable[..., Experiment], tmp_path: Path):
    experiment = tiny()
    codec = codec_of(experiment)
    made = Run.create(tmp_path / "a" / "run", experiment, codec)
    for run in (made, Run(tmp_path / "a" / "run")):
        assert run.experiment == experiment
        assert run.codec == codec
        assert run.metrics() == []
        assert not run.has_file(MODEL)
    assert sorted(os.listdir(made.path)) == ["config.yaml", "run.json", "vocabulary.json"]
    assert os.listdir(tmp_path / "a") == ["run"]


def test_files_of_a_run_have_the_permissions_of_the_umask(tiny: Callable[..., Experiment], tmp_path: Path):
    before = os.umask(0o022)
    try:
        run = Run.create(tmp_path / "run", tiny(), codec_of(tiny()))
    finally:
        os.umask(before)
    assert stat.S_IMODE(run.path.stat().st_mode) == 0o755
    assert {stat.S_IMODE(file.stat().st_mode) for file in run.path.iterdir()} == {0o644}


@pytest.mark.parametrize("write", [1, 2, 3])
def test_a_run_is_created_completely_or_not_at_all(
    tiny: Callable[..., Experiment], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: int
):
    real, calls = files.write_atomic, []

    def failing(path: Path, content: bytes) -> None:
        calls.append(path)
        if len(calls) == write:
            raise KeyboardInterrupt
        real(path, content)

    monkeypatch.setattr(files, "write_atomic", failing)
    with pytest.raises(KeyboardInterrupt):
        Run.create(tmp_path / "run", tiny(), codec_of(tiny()))
    assert os.listdir(tmp_path) == []


def test_a_run_is_not_created_over_another(copied: Path, tiny: Callable[..., Experiment]):
    before = {file.name: file.read_bytes() for file in copied.iterdir()}
    with pytest.raises(UserError, match=f"{copied}: another process has just started a run here; choose another run"):
        Run.create(copied, tiny(), codec_of(tiny()))
    assert {file.name: file.read_bytes() for file in copied.iterdir()} == before
    assert os.listdir(copied.parent) == ["run"]


def test_a_run_cannot_be_created_below_a_file(tiny: Callable[..., Experiment], tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=f"{tmp_path}/file/run: cannot be created"):
        Run.create(tmp_path / "file" / "run", tiny(), codec_of(tiny()))


# --- Subwords --------------------------------------------------------------------------------------------


def subwords_of(corpus: Path, joint: bool) -> Experiment:
    names = {split: str(corpus / split) for split in ("train", "validation")}
    task = FilesTask(FilesSection.model_validate(names | {"text": {"size": 80, "joint": joint, "coverage": 1.0}}))
    return Experiment(data=task.section)


MODELS = {True: ["subwords.model"], False: ["source.model", "target.model"]}


@pytest.mark.parametrize("joint", [False, True])
def test_subwords_are_written_with_the_run_and_read_back(corpus: Path, tmp_path: Path, joint: bool):
    experiment = subwords_of(corpus, joint)
    codec = codec_of(experiment)
    run = Run.create(tmp_path / "run", experiment, codec)
    assert sorted(os.listdir(run.path)) == sorted(["config.yaml", "run.json", "vocabulary.json", *MODELS[joint]])
    again = Run(run.path).codec
    assert again.source_vocabulary == codec.source_vocabulary
    assert again.target_vocabulary == codec.target_vocabulary
    pairs = list(experiment.task.dataset.splits()["train"])
    assert again.examples(pairs) == codec.examples(pairs)
    assert {again.text(example.target) for example in again.examples(pairs)} == {pair.target for pair in pairs}


@pytest.mark.parametrize("joint", [False, True])
def test_a_run_is_opened_without_its_training_texts(corpus: Path, tmp_path: Path, joint: bool):
    texts = Path(shutil.copytree(corpus, tmp_path / "texts"))
    experiment = subwords_of(texts, joint)
    run = Run.create(tmp_path / "run", experiment, codec_of(experiment))
    expected = run.codec.source("Der Hund.")
    shutil.rmtree(texts)
    assert Run(run.path).codec.source("Der Hund.") == expected


@pytest.mark.parametrize(("joint", "name"), [(joint, name) for joint in MODELS for name in MODELS[joint]])
def test_missing_subwords_are_reported(corpus: Path, tmp_path: Path, joint: bool, name: str):
    experiment = subwords_of(corpus, joint)
    run = Run.create(tmp_path / "run", experiment, codec_of(experiment))
    (run.path / name).unlink()
    with pytest.raises(UserError, match=f"{run.path}/{name}: this file is missing; the run directory is incomplete"):
        _ = run.codec


@pytest.mark.parametrize("content", [b"", b"no such thing"])
@pytest.mark.parametrize(("joint", "name"), [(joint, name) for joint in MODELS for name in MODELS[joint]])
def test_damaged_subwords_are_reported(corpus: Path, tmp_path: Path, joint: bool, name: str, content: bytes):
    experiment = subwords_of(corpus, joint)
    run = Run.create(tmp_path / "run", experiment, codec_of(experiment))
    (run.path / name).write_bytes(content)
    with pytest.raises(UserError, match=f"{run.path}/{name}: .*not a SentencePiece model"):
        _ = run.codec


def test_subwords_of_another_run_are_refused(corpus: Path, tmp_path: Path):
    experiment = subwords_of(corpus, True)
    run = Run.create(tmp_path / "run", experiment, codec_of(experiment))
    texts = (corpus / "train.en").read_text(encoding="utf-8").splitlines()
    other = SubwordTokenizer.learn(texts, 60, algorithm="bpe", coverage=1.0)
    (run.path / "subwords.model").write_bytes(other.model)
    with pytest.raises(
        UserError, match=f"{run.path}/vocabulary.json: .*the tokens differ from those of the .model files"
    ):
        _ = run.codec


# --- Readable without Regard -----------------------------------------------------------------------------


def strict_json(text: str) -> Any:
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_a_run_is_readable_without_regard(trained: Path):
    names = "config.yaml metrics.jsonl model.safetensors run.json state.safetensors vocabulary.json"
    assert sorted(os.listdir(trained)) == [".lock", *names.split()]
    about = strict_json((trained / "run.json").read_text())
    assert about["format"] == 6
    assert about["regard"] == regard.__version__
    assert about["torch"] == torch.__version__
    config = yaml.safe_load((trained / "config.yaml").read_text())
    assert config["data"]["alphabet"] == "abcde"
    assert config["training"]["seed"] == 1
    vocabulary = strict_json((trained / "vocabulary.json").read_text())
    special = ["<pad>", "<begin>", "<end>", "<unknown>"]
    for side in ("source", "target"):
        assert vocabulary[side][:4] == special
        assert sorted(vocabulary[side][4:]) == list("abcde")
    rows = [strict_json(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows] == list(range(1, 16))
    assert all(isinstance(row["validation_loss"], float) for row in rows)


def test_the_tensor_file_header_has_the_progress(trained: Path):
    rows = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    best = min(rows, key=lambda row: row["validation_loss"])
    with safe_open(trained / MODEL, "pt") as file:
        assert strict_json(file.metadata()["regard"])["step"] == best["step"]
        names = set(file.keys())
    with safe_open(trained / STATE, "pt") as file:
        progress = strict_json(file.metadata()["regard"])
        assert {name for name in file.keys() if name.startswith("model/")} == {f"model/{name}" for name in names}  # noqa: SIM118
    assert progress["step"] == rows[-1]["step"]
    assert progress["best_step"] == best["step"]
    assert progress["finished"] == "all epochs done"
    assert progress["validation_losses"] == [row["validation_loss"] for row in rows]


# --- Refused when damaged --------------------------------------------------------------------------------


def test_a_directory_without_a_run_is_refused(tmp_path: Path):
    with pytest.raises(UserError, match=f"{tmp_path}/none: there is no such run directory; 'regard train' creates one"):
        Run(tmp_path / "none")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=f"{tmp_path}/file: "):
        Run(tmp_path / "file")
    with pytest.raises(UserError, match=f"{tmp_path}: this is not a run directory: it has no run.json"):
        Run(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("run.json", b"", "run.json: this file is damaged"),
        ("run.json", b"{", "run.json: this file is damaged"),
        ("run.json", b"\xff", "run.json: this file is damaged"),
        ("run.json", b"[" * 100_000, "run.json: this file is damaged"),
        ("run.json", b'{"format": 7}', f"this run has format 7; Regard {regard.__version__} reads formats 1 to 6"),
        ("run.json", b"{}", "run.json: this run has format None"),
        ("run.json", b"[1]", "run.json: this run has format"),
        ("config.yaml", b"", "config.yaml"),
        ("config.yaml", b"data: [", "config.yaml, line 1: this is not YAML"),
        ("config.yaml", b"data: {task: copy}\nmodel: {x: 1}\n", "config.yaml, line 2: model.x: unknown key"),
        ("config.yaml", b"\xff", "config.yaml"),
        ("vocabulary.json", b"{}", "vocabulary.json: this file is damaged: it lacks 'source'"),
        ("vocabulary.json", b"[]", "vocabulary.json: this file is damaged"),
        ("vocabulary.json", b"", "vocabulary.json: this file is damaged"),
        ("vocabulary.json", b"\xff", "vocabulary.json: this file is damaged"),
        (
            "vocabulary.json",
            b'{"source": 1, "target": 2, "longest_source": 3}',
            "vocabulary.json: this file is damaged",
        ),
        (
            "vocabulary.json",
            json.dumps(
                {side: ["<pad>", "<begin>", "<end>", "<unknown>", *"aa"] for side in ("source", "target")}
            ).encode(),
            "vocabulary.json: this file is damaged: a vocabulary starts with",
        ),
        (
            "vocabulary.json",
            b'{"source": ["<pad>", "<begin>", "<end>", "<unknown>", 5, ["a"]], "target": [], "longest_source": 3}',
            "vocabulary.json: this file is damaged",
        ),
        (
            "vocabulary.json",
            json.dumps(
                {side: ["<pad>", "<begin>", "<end>", "<unknown>", *"ab"] for side in ("source", "target")}
                | {"longest_source": 6}
            ).encode(),
            "model.safetensors: these weights belong to a run with other settings or another vocabulary",
        ),
        (
            "vocabulary.json",
            json.dumps(
                {side: ["<pad>", "<begin>", "<end>", "<unknown>", *"ab"] for side in ("source", "target")}
                | {"longest_source": float("inf")}
            ).encode(),
            "vocabulary.json: this file is damaged: cannot convert float infinity to integer",
        ),
        ("vocabulary.json", b"[" * 2_000, "vocabulary.json: this file is damaged: it is nested too deeply"),
        ("run.json", b"[" * 2_000, "run.json: this file is damaged: it is nested too deeply"),
        ("config.yaml", b"a: " + b"[" * 2_000, "config.yaml, line 1: this is nested too deeply"),
        ("config.yaml", b"#" * 60_000, "config.yaml: this file has 60,000 bytes; at most 50,000 are read"),
        ("model.safetensors", b"", "model.safetensors: this file is damaged"),
        ("model.safetensors", b"x" * 100, "model.safetensors: this file is damaged"),
    ],
)
def test_a_damaged_file_is_reported(copied: Path, name: str, content: bytes, expected: str):
    (copied / name).write_bytes(content)
    with pytest.raises(UserError) as error:
        regard.load(copied)
    assert str(error.value).startswith(f"{copied}/")
    assert expected in str(error.value)


@pytest.mark.parametrize("name", ["config.yaml", "vocabulary.json", "model.safetensors"])
def test_a_missing_file_is_reported(copied: Path, name: str):
    (copied / name).unlink()
    with pytest.raises(UserError, match=f"{copied}/{name}: "):
        regard.load(copied)


@pytest.mark.parametrize("name", ["run.json", "config.yaml", "vocabulary.json", "model.safetensors"])
def test_a_folder_in_place_of_a_file_is_refused(copied: Path, name: str):
    (copied / name).unlink()
    (copied / name).mkdir()
    with pytest.raises(UserError, match=f"{copied}"):
        regard.load(copied)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
@pytest.mark.parametrize("name", ["config.yaml", "vocabulary.json", "model.safetensors", "metrics.jsonl"])
def test_special_files_are_refused(copied: Path, name: str):
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
        (copied / name).unlink()
        make(copied / name)
        with pytest.raises(UserError, match=f"{copied}/{name}: this is not a regular file"):
            regard.load(copied).runs[0].metrics()


def test_weights_that_may_not_be_read_are_reported(copied: Path, monkeypatch: pytest.MonkeyPatch):
    real = os.open

    def refuse(path: object, *arguments: object, **options: object) -> int:
        if str(path).endswith(MODEL):
            raise PermissionError(13, "Permission denied")
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(UserError, match=r"model\.safetensors: cannot be read: Permission denied"):
        regard.load(copied)


@pytest.mark.parametrize("kept", [1, 7, 8, 100, 5_000, -1])
def test_truncated_weights_are_refused(copied: Path, kept: int):
    content = (copied / MODEL).read_bytes()
    (copied / MODEL).write_bytes(content[:kept])
    with pytest.raises(UserError, match=f"{copied}/model.safetensors: this file is damaged"):
        regard.load(copied)


def test_weights_of_another_model_are_refused(copied: Path, trained_brief: Callable[..., Path]):
    shutil.copy(trained_brief() / MODEL, copied / MODEL)
    with pytest.raises(UserError, match=f"{copied}/model.safetensors: these weights belong to a run with other"):
        regard.load(copied)


@pytest.mark.parametrize("metadata", [None, {}, {"regard": "{"}, {"other": "{}"}])
def test_weights_that_regard_did_not_write_are_refused(copied: Path, metadata: dict[str, str] | None):
    save_file(load_file(copied / MODEL), copied / MODEL, metadata)
    with pytest.raises(UserError, match=f"{copied}/model.safetensors: this file is damaged"):
        regard.load(copied)


def test_a_run_without_weights_is_reported(copied: Path):
    (copied / MODEL).unlink()
    with pytest.raises(
        UserError, match=r"model.safetensors: does not exist yet; 'regard train' writes it at the first"
    ):
        regard.load(copied)


def test_a_truncated_last_metrics_line_is_ignored(copied: Path):
    path = copied / "metrics.jsonl"
    rows = Run(copied).metrics()
    path.write_bytes(path.read_bytes()[:-20])
    assert Run(copied).metrics() == rows[:-1]
    Run(copied).truncate_metrics(rows[-1]["step"])
    assert path.read_text().count("\n") == len(rows) - 1
    Run(copied).append_metrics(rows[-1])
    assert Run(copied).metrics() == rows


def test_a_metrics_line_truncated_within_a_character_is_ignored(copied: Path):
    path = copied / "metrics.jsonl"
    path.write_bytes(path.read_bytes() + b'{"step": "\xc3')
    assert len(Run(copied).metrics()) == 15


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"not json",
        b"\xff",
        b"[1]",
        b"{}",
        b'{"step": "x"}',
        b'{"step": ' + b"9" * 400 + b"}",
        b'{"step": 3, "validation_loss": "x"}',
        b"[" * 2_000,
    ],
    ids=lambda line: line[:20],
)
def test_a_broken_metrics_line_in_the_middle_is_refused(copied: Path, line: bytes):
    path = copied / "metrics.jsonl"
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([*lines[:2], line, *lines[3:]]) + b"\n")
    with pytest.raises(UserError, match=f"{path}, line 3: this file is damaged"):
        Run(copied).truncate_metrics(10)


def test_metrics_after_a_step_can_be_removed(copied: Path):
    rows = Run(copied).metrics()
    Run(copied).truncate_metrics(rows[3]["step"])
    assert Run(copied).metrics() == rows[:4]


# --- Tensors ---------------------------------------------------------------------------------------------


def test_tensors_and_metadata_are_read_back_bit_by_bit(copied: Path):
    tensors = {"a/b": torch.randn(3, 2), "step": torch.tensor(7.0), "t": torch.randn(4, 3).t()}
    Run(copied).write_tensors("x.safetensors", tensors, {"ä": [1.5, "x"], "big": 2**60})
    with Run(copied).open_tensors("x.safetensors") as file:
        read, about = {name: file.tensor(name) for name in file.shapes}, file.metadata
    assert about == {"ä": [1.5, "x"], "big": 2**60}
    assert read.keys() == tensors.keys()
    assert all(torch.equal(read[name], tensors[name]) for name in tensors)


def test_a_shared_weight_is_stored_once(tiny: Callable[..., Experiment]):
    model = build_model(tiny("model.decoder.readout=tied").model, 5, 7)
    weights = named_weights(model)
    assert len({weight.data_ptr() for weight in weights.values()}) == len(weights)
    assert not any(weight.requires_grad for weight in weights.values())


def test_a_run_that_is_gone_is_not_an_untrained_one(trained_brief: Callable[..., Path], tmp_path: Path):
    shutil.copytree(trained_brief(), tmp_path / "run")
    run = Run(str(tmp_path / "run"))
    assert run.progress.step > 0
    shutil.rmtree(tmp_path / "run")
    for read in (lambda: run.progress, run.metrics):
        with pytest.raises(UserError, match="this run directory is gone, or the working directory is another one now"):
            read()
