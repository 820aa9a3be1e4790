"""Python values as settings of a study."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.config.draft import Override
from regard.config.loading import resolve_experiment
from regard.config.schema import Experiment
from regard.errors import UserError
from regard.nn import DotAttention
from regard.studies import parsing
from regard.studies.arguments import from_values, plain_value
from regard.studies.definition import Study

SECTIONS = ("vary", "test", "overrides", "baseline")


def build(**given: Any) -> Study:
    sections = {name: given.pop(name, None) for name in SECTIONS}
    return parsing.build_study("s", from_values(sections, {"experiment": "copy"} | given))


def test_python_values_and_a_file_define_the_same_study():
    text = """
experiment: copy
set: {training: {epochs: 2}}
vary:
  model.attention.kind: [none, scaled-dot]
  size: {small: {model.encoder.size: 32}, large: {model.encoder.size: 64, model.decoder.size: 128}}
test: {beam: [1, 5]}
seeds: 5
baseline: {model.attention.kind: scaled-dot}
metrics: [exact_match, loss]
method: bootstrap
"""
    from_file = parsing.build_study("s", parsing.parse_study(text, "s.yaml"))
    groups = {"small": {"model.encoder.size": 32}, "large": {"model": {"encoder.size": 64, "decoder": {"size": 128}}}}
    from_python = build(
        overrides={"training.epochs": 2},
        vary={"model.attention.kind": ("none", "scaled-dot"), "size": groups},
        test={"beam": range(1, 6, 4)},
        seeds=5,
        baseline={"model.attention.kind": "scaled-dot"},
        metrics=("exact_match", "loss"),
        method="bootstrap",
    )
    assert from_python.plan == from_file.plan
    assert from_python.conditions == from_file.conditions
    assert parsing.extends_study(from_python, from_python.dump(), "s.yaml")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((1, 2.5, True, None, "a"), [1, 2.5, True, None, "a"]),
        (range(3), [0, 1, 2]),
        (Path("a/b"), str(Path("a/b"))),
        (np.float64(0.5), 0.5),
        (np.int64(3), 3),
        (Fraction(1, 4), 0.25),
        ({1: {"a": (2,)}, False: "b"}, {"1": {"a": [2]}, "false": "b"}),
    ],
)
def test_values_become_those_that_yaml_has(value: object, expected: object):
    plain = plain_value(value, "vary")
    assert plain == expected
    assert type(plain) is type(expected)


@pytest.mark.parametrize("value", [{1, 2}, b"ab", object(), np.zeros(2), len])
def test_other_values_are_refused_with_their_place(value: object):
    with pytest.raises(UserError, match=r"^vary: a: .* should be a text, a number, a truth value, None, or a list or "):
        build(vary={"a": [value]})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vary": ["a"]}, "vary: ['a'] should be a dict, such as {'model.attention.kind': ['none', 'dot']}"),
        ({"overrides": "a=1"}, "overrides: 'a=1' should be a dict, such as {'training.epochs': 2}"),
        ({"baseline": "dot"}, "baseline: 'dot' should be a dict, such as {'model.attention.kind': 'none'}"),
        ({"vary": {"model.attention.kind": "dot"}}, "vary: model.attention.kind: this should be a list of values, or"),
        ({"vary": {"model.attention.kind": ["dott"]}}, "vary: model.attention.kind: 'dott' is not a valid choice; did"),
        ({"vary": {"model": {"dropout": [0.1]}}}, "an axis with the values of a key is written with dots, model.drop"),
        ({"vary": {3: [4]}}, "vary: 3: unknown key"),
        ({"test": {"beem": [1]}}, "test: beem: unknown key; did you mean 'beam'?"),
        ({"overrides": {"training.sed": 1}}, "overrides: training.sed: unknown key; did you mean 'seed'?"),
        ({"overrides": {"training": {"seed": 1}}}, "overrides: training.seed: a study repeats each run with other see"),
        ({"baseline": {"x": 1}}, "regard.compare: baseline: 'x' is not an axis"),
        ({"seeds": 0}, "regard.compare: seeds: 0 is invalid"),
        ({"seeds": "x"}, "regard.compare: seeds: 'x' is invalid: input should be a valid integer"),
        ({"metrics": ["blue"]}, "'blue' is not a metric; did you mean 'bleu'?"),
        ({"metrics": 3}, "regard.compare: metrics: 3 is invalid: input should be a valid list"),
        ({"method": "bootstrp"}, "regard.compare: method: 'bootstrp' is not a valid choice; did you mean 'bootstrap'?"),
    ],
)
def test_invalid_values_are_reported_with_the_name_of_their_argument(arguments: dict[str, Any], message: str):
    with pytest.raises(UserError) as error:
        build(**arguments)
    assert message in str(error.value)


def test_an_experiment_is_built_from_nested_and_dotted_keys(brief: Callable[..., Experiment]):
    settings = brief("training.epochs=7").model_dump()
    del settings["training"]["epochs"]
    assert resolve_experiment(settings | {"training.epochs": 7}) == brief("training.epochs=7")
    assert resolve_experiment(brief()) == brief()


def test_overrides_of_a_given_experiment_are_those_of_a_file(brief: Callable[..., Experiment]):
    given = brief("model.attention.kind=multi-head", "model.attention.heads=2")
    override = Override(("model", "attention", "kind"), "dot", "vary")
    assert resolve_experiment(given, [override], check_files=True).model_dump() == brief().model_dump()
    with pytest.raises(UserError, match=r"^vary: training.epochs: 0 is invalid"):
        resolve_experiment(given, [Override(("training", "epochs"), 0, "vary")], check_files=True)


def test_relative_paths_refer_to_the_current_folder(dictionary: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(dictionary.parent)
    given = resolve_experiment({"data": {"task": "g2p", "file": dictionary.name}})
    assert getattr(given.data, "file") == str(dictionary)  # noqa: B009 (other tasks have no file)
    missing = Override(("data", "file"), "nowhere", "overrides")
    with pytest.raises(UserError, match=r"^overrides: data.file: there is no "):
        resolve_experiment(given, [missing], check_files=True)
    assert resolve_experiment(given, [missing])


def test_a_class_is_given_by_its_import_path():
    assert plain_value({"a": [DotAttention, "dot"]}, "vary") == {"a": ["regard.nn.mechanisms:DotAttention", "dot"]}
