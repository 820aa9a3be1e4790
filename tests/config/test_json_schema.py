"""The JSON schema accepts what `Experiment.load` accepts, and refuses what it refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from regard.config import kinds, recipes
from regard.config.families import Kinds
from regard.config.schema import Experiment
from regard.config.yaml_source import YamlLoader
from regard.errors import UserError

ROOT = Path(__file__).parent.parent.parent
FAMILIES: list[Kinds[Any]] = [each for each in vars(kinds).values() if isinstance(each, Kinds)]
VALID = jsonschema_rs.validator_for(Experiment.json_schema())


def read_yaml(text: str) -> Any:
    return yaml.load(text, Loader=YamlLoader)


def documented_experiments() -> Iterator[str]:
    """The experiment files in the documentation; studies are YAML, too, but have a question or an `experiment`."""
    for page in sorted((ROOT / "docs").glob("*.md")):
        for block in re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
            if "extends" in read_yaml(block) and "question" not in read_yaml(block):
                yield block


@pytest.mark.parametrize("name", recipes.recipe_names())
def test_every_recipe_is_valid(name: str):
    assert not list(VALID.iter_errors(read_yaml(recipes.read_recipe(name))))
    assert not list(VALID.iter_errors(read_yaml(str(Experiment.load(name))))), "with all of its settings, too"


@pytest.mark.parametrize("text", [*documented_experiments()], ids=lambda text: text.split()[1])
def test_every_experiment_in_the_documentation_is_valid(text: str):
    assert not list(VALID.iter_errors(read_yaml(text)))


def test_the_documentation_has_experiments():
    assert len([*documented_experiments()]) >= 4


INVALID = [
    {"extends": "case", "trainig": {"epochs": 3}},
    {"extends": "case", "training": {"epoch": 3}},
    {"extends": "case", "training": {"epochs": 0}},
    {"extends": "case", "training": {"epochs": "many"}},
    {"extends": "case", "training": {"precision": "float8"}},
    {"extends": "case", "training": {"rate": {"peak": 0}}},
    {"extends": "case", "training": {"rate": {"kind": "plateau", "patients": 3}}},
    {"extends": "case", "training": {"rate": {"patients": 3}}},
    {"extends": "case", "training": {"optimizer": {"kind": "adamm"}}},
    {"extends": "case", "model": {"attention": {"kind": "aditive"}}},
    {"extends": "case", "model": {"attention": {"kind": "dot", "key_size": 3}}},
    {"extends": "case", "model": {"encoder": {"positions": {"kind": "sine", "widht": 3}}}},
    {"extends": "case", "model": {"decoder": {"cell": "gruu"}}},
    {"extends": "case", "data": {"task": "cases"}},
    {"extends": "multi30k", "data": {"text": {"unit": "bytes"}}},
    {"extends": 3},
    {"description": "neither data nor what it extends"},
    ["a list"],
]


@pytest.mark.parametrize("settings", INVALID, ids=str)
def test_what_loading_refuses_is_invalid(settings: Any):
    with pytest.raises(UserError):
        Experiment.load(settings)
    assert list(VALID.iter_errors(settings))


@pytest.mark.parametrize("key", ["kind", "cell"])
def test_a_class_outside_regard_is_valid(key: str):
    for name in ("./mine.py:Mine", "package.module:Mine"):
        assert VALID.is_valid({"extends": "case", "model": {"encoder": {key: name}}})
    assert VALID.is_valid({"extends": "case", "model": {"encoder": {"kind": "./mine.py:Mine", "own_option": 3}}})


def test_every_kind_is_listed_with_its_description():
    listed = {each.get("const"): each["description"] for each in choices(Experiment.json_schema())}
    for family in FAMILIES:
        for kind in family:
            assert listed[kind], f"{family.noun} {kind}"


def choices(schema: Any) -> Iterator[dict[str, Any]]:
    """All alternatives with a description, wherever they are."""
    if isinstance(schema, dict):
        yield from [each for each in schema.get("anyOf", []) if "description" in each]
    for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else []:
        yield from choices(inner)


def properties(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """All settings, wherever they are."""
    if isinstance(schema, dict):
        if "additionalProperties" in schema:
            yield from schema["properties"].items()
        for inner in schema.values():
            yield from properties(inner)


def test_every_setting_has_a_description():
    found = [*properties(Experiment.json_schema())]
    assert len(found) > 100
    assert [name for name, setting in found if not setting.get("description")] == []


def test_defaults_and_bounds_are_those_of_the_sections():
    training = Experiment.json_schema()["$defs"]["TrainingSection"]["properties"]
    field = training["epochs"]
    assert (field["type"], field["default"], field["minimum"], field["maximum"]) == ("integer", 10, 1, 1_000_000)
    assert training["optimizer"]["$ref"] == "#/$defs/OptimizerSection"
