"""Comparison of training runs: bit by bit, except for durations."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

from regard.config.schema import Experiment
from regard.training.train_run import train_run

FILES = {
    ".lock",
    "config.yaml",
    "metrics.jsonl",
    "model.safetensors",
    "run.json",
    "state.safetensors",
    "vocabulary.json",
}


def tensors_of(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    with safe_open(path, "pt") as file:
        about = json.loads(file.metadata()["regard"])
        about.pop("seconds", None)
        return {name: file.get_tensor(name) for name in file.keys()}, about  # noqa: SIM118


def rows_of(run: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def assert_same_training(one: Path, other: Path, *, same_start: bool = True) -> None:
    assert rows_of(one) == rows_of(other)
    for name in ("model.safetensors", "state.safetensors"):
        (mine, about_mine), (theirs, about_theirs) = tensors_of(one / name), tensors_of(other / name)
        assert same_start == (about_mine.pop("digest") == about_theirs.pop("digest"))
        assert about_mine == about_theirs
        assert mine.keys() == theirs.keys()
        for key in mine:
            assert mine[key].dtype == theirs[key].dtype
            assert torch.equal(mine[key], theirs[key]), f"{name}: {key} differs"
    assert set(os.listdir(one)) == set(os.listdir(other)) == FILES


@pytest.fixture(scope="session")
def same_training() -> Callable[[Path, Path], None]:
    return assert_same_training


@pytest.fixture(scope="session")
def read_tensors() -> Callable[[Path], tuple[dict[str, torch.Tensor], dict[str, Any]]]:
    return tensors_of


@pytest.fixture(scope="session")
def read_rows() -> Callable[[Path], list[dict[str, Any]]]:
    return rows_of


@pytest.fixture
def train_in(tmp_path: Path, new_callback: Callable[..., Any]) -> Callable[..., Any]:
    """Train an experiment in `tmp_path / name`; returns the callback."""

    def run(experiment: Experiment, stop_after: int | None = None, name: str = "run") -> Any:
        callback = new_callback(stop_after)
        callback.progress = train_run(experiment, tmp_path / name, callback).progress
        return callback

    return run
