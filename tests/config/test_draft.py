"""Layers of settings: switching a kind, options of other kinds, inherited descriptions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from regard.config import loading
from regard.config.schema import Experiment
from regard.config.training_section import TrainingSection
from regard.errors import UserError

COPY = "data: {task: copy}\n"


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(content: str, *overrides: str) -> Experiment:
    Path("mine.yaml").write_text(content)
    return loading.load_experiment("mine.yaml", overrides)


def error_message(content: str, *overrides: str) -> str:
    with pytest.raises(UserError) as error:
        load(content, *overrides)
    return str(error.value)


def test_an_option_of_another_kind_is_refused_with_its_line_and_the_valid_options():
    message = error_message(COPY + "model:\n  attention:\n    kind: additive\n    heads: 2\n")
    assert message == (
        "mine.yaml, line 5: model.attention.heads: 'additive' attention has no option heads (an option of multi-head); "
        "it has normalizer, unit_norm, temperature, value_size, key_size"
    )


@pytest.mark.parametrize(
    "overrides",
    [
        ("model.attention.kind=additive", "model.attention.heads=2"),
        ("model.attention.heads=2", "model.attention.kind=additive"),
        ("model.attention={kind: additive, heads: 2}",),
    ],
)
def test_overrides_are_one_layer_in_any_order(overrides: tuple[str, ...]):
    assert "'additive' attention has no option heads" in error_message(COPY, *overrides)


def test_a_new_kind_resets_the_options_of_the_old_kind_and_keeps_shared_ones():
    content = COPY + "model:\n  attention: {kind: multi-head, heads: 2, key_size: 12, normalizer: hard}\n"
    attention = load(content, "model.attention.kind=additive").model.attention
    shared = {"key_size": 12, "normalizer": "hard", "unit_norm": False, "temperature": None, "value_size": None}
    assert attention.model_dump() == {"kind": "additive", **shared}
    assert load(content, "model.attention.kind=none").model.attention.model_dump() == {"kind": "none"}


def test_the_same_kind_again_resets_nothing():
    content = COPY + "model:\n  attention: {kind: multi-head, heads: 2}\n"
    assert load(content, "model.attention.kind=multi-head").model.attention.options()["heads"] == 2


SCHEDULES = """training:
  rate: {kind: plateau, peak: 0.02, factor: 0.25, patience: 3}
  teacher_forcing: {kind: linear, ratio: 0.8, floor: 0.2, epochs: 7}
