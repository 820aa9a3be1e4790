"""The sections of an experiment: kinds, defaults, sizes and combinations."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pydantic import ValidationError

from regard.config import kinds, loading
from regard.config.base import KindSection, Section
from regard.config.families import Kinds
from regard.config.schema import Experiment, ModelSection
from regard.config.training_section import TrainingSection
from regard.errors import UserError
from regard.nn.build import build_model
from regard.tasks import TASKS

FAMILIES = {name: table for name, table in vars(kinds).items() if isinstance(table, Kinds)}
FAMILIES_WITHOUT_SECTIONS = ("CELLS", "WIRINGS", "STARTS", "READOUTS", "OPTIMIZERS")
FAMILIES_WITH_SECTIONS = [name for name in FAMILIES if name not in FAMILIES_WITHOUT_SECTIONS]
REQUIRED = {"files": {"train": "a", "validation": "b"}}  # settings without a default
KINDS = [(FAMILIES[name], kind) for name in FAMILIES_WITH_SECTIONS for kind in FAMILIES[name]]


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())
def test_every_kind_names_a_class_and_the_default_is_a_kind(family: Kinds[Any]):
    assert family.default in family or (family is TASKS and not family.default), "an experiment names its task"
    assert all(isinstance(each, type) for each in family.values())
    assert len(set(family.values())) == len(family)


@pytest.mark.parametrize(("family", "kind"), KINDS)
def test_a_kind_has_a_settings_class_and_its_section_reports_the_kind(family: Kinds[Any], kind: str):
    section = family.parse_section({family.key: kind} | REQUIRED.get(kind, {}))
    assert type(section) is family[kind].Section
    assert getattr(section, family.key) == kind
    assert family.parse_section(section.model_dump()) == section
    assert family.parse_section(section) is section


@pytest.mark.parametrize(("family", "kind"), KINDS)
def test_an_option_of_another_kind_is_refused_by_name(family: Kinds[Any], kind: str):
    own = family[kind].Section.model_fields.keys()
    for option in sorted(family.all_options() - own):
        with pytest.raises(ValidationError) as error:
            family.parse_section({family.key: kind, option: 3} | REQUIRED.get(kind, {}))
        assert [(each["loc"], each["type"]) for each in error.value.errors()] == [((option,), "extra_forbidden")]


@pytest.mark.parametrize("family", FAMILIES_WITHOUT_SECTIONS)
def test_a_kind_without_options_is_chosen_by_its_name_alone(family: str):
    assert [FAMILIES[family].parse_name(kind) for kind in FAMILIES[family]] == list(FAMILIES[family])


def test_the_defaults_of_training_are_one_cycle_and_full_teacher_forcing():
    training = TrainingSection().model_dump()
    assert training["optimizer"]["kind"] == "adam"
    assert training["rate"] == {"kind": "one-cycle", "peak": 0.003, "warmup": None, "warmup_steps": None}
    assert training["teacher_forcing"] == {"kind": "constant", "ratio": 1.0}


def test_the_defaults_are_a_gru_with_scaled_dot_attention():
    model = ModelSection()
    assert (model.encoder.kind, model.decoder.kind, model.attention.kind) == ("recurrent", "recurrent", "scaled-dot")
    assert model == ModelSection.model_validate({"encoder": {"cell": "gru"}, "attention": {"key_size": None}})


@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_listed_under_its_own_name(name: str):
    assert TASKS[name].Section.model_construct().task == name


def sections(section: type[Section]) -> list[type[Section]]:
    inner = [field.annotation for field in section.model_fields.values()]
    return [
        section,
        *(found for one in inner if isinstance(one, type) and issubclass(one, Section) for found in sections(one)),
    ]


KIND_SECTIONS: list[type[KindSection]] = sorted({family[kind].Section for family, kind in KINDS}, key=str)


@pytest.mark.parametrize("section", [*sections(Experiment), *KIND_SECTIONS], ids=lambda section: section.__name__)
def test_sections_are_frozen_and_strict_and_refuse_unknown_keys(section: type[Section]):
    assert section.model_config["frozen"]
    assert section.model_config["strict"]
    assert section.model_config["extra"] == "forbid"
    assert not section.model_config["allow_inf_nan"]


def encoder_section(**options: Any) -> Any:
    return kinds.ENCODERS.parse_section(options)


def test_state_sizes_follow_from_the_settings():
    assert encoder_section(size=5).state_size == 10
    assert encoder_section(size=5, bidirectional=False).state_size == 5
    assert encoder_section(size=8, kind="self-attention", heads=2).state_size == 8
    assert encoder_section(size=7, kind="plain-attention", layers=0).state_size == 7
    assert encoder_section(size=7, kind="plain-attention", layers=3).final_state == (1, 1, 7)
    assert encoder_section(size=5, kind="recurrent-self-attention", heads=2).state_size == 10
    assert encoder_section(
        size=6,
        kind="recurrent-self-attention",
        cell="lstm",
        layers=3,
        self_attention_layers=2,
        bidirectional=False,
        heads=2,
    ).final_state == (2, 3, 6)
    assert encoder_section(size=5, cell="lstm", layers=3).final_state == (2, 3, 10)
    assert encoder_section(size=8, kind="self-attention", layers=3).final_state == (1, 1, 8)


@pytest.mark.parametrize("cell", kinds.CELLS)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
def test_the_final_state_shape_of_the_settings_matches_the_model(cell: Any, bidirectional: bool, layers: int):
    encoder = encoder_section(cell=cell, size=3, embedding=2, bidirectional=bidirectional, layers=layers)
    tensors, final_layers, size = encoder.final_state
    model = build_model(ModelSection(encoder=encoder), 5, 7)
    encoding = model.encoder(torch.tensor([[4, 1, 2]]), torch.ones(1, 3, dtype=torch.bool))
    assert encoding.states.shape == (1, 3, encoder.state_size)
    assert [part.shape for part in encoding.final_state] == [(final_layers, 1, size)] * tensors


def files_experiment(*overrides: str) -> Experiment:
    settings = ["data.task=files", "data.train=a", "data.validation=b", "model.share_embeddings=true", *overrides]
    return loading.load_experiment("bottleneck", settings)


@pytest.mark.parametrize("unit", ["characters", "words", "subwords"])
def test_embeddings_may_be_shared_only_with_a_joint_vocabulary(unit: str):
    assert files_experiment(f"data.text.unit={unit}").model.share_embeddings
    with pytest.raises(UserError, match=r"model\.share_embeddings: true needs the same tokens on both sides, which"):
        files_experiment(f"data.text.unit={unit}", "data.text.joint=false")


@pytest.mark.parametrize("name", ["copy", "clauses", "case"])
def test_shared_embeddings_are_refused_for_a_generated_task(name: str):
    with pytest.raises(UserError, match=r"--set model\.share_embeddings=true: .*needs the same tokens on both sides"):
        loading.load_experiment(name, ["model.share_embeddings=true"])


def test_shared_embeddings_have_one_size():
    sizes = {"encoder": {"embedding": 8}, "decoder": {"embedding": 16}}
    with pytest.raises(ValidationError, match="the encoder's have size 8 and the decoder's 16; make them equal"):
        ModelSection.model_validate(sizes | {"share_embeddings": True})
    assert not ModelSection.model_validate(sizes).share_embeddings


@pytest.mark.parametrize("setting", ["data.text.unit=words", "data.text.unit=characters", "data.text.algorithm=bpe"])
def test_segmentation_sampling_needs_unigram_subwords(setting: str):
    best = "data.text.regularization.best=8"
    assert files_experiment(best).data.model_dump()["text"]["regularization"]["best"] == 8
    with pytest.raises(
        UserError, match=r"--set data\.text\.reg.*=8: data\.text\.regularization\.best: 8 segmentations"
    ):
        files_experiment(best, setting)


@pytest.mark.parametrize("kind", ["none", "mean"])
def test_copying_unknown_words_needs_attention_that_selects(kind: str):
    with pytest.raises(UserError, match=rf"decoding\.copy_unknown: '{kind}' attention does not select a word to copy"):
        files_experiment("decoding.copy_unknown=true", f"model.attention.kind={kind}")
