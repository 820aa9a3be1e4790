"""Kept weights, and their averages: during training and afterwards."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.config.schema import Experiment
from regard.errors import UserError
from regard.runs import Run
from regard.runs.kept_checkpoints import kept_steps
from regard.training.train_run import train_run

Make = Callable[..., Experiment]
EVERY = ("training.validate_every=2", "training.keep_checkpoints=3")


def names(run: Path) -> list[str]:
    return sorted(os.listdir(run / "checkpoints"))


@pytest.fixture(scope="module")
def kept(brief: Make, tmp_path_factory: pytest.TempPathFactory, new_callback: Any) -> Path:
    """A finished run with three kept checkpoints. Not to be modified."""
    path = tmp_path_factory.mktemp("kept") / "run"
    train_run(brief(*EVERY), path, new_callback())
    return path


@pytest.fixture
def copied(kept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept, tmp_path / "run"))


def test_the_weights_of_the_latest_validations_are_kept(brief: Make, kept: Path, train_in: Any, read_tensors: Any):
    assert names(kept) == ["step-10.safetensors", "step-12.safetensors", "step-8.safetensors"]
    assert kept_steps(Run(kept)) == [8, 10, 12]
    last = read_tensors(kept / "state.safetensors")[0]
    weights = read_tensors(kept / "checkpoints" / "step-12.safetensors")[0]
    assert all(weights[name].equal(last[f"model/{name}"]) for name in weights)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_kept_weights_are_bit_identical_after_a_stop(
    brief: Make, kept: Path, train_in: Any, tmp_path: Path, read_tensors: Any, steps: int
):
    while not train_in(brief(*EVERY), stop_after=steps).progress.finished:
        pass
    assert names(tmp_path / "run") == names(kept)
    for name in names(kept):
        mine, theirs = (read_tensors(run / "checkpoints" / name) for run in (tmp_path / "run", kept))
        assert mine[1] == theirs[1]
        assert all(mine[0][key].equal(theirs[0][key]) for key in theirs[0])


def test_weights_after_the_last_checkpoint_of_a_crash_are_removed(
    brief: Make, kept: Path, train_in: Any, tmp_path: Path
):
    train_in(brief(*EVERY), stop_after=5)
    shutil.copyfile(
        kept / "checkpoints" / "step-12.safetensors", tmp_path / "run" / "checkpoints" / "step-11.safetensors"
    )
    train_in(brief(*EVERY))
    assert names(tmp_path / "run") == names(kept)


def test_weights_after_the_last_checkpoint_do_not_count_when_other_steps_follow(
    brief: Make, kept: Path, train_in: Any, tmp_path: Path
):
    """As after a crash in the last validation of a run, at an irregular step, which is then given more steps."""
    train_in(brief(*EVERY), stop_after=4)
    shutil.copyfile(
        kept / "checkpoints" / "step-12.safetensors", tmp_path / "run" / "checkpoints" / "step-5.safetensors"
    )
    train_in(brief(*EVERY), stop_after=2)
    assert names(tmp_path / "run") == [f"step-{step}.safetensors" for step in (2, 4, 6)]


def test_other_files_in_the_folder_are_left_alone(brief: Make, train_in: Any, tmp_path: Path):
    train_in(brief(*EVERY), stop_after=3)
    folder = tmp_path / "run" / "checkpoints"
    victim = tmp_path / "victim.safetensors"
    victim.write_bytes(b"mine")
    foreign = [
        "step-01.safetensors",
        "step--1.safetensors",
        "step-1.safetensors.bak",
        "notes.txt",
        "step-\u0661.safetensors",
    ]
    for name in foreign:
        (folder / name).write_bytes(b"x")
    (folder / "step-3.safetensors").symlink_to(victim)
    train_in(brief(*EVERY))
    assert set(names(tmp_path / "run")) == {*foreign, *(f"step-{step}.safetensors" for step in (8, 10, 12))}
    assert victim.read_bytes() == b"mine"


def test_a_link_in_place_of_the_folder_is_refused(brief: Make, train_in: Any, tmp_path: Path):
    train_in(brief(*EVERY), stop_after=1)
    other = tmp_path / "other"
    other.mkdir()
    (other / "step-1.safetensors").write_bytes(b"mine")
    (tmp_path / "run" / "checkpoints").symlink_to(other)
    with pytest.raises(UserError, match="checkpoints: this should be a folder"):
        train_in(brief(*EVERY))
    assert os.listdir(other) == ["step-1.safetensors"]


# --- regard.average --------------------------------------------------------------------------------------


def test_the_average_is_the_mean_of_the_latest_weights(kept: Path, tmp_path: Path, read_tensors: Any):
    made = regard.average(kept, tmp_path / "average", last=2)
    kept_weights = [read_tensors(kept / "checkpoints" / f"step-{step}.safetensors")[0] for step in (10, 12)]
    for name, weight in read_tensors(made.path / "model.safetensors")[0].items():
        mean = (kept_weights[0][name].double() + kept_weights[1][name].double()) / 2
        assert weight.equal(mean.float())
        assert not weight.equal(kept_weights[1][name]) or not kept_weights[1][name].any()
    assert made.metadata["average"] == {"path": str(kept), "steps": [10, 12]}
    assert regard.load(made).translate(["abc"])
    assert regard.evaluate(regard.load(made), progress=False).sentences == 50
    assert made.data_digests == Run(kept).data_digests


def test_the_average_of_the_best_weights(kept: Path, tmp_path: Path):
    losses = {row["step"]: row["validation_loss"] for row in Run(kept).metrics()}
    best = sorted(sorted((8, 10, 12), key=losses.__getitem__)[:2])
    assert regard.average(kept, tmp_path / "average", best=2).metadata["average"]["steps"] == best


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"last": 4}, r"run: 4 weights cannot be averaged; 3 are kept .*training\.keep_checkpoints=4 .*\(--last 3\)"),
        ({"last": 1}, "last = 1: a mean needs at least 2"),
        ({}, r"either last \(--last 5\) or best"),
        ({"last": 2, "best": 2}, r"either last \(--last 5\) or best"),
    ],
)
def test_a_wrong_number_of_weights_is_refused(kept: Path, tmp_path: Path, arguments: dict[str, int], message: str):
    with pytest.raises(UserError, match=message):
        regard.average(kept, tmp_path / "average", **arguments)
    assert not (tmp_path / "average").exists()


def test_an_existing_directory_is_refused(kept: Path, trained: Path, tmp_path: Path):
    with pytest.raises(UserError, match="this exists already"):
        regard.average(kept, trained, last=2)


def test_an_average_is_not_trained_further_but_fine_tuned(kept: Path, tmp_path: Path, brief: Make, new_callback: Any):
    average = regard.average(kept, tmp_path / "average", last=3)
    with pytest.raises(UserError, match=r"average of weights, which cannot be trained further; .* \(--from "):
        regard.train(average, overrides={"training.epochs": 5}, progress=False)
    run = regard.train({}, tmp_path / "run", from_run=average, overrides={"training.epochs": 1}, progress=False)
    assert run.progress.finished


@pytest.mark.parametrize("damage", ["foreign", "half", "renamed", "fifo"])
def test_damaged_weights_are_reported(copied: Path, trained: Path, tmp_path: Path, damage: str):
    file = copied / "checkpoints" / "step-10.safetensors"
    content = file.read_bytes()
    file.unlink()
    match damage:
        case "foreign":
            shutil.copyfile(trained / "model.safetensors", file)
        case "half":
            file.write_bytes(content[: len(content) // 2])
        case "renamed":
            shutil.copyfile(copied / "checkpoints" / "step-8.safetensors", file)
        case "fifo":
            if not hasattr(os, "mkfifo"):
                pytest.skip("this system has none")
            os.mkfifo(file)
    with pytest.raises(UserError, match=r"step-10\.safetensors: "):
        regard.average(copied, tmp_path / "average", last=3)
    assert not (tmp_path / "average").exists()


# --- training.average ------------------------------------------------------------------------------------

AVERAGED = ("training.validate_every=2", "training.average=3", "training.rate={kind: constant, peak: 0.01}")


def test_at_the_end_the_model_is_the_average(
    brief: Make, train_in: Any, tmp_path: Path, read_tensors: Any, trained_brief: Any
):
    train_in(brief(*AVERAGED))
    weights, about = read_tensors(tmp_path / "run" / "model.safetensors")
    kept = [read_tensors(tmp_path / "run" / "checkpoints" / f"step-{step}.safetensors")[0] for step in (8, 10, 12)]
    for name, weight in weights.items():
        assert torch.equal(weight, (sum(each[name].double() for each in kept) / 3).float())
    assert about["average"]["steps"] == [8, 10, 12]
    result = regard.evaluate(regard.load(tmp_path / "run"), split="validation", progress=False)
    assert about["average"]["validation_loss"] == pytest.approx(result.loss, rel=1e-5)
    state = read_tensors(tmp_path / "run" / "state.safetensors")[0]
    plain = read_tensors(trained_brief(AVERAGED[0], AVERAGED[2]) / "state.safetensors")[0]
    assert all(state[name].equal(plain[name]) for name in plain), "training continues from the weights themselves"


@pytest.mark.parametrize("steps", [1, 12])
def test_an_averaged_training_resumes_bit_identically(
    brief: Make, train_in: Any, tmp_path: Path, read_tensors: Any, steps: int
):
    train_in(brief(*AVERAGED), name="whole")
    while not train_in(brief(*AVERAGED), stop_after=steps).progress.finished:
        pass
    mine, theirs = (read_tensors(tmp_path / name / "model.safetensors") for name in ("run", "whole"))
    assert mine[1] == theirs[1]
    assert all(mine[0][name].equal(theirs[0][name]) for name in theirs[0])


def test_both_losses_are_reported(brief: Make, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    regard.train(brief(*AVERAGED), tmp_path / "run")
    out = capfd.readouterr().out
    assert "best validation loss " in out
    assert "; the model is the mean of 3 weights, with loss " in out
