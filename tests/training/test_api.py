"""`regard.train`: arguments, output, interrupts and continuing."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import torch
import yaml

import regard
from regard.config import loading
from regard.errors import UserError
from regard.runs import Run
from regard.tasks.generated import GeneratedDataset
from regard.training import train
from regard.training.session import TrainingInterrupted
from regard.training.trainer import Trainer

Same = Callable[[Path, Path], None]


@pytest.fixture
def brief_dict(brief_settings: tuple[str, ...]) -> dict[str, Any]:
    """The settings of the brief experiment that differ from those of the tiny one."""
    return {key: yaml.safe_load(value) for key, _, value in (each.partition("=") for each in brief_settings)}


class Interrupt(regard.Callback):
    """Raises SIGINT in the middle of some steps."""

    def __init__(self, *steps: int) -> None:
        self.steps = steps

    def on_step_end(self, trainer: Trainer, loss: float) -> None:
        if trainer.progress.step in self.steps:
            signal.raise_signal(signal.SIGINT)


# --- Arguments -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["str", "Path", "nested", "dotted", "Experiment", "extends"])
def test_every_form_of_an_experiment_gives_the_same_run(
    kind: str, tiny_file: Path, brief_dict: dict[str, Any], trained_brief: Any, tmp_path: Path, same_training: Same
):
    nested = yaml.safe_load(tiny_file.read_text())
    flat = {
        f"{section}.{key}": value for section in ("data", "model", "training") for key, value in nested[section].items()
    }
    experiment = {
        "str": str(tiny_file),
        "Path": tiny_file,
        "nested": nested,
        "dotted": flat | {"description": nested["description"]},
        "Experiment": loading.load_experiment(str(tiny_file)),
        "extends": {"extends": str(tiny_file)},
    }[kind]
    run = regard.train(experiment, tmp_path / "run", overrides=brief_dict, progress=False)
    assert isinstance(run, Run)
    assert run.progress.finished == "all epochs done"
    assert run.experiment == Run(trained_brief()).experiment
    same_training(run.path, trained_brief())


def test_a_recipe_is_trained_in_a_folder_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_callback: Any
):
    monkeypatch.chdir(tmp_path)
    few = {"data": {"train": 200, "validation": 5, "test": 5}, "training.epochs": 1}
    run = regard.train("copy", overrides=few, callbacks=[new_callback(stop_after=1)], progress=False)
    assert (run.path, run.progress.step) == (Path("runs/copy"), 1)
    assert (run.experiment.data.task, run.experiment.data.train) == ("copy", 200)


def test_a_file_is_trained_in_a_folder_of_its_name_and_a_string_is_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_file: Path, new_callback: Any
):
    monkeypatch.chdir(tmp_path)
    assert regard.train(tiny_file, callbacks=[new_callback(1)], progress=False).path == Path("runs/tiny")
    assert regard.train(tiny_file, "mine", callbacks=[new_callback(1)], progress=False).path == Path("mine")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"experiment": 3},
            r"^3 is not an experiment; give the name of a recipe, the path of a YAML file, a dictionary",
        ),
        ({"experiment": ["case"]}, r"^\['case'\] is not an experiment; "),
        ({"experiment": "cas"}, "^'cas' is neither a recipe nor a file; did you mean 'case'?"),
        ({"experiment": Path("nowhere.yaml")}, "^'./nowhere.yaml' is neither a recipe nor a file"),
        ({"experiment": {"data": {"task": "copy"}}}, r"^out: give a run directory, such as out='runs/mine'; only "),
        ({"out": 3}, "^out: 3 should be a path"),
        ({"overrides": ["training.seed=2"]}, r"^overrides: \['training.seed=2'\] should be a dictionary, such as "),
        ({"overrides": {"training.sed": 2}}, "^overrides: training.sed: unknown key; did you mean 'seed'?"),
        ({"overrides": {"training": {"seed": "x"}}}, "^overrides: training.seed: 'x' is invalid: "),
        ({"callbacks": [regard.Callback]}, r"^callbacks: Callback is a class; give an instance of it: Callback\(\)"),
        ({"callbacks": regard.Callback()}, "^callbacks: give a list of callbacks, not a single Callback"),
    ],
)
def test_a_wrong_argument_is_refused_before_anything_is_written(
    arguments: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message):
        regard.train(**({"experiment": "case", "progress": False} | arguments))
    assert os.listdir(tmp_path) == []


def test_missing_files_are_reported_with_the_argument_that_names_them(tmp_path: Path):
    settings = {"task": "files", "train": Path("nowhere/train"), "validation": "v", "source": "a", "target": "b"}
    for experiment, overrides, origin in (
        ({"data": settings}, None, "the dictionary"),
        (loading.resolve_experiment({"data": settings}), None, "the experiment"),
        ("case", {"data": settings}, "overrides"),
    ):
        with pytest.raises(UserError, match=f"^{origin}: data.train: there is no .*/nowhere/train.a"):
            regard.train(experiment, tmp_path / "run", overrides=overrides)


def test_other_settings_in_the_same_run_directory_are_refused(tiny_file: Path, tmp_path: Path, new_callback: Any):
    regard.train(tiny_file, tmp_path / "run", callbacks=[new_callback(1)], progress=False)
    with pytest.raises(
        UserError, match=r"which may not change:\n  training.seed = 1, not 2\nchoose another run direct"
    ):
        regard.train(tiny_file, tmp_path / "run", overrides={"training.seed": 2}, progress=False)


# --- Output ----------------------------------------------------------------------------------------------


def test_progress_is_printed_as_by_the_command(
    tiny_file: Path,
    brief_settings: tuple[str, ...],
    brief_dict: dict[str, Any],
    tmp_path: Path,
    regard: Any,
    capsys: pytest.CaptureFixture[str],
):
    options = [part for setting in brief_settings for part in ("--set", setting)]
    command = regard("train", tiny_file, *options, "--out", tmp_path / "run")
    train(tiny_file, tmp_path / "other", overrides=brief_dict)
    call = capsys.readouterr()

    def steady(text: str) -> str:
        """Without what differs between two trainings: path, rates and durations."""
        return re.sub(r"[\d.]+ steps/s|\d+:\d\d left|in \d+ s;", "", text.replace("/other", "/run"))

    assert steady(call.err) == steady(command.err)
    assert steady(call.out) == steady(command.out)
    assert "parameters, 12 steps; cpu, float32\nstep 4/12 " in call.err
    assert "done (all epochs done), 12 steps in" in call.out


def test_without_progress_nothing_is_printed(
    tiny_file: Path, brief_dict: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    regard.train(tiny_file, tmp_path / "run", overrides=brief_dict, progress=False)
    with pytest.raises(KeyboardInterrupt):
        regard.train(tiny_file, tmp_path / "other", overrides=brief_dict, callbacks=[Interrupt(2)], progress=False)
    assert capfd.readouterr() == ("", "")


def test_real_text_is_scored_after_training(corpus: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    files = {split: corpus / split for split in ("train", "validation", "test")}
    sizes = {"embedding": 8, "size": 8}
    experiment = {
        "data": {"task": "files", "source": "de", "target": "en", "text": {"unit": "words"}, **files},
        "model": {"encoder": sizes, "decoder": sizes},
        "training": {"epochs": 1, "batch_tokens": 1500},
        "decoding": {"length_factor": 0, "length_extra": 4},
    }
    run = regard.train(experiment, tmp_path / "run", progress=False)
    assert (run.path / "scores.json").exists()
    assert (run.path / "examples" / "index.html").exists()
    assert capfd.readouterr() == ("", "")
    (run.path / "scores.json").unlink()
    regard.train(experiment, tmp_path / "run")  # it is finished, and scored again
    out, _ = capfd.readouterr()
    assert "done (all epochs done)" in out
    assert "BLEU" in out
    assert out.endswith("index.html: attention maps of example sentences\n")


def test_the_number_of_threads_is_restored(tiny_file: Path, tmp_path: Path, new_callback: Any):
    threads = []

    class Threads(regard.Callback):
        def on_step_end(self, trainer: Trainer, loss: float) -> None:
            threads.append(torch.get_num_threads())

    torch.set_num_threads(2)
    try:
        regard.train(tiny_file, tmp_path / "run", callbacks=[Threads(), new_callback(1)], progress=False)
        assert (threads, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(1)


# --- Stopping and continuing -----------------------------------------------------------------------------


def test_a_callback_stops_and_the_same_call_continues_bit_identically(
    tiny_file: Path,
    brief_dict: dict[str, Any],
    trained_brief: Any,
    tmp_path: Path,
    same_training: Same,
    new_callback: Any,
    capfd: pytest.CaptureFixture[str],
):
    run = regard.train(tiny_file, tmp_path / "run", overrides=brief_dict, callbacks=[new_callback(5)])
    assert (run.progress.step, run.progress.finished) == (5, "")
    message = f"{tmp_path / 'run'}: stopped after step 5; run the same code to continue\n"
    assert capfd.readouterr().err.endswith(message)
    run = regard.train(tiny_file, tmp_path / "run", overrides=brief_dict)
    assert run.progress.finished == "all epochs done"
    assert "12 steps, continuing after step 5; cpu, float32\n" in capfd.readouterr().err
    same_training(run.path, trained_brief())


def test_an_interrupt_finishes_the_step_and_the_same_call_continues_bit_identically(
    tiny_file: Path,
    brief_dict: dict[str, Any],
    trained_brief: Any,
    tmp_path: Path,
    same_training: Same,
    capfd: pytest.CaptureFixture[str],
):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    seen = []

    class Handlers(regard.Callback):
        def on_checkpoint(self, trainer: Trainer) -> None:
            seen.append((trainer.progress.step, signal.getsignal(signal.SIGTERM) is before[1]))

    arguments: dict[str, Any] = {"out": tmp_path / "run", "overrides": brief_dict}
    message = f"{tmp_path / 'run'}: stopped after step 3; run the same code to continue"
    with pytest.raises(KeyboardInterrupt, match=message):
        regard.train(tiny_file, callbacks=[Interrupt(3), Handlers()], **arguments)
    err = capfd.readouterr().err
    assert err.count("stopping after the current step; a second signal stops immediately") == 1
    assert err.endswith(f"{message}\n")
    assert seen == [(3, True)], "SIGTERM keeps its handler"
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    regard.train(tiny_file, **arguments)
    same_training(tmp_path / "run", trained_brief())


def test_a_second_interrupt_stops_at_once(
    tiny_file: Path, brief_dict: dict[str, Any], trained_brief: Any, tmp_path: Path, same_training: Same
):
    class Twice(regard.Callback):
        def on_step_end(self, trainer: Trainer, loss: float) -> None:
            if trainer.progress.step == 6:
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)
                pytest.fail("the second signal did not raise an exception")

    arguments: dict[str, Any] = {"out": tmp_path / "run", "overrides": brief_dict, "progress": False}
    with pytest.raises(KeyboardInterrupt) as caught:
        regard.train(tiny_file, callbacks=[Twice()], **arguments)
    assert caught.type is KeyboardInterrupt
    assert Run(tmp_path / "run").progress.step == 4
    regard.train(tiny_file, **arguments)
    same_training(tmp_path / "run", trained_brief())


def test_an_interrupt_in_the_last_step_is_not_lost(tiny_file: Path, brief_dict: dict[str, Any], tmp_path: Path):
    with pytest.raises(KeyboardInterrupt, match="interrupted in the last step; training is finished"):
        regard.train(tiny_file, tmp_path / "run", overrides=brief_dict, callbacks=[Interrupt(12)], progress=False)
    assert Run(tmp_path / "run").progress.finished == "all epochs done"


def test_an_interrupt_while_data_is_generated_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(GeneratedDataset, "_generate_split", lambda *_: signal.raise_signal(signal.SIGINT))
    with pytest.raises(TrainingInterrupted):
        regard.train("case", tmp_path / "run")
    message = f"{tmp_path / 'run'}: stopped while reading the data; run the same code to continue\n"
    assert capfd.readouterr() == ("", message)
    assert os.listdir(tmp_path) == []


def test_an_interrupt_while_the_test_set_is_scored_is_reported(
    trained_brief: Any, brief: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    path = trained_brief()
    monkeypatch.setattr("regard.evaluation.final.needs_final_evaluation", lambda run: True)
    monkeypatch.setattr("regard.evaluation.final.score_test_set", lambda *_: signal.raise_signal(signal.SIGINT))
    with pytest.raises(TrainingInterrupted) as caught:
        regard.train(brief(), path)
    message = f"{path}: trained, but not scored yet; run the same code to continue"
    assert (str(caught.value), caught.value.exit_code) == (message, 130)
    assert capfd.readouterr().err == f"{message}\n"


def test_a_keyboard_interrupt_of_a_callback_is_passed_on(tiny_file: Path, tmp_path: Path):
    class Impatient(regard.Callback):
        def on_examples_read(self, split: str, pairs: int) -> None:
            raise KeyboardInterrupt("mine")

    with pytest.raises(KeyboardInterrupt, match=r"^mine$"):
        regard.train(tiny_file, tmp_path / "run", callbacks=[Impatient()], progress=False)


def test_training_works_in_a_thread(
    tiny_file: Path, brief_dict: dict[str, Any], trained_brief: Any, tmp_path: Path, same_training: Same
):
    runs = []
    handler = signal.getsignal(signal.SIGINT)

    class Handlers(regard.Callback):
        def on_step_end(self, trainer: Trainer, loss: float) -> None:
            assert signal.getsignal(signal.SIGINT) is handler

    def run() -> None:
        arguments: dict[str, Any] = {"overrides": brief_dict, "callbacks": [Handlers()], "progress": False}
        runs.append(regard.train(tiny_file, tmp_path / "run", **arguments))

    thread = Thread(target=run)
    thread.start()
    thread.join()
    assert runs[0].progress.finished == "all epochs done"
    same_training(tmp_path / "run", trained_brief())
