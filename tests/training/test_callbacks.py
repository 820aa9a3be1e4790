"""Callbacks: when they are called, with what, and how they stop a training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.config.schema import Experiment
from regard.errors import UserError
from regard.runs import Run
from regard.training.callbacks import Callback, CallbackList
from regard.training.train_run import train_run
from regard.training.trainer import Trainer

Make = Callable[..., Experiment]


class Calls(Callback):
    """Records the name and the arguments of each call, and the number of the step, in a list."""

    def __init__(self, calls: list[Any], name: str = "") -> None:
        self.calls, self.name = calls, name

    def on_tokenizer_training(self) -> None:
        self.calls.append((self.name, "tokenizer"))

    def on_examples_read(self, split: str, pairs: int) -> None:
        self.calls.append((self.name, "read", split, pairs))

    def on_train_begin(self, trainer: Trainer) -> None:
        self.calls.append((self.name, "begin", trainer.progress.step))

    def on_step_end(self, trainer: Trainer, loss: float) -> None:
        self.calls.append((self.name, "step", trainer.progress.step))

    def on_validation_end(self, trainer: Trainer, metrics: dict[str, Any], best: bool) -> None:
        self.calls.append((self.name, "validation", metrics["step"], best))

    def on_checkpoint(self, trainer: Trainer) -> None:
        self.calls.append((self.name, "checkpoint", trainer.run_directory.progress.step))

    def on_train_end(self, trainer: Trainer) -> None:
        self.calls.append((self.name, "end", trainer.progress.finished))

    def should_stop(self) -> bool:
        self.calls.append((self.name, "stop?"))
        return False


def test_the_base_class_does_nothing(brief: Make, trained_brief: Any, tmp_path: Path, same_training: Any):
    run = train_run(brief(), tmp_path / "run", Callback())
    assert run.progress.finished == "all epochs done"
    same_training(run.path, trained_brief())


def test_methods_are_called_in_order(brief: Make, tmp_path: Path):
    calls: list[Any] = []
    train_run(brief("training.epochs=1", "training.validate_every=3"), tmp_path / "run", Calls(calls))
    assert [call[1:] for call in calls] == [
        ("read", "train", 120),  # to build the vocabulary
        *[("read", "test", 50), ("read", "validation", 20), ("read", "train", 120)],
        ("begin", 0),
        *[("step", 1), ("stop?",), ("step", 2), ("stop?",)],
        *[("step", 3), ("validation", 3, True), ("stop?",), ("checkpoint", 3)],
        *[("step", 4), ("validation", 4, calls[-4][-1]), ("stop?",), ("checkpoint", 4)],
        ("end", "all epochs done"),
    ]


def test_a_callback_has_access_to_the_trainer(brief: Make, tmp_path: Path):
    class Inspecting(Callback):
        def on_step_end(self, trainer: Trainer, loss: float) -> None:
            if trainer.progress.step == 1:
                self.seen = trainer
                self.loss = loss
                self.rate = trainer.optimizer.param_groups[0]["lr"]

    callback = Inspecting()
    run = train_run(brief("training.epochs=1"), tmp_path / "run", callback)
    trainer = callback.seen
    assert trainer.run_directory is run
    assert (trainer.steps, trainer.progress.step) == (4, 4)
    assert 0 < callback.loss < 10
    assert 0 < callback.rate <= run.experiment.training.rate.peak
    assert sum(weight.numel() for weight in trainer.model.parameters()) > 1000


def test_training_that_was_stopped_ends_with_a_checkpoint_and_continues(
    brief: Make, trained_brief: Any, tmp_path: Path, same_training: Any
):
    class StopAtThree(Calls):
        def should_stop(self) -> bool:
            return ("", "step", 3) in self.calls

    calls: list[Any] = []
    run = train_run(brief(), tmp_path / "run", StopAtThree(calls))
    assert calls[-2:] == [("", "checkpoint", 3), ("", "end", "")]
    assert (run.progress.step, run.progress.finished) == (3, "")
    calls.clear()
    train_run(brief(), tmp_path / "run", Calls(calls))
    assert next(call for call in calls if call[1] == "begin") == ("", "begin", 3)
    same_training(tmp_path / "run", trained_brief())


def test_an_exception_in_a_callback_ends_the_training_which_continues_from_the_last_checkpoint(
    brief: Make, trained_brief: Any, tmp_path: Path, same_training: Any
):
    class Failing(Calls):
        def on_step_end(self, trainer: Trainer, loss: float) -> None:
            if trainer.progress.step == 6:
                raise ZeroDivisionError

    calls: list[Any] = []
    with pytest.raises(ZeroDivisionError):
        train_run(brief(), tmp_path / "run", Failing(calls))
    assert calls[-1] == ("", "end", "")
    assert Run(tmp_path / "run").progress.step == 4  # of the first validation
    train_run(brief(), tmp_path / "run", Callback())
    same_training(tmp_path / "run", trained_brief())


def test_a_finished_run_calls_nothing(brief: Make, tmp_path: Path):
    train_run(brief(), tmp_path / "run", Callback())
    calls: list[Any] = []
    train_run(brief(), tmp_path / "run", Calls(calls))
    assert calls == []


# --- Several callbacks ------------------------------------------------------------------------------------


def test_a_list_of_callbacks_calls_each_in_its_order(brief: Make, tmp_path: Path):
    calls: list[Any] = []
    both = CallbackList([Calls(calls, "first"), Calls(calls, "second")])
    both.on_tokenizer_training()
    train_run(brief("training.epochs=1"), tmp_path / "run", both)
    assert {call[1] for call in calls} == {
        *("tokenizer", "read", "begin", "step", "validation", "checkpoint", "end", "stop?")
    }
    assert [call[0] for call in calls] == ["first", "second"] * (len(calls) // 2)
    assert [call[1:] for call in calls[::2]] == [call[1:] for call in calls[1::2]]


def test_a_list_passes_every_method_of_a_callback_on():
    assert {name for name in vars(Callback) if not name.startswith("_")} <= vars(CallbackList).keys()


@pytest.mark.parametrize("stops", [(True, False), (False, True), (True, True)])
def test_a_list_stops_if_one_callback_stops(new_callback: Any, stops: tuple[bool, bool]):
    assert CallbackList([new_callback(stop_after=0 if stop else None) for stop in stops]).should_stop()
    assert not CallbackList([new_callback(), new_callback()]).should_stop()
    assert not CallbackList([]).should_stop()


@pytest.mark.parametrize(
    ("callbacks", "message"),
    [
        ([Calls], r"^callbacks: Calls is a class; give an instance of it: Calls\(\)$"),
        ([Calls([]), print], "^callbacks: <built-in function print> is not a callback; a callback is an instance of"),
        ([None], "^callbacks: None is not a callback"),
        ([int], "^callbacks: <class 'int'> is not a callback"),
        (Calls([]), "^callbacks: give a list of callbacks, not a single Calls$"),
        (Callback, "^callbacks: give a list of callbacks, not <class .*Callback"),
        (None, "^callbacks: give a list of callbacks, not None$"),
    ],
)
def test_what_is_not_a_callback_is_refused(callbacks: Any, message: str):
    with pytest.raises(UserError, match=message):
        CallbackList(callbacks)


def test_a_misspelled_method_is_refused():
    with pytest.raises(
        UserError, match=r"Mine\.on_step_ended is not a method of a callback; did you mean 'on_step_end'"
    ):

        class Mine(Callback):
            def on_step_ended(self) -> None: ...
