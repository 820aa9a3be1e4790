"""The log for TensorBoard, read back from its files."""

from __future__ import annotations

import struct
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tensorboardX.proto.event_pb2 import Event

from regard.config.schema import Experiment
from regard.errors import UserError
from regard.training import tensorboard

Make = Callable[..., Experiment]
TrainIn = Callable[..., Any]
LOG = "training.log=[jsonl, tensorboard]"


def events(path: Path) -> Iterator[Event]:
    """The events of a file: records of length, checksum, content and checksum."""
    content = path.read_bytes()
    begin = 0
    while begin < len(content):
        (length,) = struct.unpack("<Q", content[begin : begin + 8])
        yield Event.FromString(content[begin + 12 : begin + 12 + length])
        begin += 16 + length


def scalars(run: Path) -> dict[str, dict[int, float]]:
    """For each tag the value of each step, without what TensorBoard discards; an error if one is doubled."""
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for path in sorted((run / "tensorboard").iterdir(), key=lambda path: path.stat().st_mtime_ns):
        for event in events(path):
            if event.session_log.status:  # a session begins
                found = defaultdict(
                    dict,
                    {tag: {s: v for s, v in steps.items() if s < event.step} for tag, steps in found.items()},
                )
            for value in event.summary.value:
                assert event.step not in found[value.tag]
                found[value.tag][event.step] = value.simple_value
    return found


@pytest.fixture(autouse=True)
def every_second_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorboard, "INTERVAL", 2)


def test_losses_rates_and_metrics_are_logged(brief: Make, train_in: TrainIn, tmp_path: Path):
    callback = train_in(brief(LOG))
    found = scalars(tmp_path / "run")
    own = {"validation/loss", "validation/token_accuracy", "validation/exact_match"}
    assert found.keys() == {"training/loss", "training/rate", *own}
    assert found["training/loss"] == {step: pytest.approx(callback.losses[step - 1]) for step in range(2, 13, 2)}
    for row in callback.rows:
        assert found["validation/loss"][row["step"]] == pytest.approx(row["validation_loss"])
        assert found["training/rate"][row["step"]] == pytest.approx(row["rate"])


def test_the_steps_after_a_checkpoint_are_not_doubled_when_training_continues(
    brief: Make, train_in: TrainIn, tmp_path: Path
):
    """The training fails after its seventh step; the last checkpoint is that of step 4."""
    train_in(brief(LOG), name="whole")

    def fail(*_: object) -> None:
        raise RuntimeError

    class Failing(type(train_in(brief(), stop_after=1, name="other"))):  # type: ignore[misc]
        def on_step_end(self, trainer: Any, loss: Any) -> None:
            super().on_step_end(trainer, loss)
            if trainer.progress.step == 7:
                raise RuntimeError

    from regard.training.train_run import train_run

    with pytest.raises(RuntimeError):
        train_run(brief(LOG), tmp_path / "run", Failing())
    assert max(scalars(tmp_path / "run")["training/loss"]) == 6
    resumed = train_in(brief(LOG))
    assert resumed.train_begins == [(4, 12)]
    assert scalars(tmp_path / "run") == scalars(tmp_path / "whole")


def test_without_the_package_training_is_refused_before_anything_is_written(
    brief: Make, train_in: TrainIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    monkeypatch.delitem(sys.modules, "regard.training.tensorboard")
    with pytest.raises(UserError, match=r"training\.log: .* pip install 'regard\[tensorboard\]'"):
        train_in(brief(LOG))
    assert list(tmp_path.iterdir()) == []
    assert train_in(brief()).progress.finished


def test_only_a_chosen_log_is_written(brief: Make, train_in: TrainIn, tmp_path: Path):
    train_in(brief(), stop_after=4)
    assert not (tmp_path / "run" / "tensorboard").exists()
