"""The choices of the configuration and the tables that serve them say the same."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch

from regard import assembly, nn
from regard.config import (
    AttentionSection,
    CoderSection,
    DecoderSection,
    EncoderSection,
    Experiment,
    ModelSection,
    OptimizerSection,
    PositionsSection,
    RateSection,
    TeacherForcingSection,
)
from regard.settings import Section
from regard.tasks import TASKS
from regard.training import loop, schedules


@pytest.mark.parametrize(
    ("section", "field", "table"),
    [
        (AttentionSection, "kind", nn.MECHANISMS),
        (CoderSection, "cell", nn.CELLS),
        (PositionsSection, "kind", nn.POSITIONS),
        (DecoderSection, "wiring", nn.WIRINGS),
        (DecoderSection, "start", nn.STARTS),
        (DecoderSection, "readout", nn.READOUTS),
        (EncoderSection, "kind", assembly.ENCODERS),
        (DecoderSection, "kind", assembly.DECODERS),
        (OptimizerSection, "kind", loop.OPTIMIZERS),
        (RateSection, "kind", schedules.RATES),
        (TeacherForcingSection, "kind", {"constant": None, **schedules.FALLS}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)
def test_choices_are_the_keys_of_their_table_in_the_same_order(section: type[Section], field: str, table: Any):
    assert list(get_args(section.model_fields[field].annotation)) == list(table)


@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_listed_under_its_own_name(name: str):
    assert get_args(TASKS[name].model_fields["task"].annotation) == (name,)
    assert TASKS[name].model_construct().task == name


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
    model = assembly.build_model(ModelSection(encoder=encoder), 5, 7)
    encoding = model.encoder(torch.tensor([[4, 1, 2]]), torch.ones(1, 3, dtype=torch.bool))
    assert encoding.states.shape == (1, 3, encoder.state_size)
    assert [part.shape for part in encoding.last] == [(last_layers, 1, size)] * (2 if memory_cell else 1)
