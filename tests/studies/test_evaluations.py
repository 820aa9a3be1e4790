"""Evaluations survive JSON, and each has a file of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from regard.config import loading, recipes
from regard.studies.evaluations import DecodeOptions, EvaluationSpec, fingerprint, identifying_settings
from regard.tasks import SPLITS, DataSection
from regard.tasks.copy import CopySection

decode_options = st.builds(
    DecodeOptions,
    split=st.sampled_from(SPLITS),
    beam=st.integers(1, 10_000),
    length_penalty=st.none() | st.floats(0, 10),
)


def data_of(name: str, *overrides: str) -> DataSection:
    return loading.load_experiment(name, overrides).data


TEST_SETS = (["data.test=2016_flickr"], ["data.test=2018_flickr"])
FILES = "data={task: files, train: a, validation: ä, text: {unit: words}}"


@pytest.mark.parametrize(
    "data", [*map(data_of, recipes.recipe_names()), data_of("copy", FILES)], ids=lambda data: data.task
)
def test_an_evaluation_survives_json(data: DataSection):
    evaluation = EvaluationSpec(data, DecodeOptions(split="validation", beam=5, length_penalty=0.5))
    again = EvaluationSpec.from_dict(json.loads(json.dumps(evaluation.to_dict())))
    assert again == evaluation
    assert type(again.data) is type(data)
    assert again.file(Path("run")) == evaluation.file(Path("run"))


@given(options=decode_options)
def test_all_options_survive_json(options: DecodeOptions):
    evaluation = EvaluationSpec(CopySection(), options)
    assert EvaluationSpec.from_dict(json.loads(json.dumps(evaluation.to_dict()))) == evaluation


@given(one=decode_options, other=decode_options)
def test_options_share_a_file_only_if_they_are_equal(one: DecodeOptions, other: DecodeOptions):
    assert (EvaluationSpec(CopySection(), one).file(Path()) == EvaluationSpec(CopySection(), other).file(Path())) == (
        one == other
    )


def test_a_test_set_counts_only_if_it_is_not_the_default():
    """Regard 0.5 had one test set of Multi30k; test_compatibility.py has the names of its files."""
    default, explicit, other = (data_of("multi30k", *each) for each in ([], *TEST_SETS))
    assert (identifying_settings(default), default.test_set) == (identifying_settings(explicit), "2016_flickr")
    assert identifying_settings(other) == identifying_settings(default) | {"test": "2018_flickr"}


def test_the_file_depends_on_every_option():
    others: dict[str, Any] = {"split": "train", "beam": 2, "length_penalty": 0.0}
    assert others.keys() == DecodeOptions.model_fields.keys()
    files = {EvaluationSpec(CopySection(), DecodeOptions(**{key: value})).file(Path()) for key, value in others.items()}
    assert len(files | {EvaluationSpec(CopySection(), DecodeOptions()).file(Path())}) == 4


OTHERS = {"train": 5, "validation": 5, "test": 5, "seed": 5, "min_length": 5, "max_length": 5, "alphabet": "aé"}


def test_the_file_depends_on_every_setting_of_the_data():
    assert {"task", *OTHERS} == set(CopySection.model_fields)
    others = [CopySection(**{key: value}) for key, value in OTHERS.items()]
    files = {
        EvaluationSpec(data, DecodeOptions()).file(Path()) for data in (CopySection(), *others, data_of("reverse"))
    }
    assert len(files) == len(OTHERS) + 2


def test_the_file_is_in_the_run_directory():
    path = EvaluationSpec(CopySection(), DecodeOptions()).file(Path("studies/runs/copy-1"))
    assert (path.parent, path.suffix) == (Path("studies/runs/copy-1/evaluations"), ".json")


def test_a_digest_ignores_the_order_of_keys_and_accepts_any_text():
    assert fingerprint({"a": 1, "b": "ä"}) == fingerprint({"b": "ä", "a": 1}) != fingerprint({"a": "ä", "b": 1})
    assert len(fingerprint({"half a character": "\ud800"})) == 10


@pytest.mark.parametrize(
    "invalid", [{"beam": 0}, {"beam": 1.5}, {"length_penalty": -1.0}, {"split": "all"}, {"bem": 2}]
)
def test_invalid_options_are_refused(invalid: dict[str, Any]):
    with pytest.raises(ValidationError):
        DecodeOptions(**invalid)
