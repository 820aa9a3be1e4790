"""The choices of the configuration and the tables that serve them say the same."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch
from pydantic import ValidationError

from regard import nn
from regard.config import loading
from regard.config.base import Section
from regard.config.schema import (
    AttentionSection,
    CoderSection,
    DecoderSection,
    EncoderSection,
    Experiment,
    LearningRateSection,
    ModelSection,
    OptimizerSection,
    PositionsSection,
    TeacherForcingSection,
)
from regard.errors import UserError
from regard.nn import build
from regard.tasks import TASKS
from regard.training import schedules, trainer


@pytest.mark.parametrize(
    ("section", "field", "table"),
    [
        (AttentionSection, "kind", nn.MECHANISMS),
        (CoderSection, "cell", nn.CELLS),
        (PositionsSection, "kind", nn.POSITIONS),
        (DecoderSection, "wiring", nn.WIRINGS),
        (DecoderSection, "start", nn.STARTS),
        (DecoderSection, "readout", nn.READOUTS),
        (EncoderSection, "kind", build.ENCODERS),
        (DecoderSection, "kind", build.DECODERS),
        (OptimizerSection, "kind", trainer.OPTIMIZERS),
        (LearningRateSection, "kind", schedules.LEARNING_RATES),
        (TeacherForcingSection, "kind", {"constant": None, **schedules.TEACHER_FORCING_DECAYS}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)
def test_choices_are_the_keys_of_their_table_in_the_same_order(section: type[Section], field: str, table: Any):
    assert list(get_args(section.model_fields[field].annotation)) == list(table)


@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_listed_under_its_own_name(name: str):
    assert get_args(TASKS[name].Section.model_fields["task"].annotation) == (name,)
    assert TASKS[name].Section.model_construct().task == name


def sections(section: type[Section]) -> list[type[Section]]:
    inner = [field.annotation for field in section.model_fields.values()]
    return [
        section,
        *(found for one in inner if isinstance(one, type) and issubclass(one, Section) for found in sections(one)),
    ]


@pytest.mark.parametrize("section", sections(Experiment), ids=lambda section: section.__name__)
def test_settings_are_frozen_strict_and_know_no_other_key(section: type[Section]):
    assert section.model_config["frozen"]
    assert section.model_config["strict"]
    assert section.model_config["extra"] == "forbid"
    assert not section.model_config["allow_inf_nan"]


def test_sizes_of_a_model_follow_from_its_settings():
    assert EncoderSection(size=5).state_size == 10
    assert EncoderSection(size=5, bidirectional=False).state_size == 5
    assert EncoderSection(size=8, kind="self-attention", heads=2).state_size == 8
    assert EncoderSection(size=5, cell="lstm", layers=3).last_state == (True, 3, 10)
    assert EncoderSection(size=8, kind="self-attention", cell="lstm", layers=3).last_state == (False, 1, 8)


@pytest.mark.parametrize("cell", nn.CELLS)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
def test_what_the_settings_say_of_the_last_state_holds_for_the_model(cell: Any, bidirectional: bool, layers: int):
    encoder = EncoderSection(cell=cell, size=3, embedding=2, bidirectional=bidirectional, layers=layers)
    memory_cell, last_layers, size = encoder.last_state
    model = build.build_model(ModelSection(encoder=encoder), 5, 7)
    encoding = model.encoder(torch.tensor([[4, 1, 2]]), torch.ones(1, 3, dtype=torch.bool))
    assert encoding.states.shape == (1, 3, encoder.state_size)
    assert [part.shape for part in encoding.final_state] == [(last_layers, 1, size)] * (2 if memory_cell else 1)


def files(*overrides: str) -> Experiment:
    settings = ["data.task=files", "data.train=a", "data.validation=b", "model.share_embeddings=true", *overrides]
    return loading.load_experiment("bottleneck", settings)


@pytest.mark.parametrize("unit", ["characters", "words", "subwords"])
def test_both_sides_may_share_their_embeddings_if_they_share_their_tokens(unit: str):
    assert files(f"data.text.unit={unit}").model.share_embeddings
    with pytest.raises(UserError, match=r"model\.share_embeddings: true needs the same tokens on both sides, which"):
        files(f"data.text.unit={unit}", "data.text.joint=false")


@pytest.mark.parametrize("name", ["copy", "clauses", "case"])
def test_a_generated_task_has_no_embeddings_to_share(name: str):
    with pytest.raises(UserError, match=r"--set model\.share_embeddings=true: .*needs the same tokens on both sides"):
        loading.load_experiment(name, ["model.share_embeddings=true"])


def test_shared_embeddings_have_one_size():
    sizes = {"encoder": {"embedding": 8}, "decoder": {"embedding": 16}}
    with pytest.raises(ValidationError, match="the encoder's have size 8 and the decoder's 16; make them equal"):
        ModelSection.model_validate(sizes | {"share_embeddings": True})
    assert not ModelSection.model_validate(sizes).share_embeddings


@pytest.mark.parametrize("setting", ["data.text.unit=words", "data.text.unit=characters", "data.text.algorithm=bpe"])
def test_several_ways_to_split_a_text_need_unigram_subwords(setting: str):
    best = "data.text.regularization.best=8"
    assert files(best).data.model_dump()["text"]["regularization"]["best"] == 8
    with pytest.raises(
        UserError, match=r"--set data\.text\.reg.*=8: data\.text\.regularization\.best: 8 segmentations"
    ):
        files(best, setting)


@pytest.mark.parametrize("kind", ["none", "mean"])
def test_unknown_words_are_copied_by_attention_that_chooses(kind: str):
    with pytest.raises(UserError, match=rf"decoding\.copy_unknown: '{kind}' attention does not say which word to copy"):
        files("decoding.copy_unknown=true", f"model.attention.kind={kind}")