"""


@pytest.mark.parametrize(
    ("override", "section", "expected"),
    [
        (
            "training.rate.kind=constant",
            "rate",
            {"kind": "constant", "peak": 0.02, "warmup": None, "warmup_steps": None},
        ),
        (
            "training.teacher_forcing.kind=stepped",
            "teacher_forcing",
            {"kind": "stepped", "ratio": 0.8, "floor": 0.2, "epochs": 7},
        ),
        (
            "training.teacher_forcing.kind=exponential",
            "teacher_forcing",
            {"kind": "exponential", "ratio": 0.8, "floor": 0.2, "decay": 0.9},
        ),
        ("training.teacher_forcing.kind=constant", "teacher_forcing", {"kind": "constant", "ratio": 0.8}),
    ],
)
def test_a_new_kind_of_schedule_resets_the_options_of_the_old_one(
    override: str, section: str, expected: dict[str, object]
):
    assert load(COPY + SCHEDULES, override).training.model_dump()[section] == expected
    Path("base.yaml").write_text(COPY + SCHEDULES)
    kind = expected["kind"]
    extended = load(f"extends: base.yaml\ntraining: {{{section}: {{kind: {kind}}}}}\n")
    assert extended.training.model_dump()[section] == expected


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        (
            "training.rate.factor=0.5",
            "training.rate.factor: 'one-cycle' learning rate has no option factor (an option of plateau); "
            "it has peak, warmup, warmup_steps",
        ),
        (
            "training.teacher_forcing.floor=0.5",
            "training.teacher_forcing.floor: 'constant' teacher forcing has no option floor (an option of stepped, "
            "linear, exponential, inverse-sigmoid); it has ratio",
        ),
        (
            "training.teacher_forcing={kind: linear, decay: 0.5}",
            "training.teacher_forcing.decay: 'linear' teacher forcing has no option decay (an option of exponential); "
            "it has ratio, floor, epochs",
        ),
    ],
)
def test_an_option_of_another_schedule_is_refused_with_the_kinds_that_have_it(override: str, expected: str):
    assert error_message(COPY, override) == f"--set {override}: {expected}"


def test_a_misspelled_option_is_not_reset_by_a_new_kind():
    content = COPY + "model:\n  attention: {kind: multi-head, haeds: 2}\n"
    assert "'additive' attention has no option haeds" in error_message(content, "model.attention.kind=additive")


def test_an_extending_file_may_switch_kinds_of_a_default_section():
    Path("base.yaml").write_text(
        COPY + "model:\n  encoder: {cell: lstm, embedding: 24, positions: {kind: sine, width: 6}}\n"
    )
    switched = "extends: base.yaml\nmodel:\n  encoder: {kind: self-attention, positions: {kind: learned}}\n"
    encoder = load(switched).model.encoder
    assert (encoder.kind, encoder.embedding) == ("self-attention", 24)
    assert encoder.positions.model_dump() == {"kind": "learned", "longest": 128}
    assert "'self-attention' encoder has no option cell" in error_message(
        switched.replace("{kind: self", "{cell: gru, kind: self")
    )


def test_the_transformer_recipe_inherits_the_embedding_size():
    assert loading.load_experiment("multi30k-transformer").model.encoder.embedding == 256


def test_options_of_other_kinds_are_ignored_only_with_ignore_unused():
    text = COPY + "model: {attention: {kind: dot, heads: 4, key_size: null}, decoder: {size: 256}}\n"
    text += "training: {rate: {kind: one-cycle, factor: 0.5, patience: 2}, teacher_forcing: {floor: 0.0, decay: 0.9}}\n"
    with pytest.raises(UserError, match="'dot' attention has no option heads"):
        loading.parse_experiment(text, "config.yaml")
    experiment = loading.parse_experiment(text, "config.yaml", ignore_unused=True)
    defaults = {"normalizer": "softmax", "unit_norm": False, "temperature": None, "value_size": None}
    assert experiment.model.attention.model_dump() == {"kind": "dot", **defaults}
    assert experiment.training == TrainingSection()
    with pytest.raises(UserError, match="'dot' attention has no option haeds"):
        loading.parse_experiment(text.replace("heads", "haeds"), "config.yaml", ignore_unused=True)


HEBREW = "extends: multi30k\ndata: {task: files, train: t, validation: v, source: he, target: zh}\n"


def test_a_description_is_not_inherited_by_an_experiment_on_other_data():
    assert loading.load_experiment("multi30k").description
    assert load(HEBREW).description == ""
    assert load(HEBREW + "description: Hebrew into Chinese.\n").description == "Hebrew into Chinese."
    assert loading.read_description("mine.yaml") == "Hebrew into Chinese."


@pytest.mark.parametrize("override", ["data.source=en", "data.task=reverse"])
def test_overrides_that_change_the_data_reset_the_description(override: str):
    name, target = ("multi30k", ["data.target=de"]) if "source" in override else ("copy", [])
    assert loading.load_experiment(name, [override, *target]).description == ""


@pytest.mark.parametrize("override", ["data.train=77", "data.max_length=9", "training.seed=3", "data.task=copy"])
def test_other_changes_keep_the_description(override: str):
    assert loading.load_experiment("copy", [override]).description == loading.read_description("copy") != ""


def test_an_unknown_kind_is_reported_once_with_the_nearest_name():
    message = error_message(COPY + "model:\n  encoder:\n    kind: recurent\n    cell: lstm\n")
    assert re.match(r"mine\.yaml, line 4: model\.encoder\.kind: 'recurent' is .*did you mean 'recurrent'\?", message)
    assert "\n" not in message
