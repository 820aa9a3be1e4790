"""Weights are compared with the settings and the vocabulary before memory for them is allocated."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

import regard
from regard.config.schema import Experiment
from regard.errors import UserError
from regard.inference import model_loading
from regard.nn.build import build_model
from regard.runs import MODEL, STATE, Run, expected_shapes, named_weights
from regard.training.train_run import train_run


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    """A copy of a run that may be damaged."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


def edit_settings(run: Path, **model: Any) -> None:
    """Change keys of `model.encoder` in the settings of a run."""
    settings = yaml.safe_load((run / "config.yaml").read_text())
    settings["model"]["encoder"] |= model
    (run / "config.yaml").write_text(yaml.safe_dump(settings))


def edit_metadata(path: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    """Change what Regard has written to the header of a safetensors file."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        metadata = json.loads(file.metadata()["regard"])
    save_file(load_file(path), path, {"regard": edit(metadata)})


def test_shapes_are_known_without_weights_and_random_numbers(tiny: Callable[..., Experiment]):
    build = partial(build_model, tiny().model, 11, 13)
    state = torch.get_rng_state()
    shapes = expected_shapes(build)
    assert torch.equal(torch.get_rng_state(), state)
    assert shapes == {name: tuple(weight.shape) for name, weight in named_weights(build()).items()}


def test_sizes_are_compared_with_the_weights_before_they_are_allocated(copied: Path, monkeypatch: pytest.MonkeyPatch):
    edit_settings(copied, embedding=16_384, layers=30)
    edit_metadata(copied / MODEL, lambda metadata: "{}")  # as of a version that wrote no digest
    devices = []

    def recording(*arguments: Any) -> Any:
        model = build_model(*arguments)
        devices.extend({parameter.device.type for parameter in model.parameters()})
        return model

    monkeypatch.setattr(model_loading, "build_model", recording)
    with pytest.raises(UserError, match=r"model\.safetensors: these are not the weights of the model that config"):
        regard.load(copied)
    assert devices == ["meta"]


def test_weights_of_another_run_with_the_same_shapes_are_refused(
    trained_brief: Callable[..., Path], brief: Callable[..., Experiment], tmp_path: Path, new_callback: Any
):
    path = Path(shutil.copytree(trained_brief(), tmp_path / "run"))
    for name in (MODEL, STATE):
        shutil.copy(trained_brief("training.seed=2") / name, path / name)
    with pytest.raises(UserError, match=r"run/model\.safetensors: these weights belong to a run with other settings"):
        regard.load(path)
    with pytest.raises(UserError, match=r"run/state\.safetensors: these weights belong to a run with other settings"):
        train_run(brief(), path, new_callback())


def test_weights_of_another_vocabulary_are_refused(copied: Path):
    vocabulary = json.loads((copied / "vocabulary.json").read_text())
    vocabulary["target"][-2:] = reversed(vocabulary["target"][-2:])
    (copied / "vocabulary.json").write_text(json.dumps(vocabulary))
    with pytest.raises(UserError, match=r"belong to a run with other settings or another vocabulary"):
        regard.load(copied)


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [("", "description", "new"), ("decoding", "length_extra", 7), ("training", "threads", 2)],
)
def test_settings_that_do_not_concern_the_weights_may_be_edited(copied: Path, section: str, key: str, value: Any):
    settings = yaml.safe_load((copied / "config.yaml").read_text())
    (settings[section] if section else settings)[key] = value
    (copied / "config.yaml").write_text(yaml.safe_dump(settings))
    assert regard.load(copied).translate(["abc"])[0].text == "abc"


def test_weights_without_a_digest_are_accepted(copied: Path):
    edit_metadata(copied / MODEL, lambda metadata: json.dumps({"step": metadata["step"]}))
    assert regard.load(copied).translate(["abc"])[0].text == "abc"


@pytest.mark.parametrize("metadata", ["[" * 2_000, "[]", "null", "{", "1e999"])
def test_metadata_that_regard_has_not_written_is_refused(copied: Path, metadata: str):
    edit_metadata(copied / MODEL, lambda _: metadata)
    with pytest.raises(UserError, match=r"run/model\.safetensors: this file is damaged"):
        regard.load(copied)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64, torch.bool])
def test_weights_of_another_type_are_refused(copied: Path, dtype: torch.dtype):
    weights = {name: weight.to(dtype) for name, weight in load_file(copied / MODEL).items()}
    save_file(weights, copied / MODEL, {"regard": "{}"})
    with pytest.raises(UserError, match=r"model\.safetensors: this file is damaged: .* is of type .*, not F32"):
        regard.load(copied)


def test_optimizer_state_of_another_shape_is_refused(
    trained_brief: Callable[..., Path], brief: Callable[..., Experiment], tmp_path: Path, new_callback: Any
):
    path = Path(shutil.copytree(trained_brief(), tmp_path / "run"))
    with Run(path).open_tensors(STATE) as state:
        tensors = {name: state.tensor(name) for name in state.shapes}
        metadata = state.metadata
    name = next(name for name in tensors if name.endswith("exp_avg"))
    tensors[name] = torch.zeros(2, 2, 2)
    Run(path).write_tensors(STATE, tensors, metadata | {"finished": ""})
    with pytest.raises(UserError, match=r"state\.safetensors: .*the optimizer's state of .* is incomplete"):
        train_run(brief(), path, new_callback())


def test_a_tensor_outlives_the_file_that_it_was_read_from(copied: Path):
    with Run(copied).open_tensors(MODEL) as file:
        name = next(iter(file.shapes))
        tensor = file.tensor(name)
    before = tensor.clone()
    (copied / MODEL).write_bytes(bytes((copied / MODEL).stat().st_size))
    assert torch.equal(tensor, before)
