"""Every kind of model, enumerated from the tables of `regard.config.kinds`, so that a new kind is tested
without editing tests.

Sizes are small and differ wherever they may, so that a swapped axis fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product
from random import Random
from typing import Any, NamedTuple

import pytest
import torch

from pairwise import FULL, pairwise_sample
from regard import nn
from regard.config import kinds
from regard.config.schema import ModelSection
from regard.data import Batch
from regard.nn.build import build_model
from regard.nn.normalizers import NORMALIZERS
from regard.nn.transformer_layers import ACTIVATIONS, NORM_POSITIONS, NORMS
from regard.testing.samples import PATCHES, SOURCE_TOKENS, TARGET_TOKENS, sample_batch, sample_picture_batch

Choice = dict[str, Any]

# Of the mechanisms with scores: a setting and its value.
OPTIONS = {
    **{name: ("normalizer", name) for name in NORMALIZERS if name != "softmax"},
    "unit_norm": ("unit_norm", True),
    "temperature": ("temperature", "learned"),
    "value_size": ("value_size", 9),
}


def has_option(mechanism: str, option: str) -> bool:
    """Whether a mechanism has the setting of one of `OPTIONS`."""
    return OPTIONS[option][0] in kinds.MECHANISMS[mechanism].Section.model_fields


RECURRENT_ENCODERS = {
    f"{direction}-{cell}": {"kind": "recurrent", "cell": cell, "bidirectional": direction == "bidirectional"}
    for direction, cell in product(("forward", "bidirectional"), kinds.CELLS)
}
OTHER_ENCODERS = {kind: {"kind": kind} for kind in kinds.ENCODERS if "recurrent" not in kind} | {
    "embeddings": {"kind": "plain-attention", "layers": 0},
    **{
        f"{name}-self-attention": RECURRENT_ENCODERS[name] | {"kind": "recurrent-self-attention"}
        for name in ("forward-tanh", "bidirectional-gru", "forward-lstm", "bidirectional-ssru")
    },
}
RECURRENT_DECODERS = {
    f"{wiring}-{cell}": {"kind": "recurrent", "cell": cell, "wiring": wiring}
    for wiring, cell in product(kinds.WIRINGS, kinds.CELLS)
}
ENCODER_CHOICES = RECURRENT_ENCODERS | OTHER_ENCODERS
SOURCES = {"tokens": (SOURCE_TOKENS, sample_batch), "patches": (PATCHES, sample_picture_batch)}
DECODER_CHOICES = RECURRENT_DECODERS | {kind: {"kind": kind} for kind in kinds.DECODERS if kind != "recurrent"}


class ModelChoice(NamedTuple):
    """One value of each part of a model that can be chosen."""

    encoder: str
    decoder: str
    mechanism: str
    option: str | None  # of the mechanism
    start: str | None  # of a recurrent decoder
    readout_input: str | None  # of a recurrent decoder
    encoder_layers: int
    decoder_layers: int
    encoder_positions: str
    decoder_positions: str
    readout: str
    norm_position: str | None  # of Transformer layers on both sides, like the two below
    norm: str | None
    activation: str | None
    source: str  # what the encoder reads

    def readout_is_useful(self) -> bool:
        """The readout of a recurrent decoder depends on the source and on the previous token."""
        # A hard choice changes with the token too rarely for tests.
        selects = has_option(self.mechanism, "hard") and self.option != "hard"
        allowed = kinds.WIRINGS[DECODER_CHOICES[self.decoder]["wiring"]].readout_inputs
        return self.readout_input in allowed and (self.readout_input != "context" or selects)

    def have_layers(self) -> tuple[bool, bool]:
        """Whether the encoder and the decoder have Transformer layers."""
        encoder, decoder = ENCODER_CHOICES[self.encoder]["kind"], DECODER_CHOICES[self.decoder]["kind"]
        sections = kinds.ENCODERS[encoder].Section, kinds.DECODERS[decoder].Section
        return sections[0].takes_relative_positions, sections[1].takes_relative_positions

    def without_unused(self) -> ModelChoice:
        """None for what neither encoder nor decoder has."""
        unused = () if self.decoder in RECURRENT_DECODERS else ("start", "readout_input")
        unused += () if any(self.have_layers()) else ("norm_position", "norm", "activation")
        return self._replace(**dict.fromkeys(unused))

    def is_possible(self) -> bool:
        """A mechanism has the option, positions the heads that they act on; copied states are those of equal stacks."""
        takes_option = self.option is None or has_option(self.mechanism, self.option)
        takes_input = self.readout_input is None or self.readout_is_useful()
        encoder_cell = ENCODER_CHOICES[self.encoder].get("cell")
        cells_alike = (encoder_cell == "lstm") == (DECODER_CHOICES[self.decoder].get("cell") == "lstm")
        layers_alike = self.decoder_layers == (self.encoder_layers if encoder_cell else 1)
        # The states of two such layers differ by 1e-7 before training: rounding would decide a hard choice.
        if (self.encoder, self.encoder_layers, self.option) == ("plain-attention", 2, "hard"):
            return False
        takes_start = self.start != "copy" or (cells_alike and layers_alike)
        positions = zip(self.have_layers(), (self.encoder_positions, self.decoder_positions), strict=True)
        takes_positions = all(layers or not kinds.POSITIONS[kind].Section.is_relative for layers, kind in positions)
        return takes_option and takes_start and takes_input and takes_positions


AXES = ModelChoice(
    encoder=ENCODER_CHOICES,
    decoder=DECODER_CHOICES,
    mechanism=kinds.MECHANISMS,
    option=(None, *OPTIONS),
    start=kinds.STARTS,
    readout_input=(None, "state", "context", "both", "deep", "attentional"),
    encoder_layers=(1, 2),
    decoder_layers=(1, 2),
    encoder_positions=kinds.POSITIONS,
    decoder_positions=kinds.POSITIONS,
    readout=kinds.READOUTS,
    norm_position=NORM_POSITIONS,
    norm=NORMS,
    activation=ACTIVATIONS,
    source=SOURCES,
)


def possible_choices(random: Random, **fixed: str | None) -> Iterator[ModelChoice]:
    """Random choices without end; those in `fixed` are given."""
    axes = [list(axis) for axis in AXES._replace(**{name: (value,) for name, value in fixed.items()})]
    while True:
        choice = ModelChoice(*map(random.choice, axes)).without_unused()
        if choice.is_possible():
            yield choice


def choose_models(full: bool = FULL) -> list[ModelChoice]:
    """Models that combine any two values; with `full`, then also any encoder, decoder, mechanism and option."""
    random = Random(1)
    chosen = pairwise_sample(islice(possible_choices(random), 10_000))
    for encoder, decoder, mechanism, option in product(*AXES[:4]) if full else ():
        if option is None or has_option(mechanism, option):
            kinds_chosen = {"encoder": encoder, "decoder": decoder, "mechanism": mechanism, "option": option}
            chosen.append(next(possible_choices(random, **kinds_chosen)))
    return chosen


def known_options(family: kinds.Kinds[Any], choice: Choice) -> Choice:
    """The options in `choice` that its kind has."""
    return {key: value for key, value in choice.items() if key in family.section_class(choice).model_fields}


def some_heads(size: int) -> int:
    """Several heads of an even size, which rotary positions need; 1 if there are none."""
    return next((heads for heads in range(2, size + 1) if size % (2 * heads) == 0), 1)


def build_section(choice: ModelChoice) -> ModelSection:
    """The settings of a model of these kinds, with sizes that are equal only where they have to be."""

    def stack(size: int, layers: int, positions: str) -> Choice:
        section = known_options(kinds.POSITIONS, {"kind": positions, "width": 3, "longest": 13})
        layer = {"norm_position": choice.norm_position, "norm": choice.norm, "activation": choice.activation}
        return {"size": size, "heads": some_heads(size), "layers": layers, "positions": section} | layer

    encoder, decoder = ENCODER_CHOICES[choice.encoder], DECODER_CHOICES[choice.decoder]
    encoder_size = 8 if choice.encoder in RECURRENT_ENCODERS else 6
    state_size = encoder_size * 2 if encoder.get("bidirectional") else encoder_size
    own_size = 11 if choice.decoder in RECURRENT_DECODERS else 10
    decoder_size = state_size if choice.start == "copy" or choice.mechanism == "dot" else own_size
    encoder = encoder | {"embedding": 5, "inner_size": 23}
    encoder = stack(encoder_size, choice.encoder_layers, choice.encoder_positions) | encoder
    decoder = decoder | {"embedding": 3, "inner_size": 29, "start": choice.start, "readout": choice.readout}
    decoder["readout_input"] = choice.readout_input
    decoder |= stack(decoder_size, choice.decoder_layers, choice.decoder_positions)
    attention = {"kind": choice.mechanism, "heads": 3, "key_size": 12 if choice.mechanism == "multi-head" else 2}
    if choice.option:
        setting, value = OPTIONS[choice.option]
        attention[setting] = value
    return ModelSection.model_validate(
        {
            "encoder": known_options(kinds.ENCODERS, encoder),
            "decoder": known_options(kinds.DECODERS, decoder),
            "attention": known_options(kinds.MECHANISMS, attention),
        }
    )


SECTIONS = {"-".join(map(str, choice)): (build_section(choice), choice.source) for choice in choose_models()}


@dataclass(frozen=True)
class Built:
    section: ModelSection
    source: str
    model: nn.Seq2Seq


def build(section: ModelSection, source: str) -> Built:
    size, _ = SOURCES[source]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return Built(section, source, build_model(section, size, TARGET_TOKENS).eval())


@pytest.fixture(scope="module", params=SECTIONS.values(), ids=SECTIONS.keys())
def any_model(request: pytest.FixtureRequest) -> Built:
    return build(*request.param)


@pytest.fixture(scope="session")
def sampled_and_all_choices() -> tuple[list[ModelChoice], list[ModelChoice]]:
    """The models of the default tests and of those with REGARD_TEST_FULL=1."""
    return choose_models(full=False), choose_models(full=True)


@pytest.fixture(scope="session")
def all_sections() -> list[tuple[ModelSection, str]]:
    """The settings of each model, and what its encoder reads."""
    return list(SECTIONS.values())


@pytest.fixture(scope="module")
def batch(any_model: Built) -> Batch:
    _, draw = SOURCES[any_model.source]
    return draw()
