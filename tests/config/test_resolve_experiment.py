"""Experiments as arguments of the Python API: names, paths, dictionaries and `Experiment` objects."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from regard.config.loading import load_experiment, resolve_experiment
from regard.config.schema import Experiment
from regard.errors import UserError

COPY = {"data": {"task": "copy", "alphabet": "abc"}, "training": {"epochs": 2}}


def test_a_name_and_a_path_are_loaded_as_on_the_command_line(tmp_path: Path):
    path = tmp_path / "mine.yaml"
    path.write_text("extends: reverse\ntraining: {epochs: 7}\n")
    assert resolve_experiment("reverse") == load_experiment("reverse")
    assert (
        resolve_experiment(path) == resolve_experiment(str(path)) == load_experiment("reverse", ["training.epochs=7"])
    )


@pytest.mark.parametrize(
    "settings",
    [
        COPY,
        {"data.task": "copy", "data.alphabet": "abc", "training.epochs": 2},
        {"data": {"task": "copy"}, "data.alphabet": "abc", "training": {"epochs": 2, "rate": {}}},
    ],
)
def test_a_dictionary_may_be_nested_or_have_dotted_keys(settings: dict[str, Any]):
    experiment = resolve_experiment(settings)
    assert (experiment.data.task, experiment.data.alphabet, experiment.training.epochs) == ("copy", "abc", 2)
    assert isinstance(experiment, Experiment)


def test_a_dictionary_may_extend_a_recipe_or_a_file(tmp_path: Path):
    (tmp_path / "mine.yaml").write_text("extends: reverse\ntraining: {epochs: 7}\n")
    expected = load_experiment("reverse", ["training.epochs=7", "training.seed=3"])
    assert resolve_experiment({"training.seed": 3, "extends": str(tmp_path / "mine.yaml")}) == expected
    assert resolve_experiment({"extends": "reverse", "training": {"epochs": 7, "seed": 3}}) == expected


def test_an_experiment_is_equal_to_itself_and_not_changed_by_overrides():
    experiment = load_experiment("clauses-transformer")
    assert resolve_experiment(experiment) == experiment
    changed = resolve_experiment(experiment, {"training": {"epochs": 1}})
    assert changed.training.epochs == 1
    assert experiment == load_experiment("clauses-transformer") != changed
    assert changed.model == experiment.model


@pytest.mark.parametrize(
    "experiment", ["case", {"extends": "case"}, load_experiment("case")], ids=["name", "dict", "own"]
)
def test_overrides_switch_kinds_as_on_the_command_line(experiment: Any):
    """Options of the old kind are dropped."""
    expected = load_experiment("case", ["model.encoder.positions.kind=learned", "training.seed=5"])
    overrides = {"model": {"encoder.positions.kind": "learned"}, "training.seed": 5}
    assert resolve_experiment(experiment, overrides) == expected
    assert resolve_experiment(experiment, {}) == load_experiment("case")


def test_paths_are_relative_to_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    data = {"task": "files", "train": Path("a/train"), "validation": "a/validation", "source": "x", "target": "y"}
    experiment = resolve_experiment({"data": data})
    assert (experiment.data.train[0].path, experiment.data.validation.path) == (
        f"{tmp_path}/a/train",
        f"{tmp_path}/a/validation",
    )
    monkeypatch.chdir("/")
    assert resolve_experiment(experiment).data.train[0].path == f"{tmp_path}/a/train"
    with pytest.raises(
        UserError, match=rf"^the experiment: data.train: there is no {re.escape(str(tmp_path))}/a/train.x"
    ):
        resolve_experiment(experiment, check_files=True)


@pytest.mark.parametrize(
    ("experiment", "overrides", "message"),
    [
        (None, None, "None is not an experiment; give the name of a recipe, the path of a YAML file, a dictionary of "),
        ({}, None, "the dictionary: data.task: missing; choices: "),
        (
            {"data": {"task": "copi"}},
            None,
            "the dictionary: data.task: 'copi' is not a valid choice; did you mean 'copy'?",
        ),
        (
            {"data": {"task": "copy"}, "trainin": {}},
            None,
            "the dictionary: trainin: unknown key; did you mean 'training'?",
        ),
        (
            {"data": {"task": "copy"}, "training": 3},
            None,
            "the dictionary: training: 3 is not a section; it has the keys",
        ),
        (
            {"data": {"task": "copy"}, 3: 4},
            None,
            "the dictionary: the key 3 should be a string, such as 'training.seed'",
        ),
        (COPY | {"data.task": "reverse"}, None, "the dictionary: data.task: this key appears twice"),
        (
            {"extends": "cas"},
            None,
            "the dictionary: extends: 'cas' is neither a recipe nor a file; did you mean 'case'?",
        ),
        ({"extends": 3}, None, "the dictionary: extends: 3 should be a recipe's name or a file's path"),
        (
            "case",
            "training.seed=2",
            "overrides: 'training.seed=2' should be a dictionary, such as {'training.seed': 2}",
        ),
        ("case", {"training": {2: 3}}, "overrides: the key 2 should be a string"),
        ("case", {"training.seed": object}, "overrides: training.seed: 'builtins:object' is invalid: "),
        ("case", {"training..seed": 2}, "overrides: training.: unknown key"),
        (
            load_experiment("case"),
            {"model.dropout": 2},
            "overrides: model.dropout: 2 is invalid: input should be less ",
        ),
    ],
)
def test_a_mistake_is_reported_with_the_argument(experiment: Any, overrides: Any, message: str):
    with pytest.raises(UserError) as caught:
        resolve_experiment(experiment, overrides)
    assert str(caught.value).startswith(message)
