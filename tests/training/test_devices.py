"""Training on a pretend device (`tests/pretend_device.py`): what the program waits for, and interrupted runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import Parameter

from pretend_device import DEVICE, PretendDevice
from regard.config.schema import Experiment, ModelSection
from regard.process_group import ProcessGroup
from regard.training.callbacks import Callback
from regard.training.data_parallel import average_gradients
from regard.training.train_run import train_run
from regard.training.trainer import Trainer

Make = Callable[..., Experiment]
NewTrainer = Callable[..., Trainer]

TRANSFORMER = {"size": 24, "layers": 2, "heads": 2, "inner_size": 41}


def recurrent(cell: str, wiring: str = "after", **encoder: Any) -> dict[str, Any]:
    return {
        "encoder": {"cell": cell, "size": 8, "embedding": 5, "positions": {"kind": "sine", "width": 8}, **encoder},
        "decoder": {"cell": cell, "size": 11, "embedding": 3, "wiring": wiring},
        "attention": {"kind": "additive", "key_size": 7},
    }


def transformer(positions: str, mechanism: str = "multi-head") -> dict[str, Any]:
    own = {"embedding": 5, "positions": {"kind": positions}}
    return {
        "encoder": {"kind": "self-attention", **TRANSFORMER, **own},
        "decoder": {"kind": "transformer", **TRANSFORMER, **own},
        "attention": {"kind": mechanism} | ({"heads": 2, "key_size": 24} if mechanism == "multi-head" else {}),
    }


# Each with the number of times that a step waits.
MODELS: dict[str, tuple[dict[str, Any], int]] = {
    "gru": (recurrent("gru"), 1),
    "lstm-two-layers": (recurrent("lstm", "before", layers=2), 1),
    "tanh-input-feeding": (recurrent("tanh", "input-feeding"), 1),
    "ssru": (recurrent("ssru"), 0),
    "transformer-sine": (transformer("sine-added"), 0),
    "transformer-rotary": (transformer("rotary"), 0),
    "transformer-alibi": (transformer("alibi", "additive"), 0),
    "transformer-one-hot": (transformer("one-hot", "local"), 0),
    "transformer-learned": (transformer("learned", "coverage"), 0),
}


@pytest.mark.parametrize("ratio", [1, 0.5])
@pytest.mark.parametrize("name", MODELS)
def test_a_step_waits_for_the_lengths_that_are_packed_and_for_nothing_else(
    brief: Make, new_trainer: NewTrainer, pretend_device: PretendDevice, name: str, ratio: float
) -> None:
    model, waits = MODELS[name]
    section = ModelSection.model_validate({**model, "dropout": 0.2})
    experiment = brief(f"training.teacher_forcing.ratio={ratio}").model_copy(update={"model": section})
    trainer = new_trainer(experiment, Callback(), device=DEVICE)
    trainer.step()
    pretend_device.waits.clear()
    trainer.step()
    assert len(pretend_device.waits) == waits, pretend_device.waits
    assert all("recurrent_layers.py" in wait for wait in pretend_device.waits)


def test_a_stopped_training_continues_on_a_device_to_the_same_bits(
    brief: Make, new_callback: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pretend_device: PretendDevice
) -> None:
    monkeypatch.setattr("regard.training.train_run.training_device", lambda *arguments: DEVICE)
    for folder, stops in (("at-once", ()), ("stopped", (5, 3))):
        for stop in (*stops, None):
            train_run(brief(), tmp_path / folder, new_callback(stop_after=stop))
    at_once, stopped = (
        load_file(tmp_path / folder / "state.safetensors", device="cpu") for folder in ("at-once", "stopped")
    )
    assert at_once.keys() == stopped.keys()
    assert all(torch.equal(each, stopped[key]) for key, each in at_once.items())


def test_infinite_gradients_of_a_process_without_examples_have_no_effect() -> None:
    parameter = Parameter(torch.ones(3))
    parameter.grad = torch.tensor([math.inf, math.nan, 1.0])
    sent: list[Tensor] = []

    class Recording(ProcessGroup):
        def sum(self, values: Tensor) -> Tensor:
            sent.append(values.clone())
            return values + 1  # from the other process

    average_gradients([parameter], torch.tensor([math.inf]), 0, Recording(size=2))
    assert sent[0].tolist() == [0] * 6
    assert parameter.grad.tolist() == [1, 1, 1]
