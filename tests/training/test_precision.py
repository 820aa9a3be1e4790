"""Training in bfloat16 and training of compiled models."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from regard import devices
from regard.config.schema import Experiment
from regard.errors import UserError
from regard.training.train_run import train_run
from regard.training.trainer import Trainer

Make = Callable[..., Experiment]
TRANSFORMER = (
    "model.encoder.kind=self-attention",
    "model.decoder.kind=transformer",
    "model.decoder.embedding=16",
    "model.attention.kind=multi-head",
)


def recorded_precision(run: Path) -> str:
    return json.loads((run / "run.json").read_text())["precision"]


@pytest.mark.parametrize("model", [(), TRANSFORMER], ids=["recurrent", "transformer"])
def test_training_in_bfloat16_resumes_bit_identically(
    model: tuple[str, ...],
    brief: Make,
    trained_brief: Callable[..., Path],
    train_in: Any,
    tmp_path: Path,
    same_training: Callable[[Path, Path], None],
):
    settings = (*model, "training.precision=bfloat16")
    train_in(brief(*settings), stop_after=5)
    resumed = train_in(brief(*settings))
    assert len(resumed.losses) == 7
    whole = trained_brief(*settings)
    same_training(tmp_path / "run", whole)
    assert recorded_precision(whole) == "bfloat16"


def test_bfloat16_changes_losses_by_rounding(brief: Make, train_in: Any):
    single = train_in(brief("training.precision=float32"), name="float32").losses
    half = train_in(brief("training.precision=bfloat16"), name="bfloat16").losses
    assert half != single
    assert half == pytest.approx(single, rel=0.01)


def test_products_are_in_bfloat16_and_weights_and_losses_in_float32(brief: Make, new_trainer: Callable[..., Trainer]):
    trainer = new_trainer(brief("training.precision=bfloat16"))
    assert trainer.precision == "float32", "new_trainer creates its run in float32"
    trainer.precision = "bfloat16"
    types: set[torch.dtype] = set()
    for module in trainer.model.modules():
        if isinstance(module, nn.Linear):
            module.register_forward_hook(lambda _module, _inputs, output: types.add(output.dtype))
    trainer.step()
    assert types == {torch.bfloat16}
    assert {weight.dtype for weight in trainer.model.parameters()} == {torch.float32}
    assert {weight.grad.dtype for weight in trainer.model.parameters() if weight.grad is not None} == {torch.float32}


def test_auto_is_decided_once_and_recorded(brief: Make, train_in: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(devices, "_has_fast_bfloat16", lambda _device: True)
    train_in(brief(), stop_after=1, name="small")
    assert recorded_precision(tmp_path / "small") == "float32"  # of less than a million parameters
    monkeypatch.setattr(devices, "MIN_PARAMETERS", 1_000)
    for fast, precision in ((True, "bfloat16"), (False, "float32")):
        monkeypatch.setattr(devices, "_has_fast_bfloat16", lambda _device, fast=fast: fast)
        train_in(brief(), stop_after=1, name=precision)
        assert recorded_precision(tmp_path / precision) == precision
    for step, settings in ((2, ()), (3, ("training.precision=bfloat16",))):  # on hardware without it
        continued = train_in(brief(*settings), stop_after=1, name="bfloat16")
        assert recorded_precision(tmp_path / "bfloat16") == "bfloat16"
        assert continued.progress.step == step
    with pytest.raises(UserError, match=r"  training\.precision = 'auto', not 'float32'"):
        train_in(brief("training.precision=float32"), name="bfloat16")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.precision=float16", "precision: float16 needs a GPU"),
        ("training.device=cuda:77", r"device: (there is no|this machine has no) 'cuda:77'"),
        (
            "training.compile=true",
            r"training\.compile: torch\.compile does not work .*: there is no C\+\+ compiler; set",
        ),
    ],
)
def test_what_the_machine_cannot_do_is_refused_before_data_is_read_or_anything_is_written(
    brief: Make, new_callback: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, override: str, message: str
):
    def fail(_function: object) -> None:
        raise RuntimeError("\nthere is no C++ compiler\nand a long explanation")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch, "compile", fail)
    callback = new_callback()
    with pytest.raises(UserError, match=message):
        train_run(brief(override), tmp_path / "run", callback)
    assert callback.read == {}
    assert list(tmp_path.iterdir()) == []


def test_a_compiled_model_takes_the_steps(
    brief: Make, new_trainer: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch
):
    calls: list[nn.Module] = []

    def compile_model(model: nn.Module) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            calls.append(model)
            return model(*arguments)

        return call

    monkeypatch.setattr(torch, "compile", compile_model)
    trainer = new_trainer(brief("training.compile=true"))
    trainer.step()
    assert calls == [trainer.model]
