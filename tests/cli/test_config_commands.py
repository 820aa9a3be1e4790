"""`regard config` and `regard schema`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.config.schema import Experiment
from regard.runs import Run

Regard = Callable[..., Any]


def test_the_output_is_an_experiment_file(regard: Regard, tmp_path: Path):
    changed = ("--set", "training.seed=7", "--set", "model.attention.kind=additive")
    (tmp_path / "mine.yaml").write_text(regard("config", "case", *changed).out)
    expected = Experiment.load("case", {"training.seed": 7, "model.attention.kind": "additive"})
    assert Experiment.load(tmp_path / "mine.yaml") == expected


def test_json_has_value_default_and_meaning(regard: Regard):
    settings = json.loads(regard("config", "case", "--set", "training.seed=7", "--json").out)
    seed = settings["training.seed"]
    assert (seed["value"], seed["default"]) == (7, 1)
    assert seed["description"].startswith("Seed of the initial weights")


def test_a_run_directory_is_printed(regard: Regard, trained: Path, tmp_path: Path):
    (tmp_path / "again.yaml").write_text(regard("config", trained).out)
    assert Experiment.load(tmp_path / "again.yaml") == Run(trained).experiment
    settings = json.loads(regard("config", trained, "--set", "training.epochs=99", "--json").out)
    assert settings["training.epochs"]["value"] == 99


def test_mistakes_are_user_errors(regard: Regard):
    for arguments, message in [
        (["none"], "'none' is neither a recipe nor a file"),
        (["case", "--set", "training.epoch=3"], "did you mean 'epochs'?"),
    ]:
        done = regard("config", *arguments)
        assert (done.code, done.out) == (2, "")
        assert message in done.err


def test_the_schema_is_that_of_the_python_api(regard: Regard):
    assert json.loads(regard("schema").out) == Experiment.json_schema()
