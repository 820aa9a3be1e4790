"""`--device` and `--precision`: every command that loads models has them, and they reach the models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.cli import loading, options
from regard.cli.app import RegardCommands
from regard.errors import UserError
from regard.inference import run_ensemble

Regard = Callable[..., Any]
WITHOUT_MODELS = {"recipes", "config", "schema", "train", "average", "compare", "study", "clean", "data", "lab"}
# Arguments after the run directory. MISSING is a file that does not exist: it would be an error to read it.
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "translate": ("abc",),
    "score": ("--source", "MISSING", "--target", "MISSING"),
    "evaluate": ("--source", "MISSING", "--reference", "MISSING"),
    "show": ("abc", "--json"),
    "serve": ("--port", "0"),
    "explain": ("abc",),
    "trace": ("abc",),
    "gradients": (),
    "probe": (),
    "align": ("--gold", "MISSING"),
    "faithful": ("abc",),
}
WITH_PRECISION = {"translate", "score", "evaluate", "serve"}
COMMANDS = sorted(set(RegardCommands.lazy_commands) - WITHOUT_MODELS)


def arguments(command: str, run: Path) -> tuple[object, ...]:
    return (command, run, *(part.replace("MISSING", str(run / "missing")) for part in ARGUMENTS[command]))


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The device and the precision of each model that would be loaded, on a machine with a GPU; none is."""
    found: list[tuple[str, str]] = []

    def load_model(run: object, codec: object, device: torch.device, precision: str) -> None:
        found.append((str(device), precision))
        raise UserError("loaded")

    monkeypatch.setattr(run_ensemble, "load_model", load_model)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "GPU")
    return found


def test_every_command_with_models_is_tested():
    assert sorted(ARGUMENTS) == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_the_device_reaches_the_model(command: str, regard: Regard, trained: Path, loaded: list[tuple[str, str]]):
    result = regard(*arguments(command, trained), "--device", "cuda:1")
    assert (result.code, result.out, result.err) == (2, "", "regard: loaded\n")
    assert loaded == [("cuda:1", "float32")]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_device_that_auto_selects_is_reported(
    command: str, regard: Regard, trained: Path, loaded: list[tuple[str, str]]
):
    result = regard(*arguments(command, trained))
    note = "regard: note: the device is cuda (GPU); --device selects another\n"
    assert (result.code, result.out, result.err) == (2, "", f"{note}regard: loaded\n")
    assert loaded == [("cuda", "float32")]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_device_that_is_not_there_is_refused_before_any_input_is_read(command: str, regard: Regard, trained: Path):
    result = regard(*arguments(command, trained), "--device", "cuda:99")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(("regard: device: this machine has no 'cuda:99'", "regard: device: there is no"))
    assert regard(*arguments(command, trained), "--device", "gpu").err.startswith("regard: device: 'gpu' is not a")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_precision_reaches_the_model_of_a_search(
    command: str, regard: Regard, trained: Path, loaded: list[tuple[str, str]]
):
    result = regard(*arguments(command, trained), "--precision", "float16", "--device", "cuda")
    assert result.code == 2
    assert loaded == [("cuda", "float16")] * (command in WITH_PRECISION)
    assert command in WITH_PRECISION or "No such option" in result.err


@pytest.mark.parametrize("command", sorted(WITH_PRECISION))
def test_a_precision_that_the_cpu_does_not_have_is_refused(command: str, regard: Regard, trained: Path):
    result = regard(*arguments(command, trained), "--precision", "float16", "--device", "cpu")
    assert (result.code, result.out) == (2, "")
    assert result.err == "regard: precision: float16 needs a GPU; on a CPU, choose bfloat16 or float32\n"


def test_the_device_is_reported_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, loaded: list[tuple[str, str]]
):
    monkeypatch.setattr(options, "MODEL_OPTIONS", options.ModelOptions())
    assert [loading.select_model_options() for _ in range(2)] == [("cuda", "float32")] * 2
    assert capsys.readouterr().err.count("the device is") == 1


def test_on_the_cpu_nothing_is_reported_and_bfloat16_translates(regard: Regard, trained: Path):
    result = regard("translate", trained, "abc", "--precision", "bfloat16", "--device", "cpu")
    assert (result.code, result.out, result.err) == (0, "abc\n", "")
