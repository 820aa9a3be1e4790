"""Exponential moving averages of the weights: formula, use, checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pretend_device import DEVICE, PretendDevice
from regard.config.schema import Experiment
from regard.errors import UserError
from regard.evaluation.losses import compute_losses
from regard.inference.translator import load
from regard.runs import named_weights
from regard.runs.weights import write_tensors
from regard.training import validation as validation_module
from regard.training.trainer import Trainer
from regard.training.weight_averages import WeightAverages

Make = Callable[..., Experiment]
NewTrainer = Callable[..., Trainer]
EMA = "training.ema_decay=0.25"


def test_averages_follow_the_formula_with_a_smaller_decay_at_the_start():
    model = torch.nn.Linear(1, 1, bias=False)
    averages = WeightAverages(model, 0.35)
    expected = model.weight.item()
    for step in range(1, 9):
        torch.nn.init.constant_(model.weight, 3.0**step)
        averages.update(step)
        decay = min(0.35, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * 3.0**step
        assert averages.averages["weight"].item() == pytest.approx(expected)
    assert model.weight.item() == 3.0**8


def test_averages_are_applied_within_the_context_only():
    model = torch.nn.Linear(3, 2)
    averages = WeightAverages(model, 0.9)
    start, place = model.weight.detach().clone(), model.weight.data_ptr()
    torch.nn.init.ones_(model.weight)
    with averages.applied():
        assert torch.equal(model.weight, start)
    assert model.weight.eq(1).all()
    assert torch.equal(averages.averages["weight"], start)
    assert model.weight.data_ptr() == place


def test_without_a_decay_the_weights_are_used_as_they_are():
    model = torch.nn.Linear(3, 2)
    averages = WeightAverages(model, None)
    averages.update(1)
    before = model.weight.detach().clone()
    with averages.applied():
        assert torch.equal(model.weight, before)
    assert averages.averages == {}


def test_the_averages_are_validated_and_saved_and_the_weights_are_trained(
    brief: Make, train_in: Any, tmp_path: Path, read_tensors: Any, monkeypatch: pytest.MonkeyPatch
):
    validated: list[dict[str, torch.Tensor]] = []

    def recording(model: Any, *arguments: Any, **options: Any) -> Any:
        validated.append({name: weight.clone() for name, weight in named_weights(model).items()})
        return compute_losses(model, *arguments, **options)

    monkeypatch.setattr(validation_module, "compute_losses", recording)
    train_in(brief(EMA), stop_after=4)
    train_in(brief(), stop_after=4, name="plain")
    saved, _ = read_tensors(tmp_path / "run" / "model.safetensors")
    state, _ = read_tensors(tmp_path / "run" / "state.safetensors")
    plain, _ = read_tensors(tmp_path / "plain" / "state.safetensors")
    assert not any(name.startswith("ema/") for name in plain)
    for name, average in saved.items():
        assert torch.equal(average, state[f"ema/{name}"])
        assert torch.equal(average, validated[0][name])
        assert not torch.equal(average, state[f"model/{name}"])
        assert torch.equal(state[f"model/{name}"], plain[f"model/{name}"]), "averages do not change the training"
    loaded = named_weights(load(tmp_path / "run").model)
    assert all(torch.equal(weight, saved[name]) for name, weight in loaded.items())


@pytest.mark.parametrize("steps", [3, 4, 5])
def test_a_stopped_training_with_averages_resumes_bit_identically(
    brief: Make, trained_brief: Any, train_in: Any, tmp_path: Path, same_training: Any, steps: int
):
    train_in(brief(EMA), stop_after=steps)
    assert train_in(brief(EMA)).progress.finished
    same_training(tmp_path / "run", trained_brief(EMA))


def test_a_state_without_its_averages_is_refused(brief: Make, train_in: Any, tmp_path: Path, read_tensors: Any):
    train_in(brief(EMA), stop_after=3)
    path = tmp_path / "run" / "state.safetensors"
    tensors, about = read_tensors(path)
    del tensors[next(name for name in tensors if name.startswith("ema/"))]
    write_tensors(path, tensors, about | {"seconds": 0.0})
    with pytest.raises(UserError, match=r"state\.safetensors: these are not the weights of the model"):
        train_in(brief(EMA))


def test_an_update_on_a_device_does_not_wait(brief: Make, new_trainer: NewTrainer, pretend_device: PretendDevice):
    trainer = new_trainer(brief(EMA), device=DEVICE)
    pretend_device.waits.clear()
    trainer.averages.update(1)
    with trainer.averages.applied():
        pass
    assert pretend_device.waits == []
