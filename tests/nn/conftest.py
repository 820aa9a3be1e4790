"""Every kind of model, enumerated from the tables of `regard.config.kinds`, so that a new kind is tested
without editing tests.

Sizes are small and differ wherever they may, so that a swapped axis fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice, product
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
from regard.testing.samples import PATCHES, SOURCE_TOKENS, TARGET_TOKENS, sample_batch, sample_picture_batch

Choice = dict[str, Any]

OPTIONS = {"hard": True, "unit_norm": True, "temperature": "learned", "value_size": 9}  # of the mechanisms with scores

RECURRENT_ENCODERS = {
    f"{direction}-{cell}": {"kind": "recurrent", "cell": cell, "bidirectional": direction == "bidirectional"}
    for direction, cell in product(("forward", "bidirectional"), kinds.CELLS)
}
OTHER_ENCODERS = {kind: {"kind": kind} for kind in kinds.ENCODERS if "recurrent" not in kind} | {
    "embeddings": {"kind": "plain-attention", "layers": 0},
    **{
        f"{name}-self-attention": RECURRENT_ENCODERS[name] | {"kind": "recurrent-self-attention"}
        for name in ("forward-tanh", "bidirectional-gru", "forward-lstm")
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
    source: str  # what the encoder reads

    def readout_is_useful(self) -> bool:
        """The readout of a recurrent decoder depends on the source and on the previous token."""
        # A hard choice changes with the token too rarely for tests.
        selects = "hard" in kinds.MECHANISMS[self.mechanism].Section.model_fields and self.option != "hard"
        allowed = kinds.WIRINGS[DECODER_CHOICES[self.decoder]["wiring"]].readout_inputs
        return self.readout_input in allowed and (self.readout_input != "context" or selects)

    def is_possible(self) -> bool:
        """A mechanism has the option, a recurrent decoder a start; states are copied between stacks that are alike."""
        takes_option = self.option is None or self.option in kinds.MECHANISMS[self.mechanism].Section.model_fields
        is_recurrent = self.decoder in RECURRENT_DECODERS
        takes_start = (self.start is not None) == is_recurrent
        takes_input = self.readout_input is None or (is_recurrent and self.readout_is_useful())
        encoder_cell = ENCODER_CHOICES[self.encoder].get("cell")
        cells_alike = (encoder_cell == "lstm") == (DECODER_CHOICES[self.decoder].get("cell") == "lstm")
        layers_alike = self.decoder_layers == (self.encoder_layers if encoder_cell else 1)
        # The states of two such layers differ by 1e-7 before training: rounding would decide a hard choice.
        if (self.encoder, self.encoder_layers, self.option) == ("plain-attention", 2, "hard"):
            return False
        return takes_option and takes_start and takes_input and (self.start != "copy" or (cells_alike and layers_alike))


AXES = ModelChoice(
    encoder=ENCODER_CHOICES,
    decoder=DECODER_CHOICES,
    mechanism=kinds.MECHANISMS,
    option=(None, *OPTIONS),
    start=(None, *kinds.STARTS),
    readout_input=(None, "state", "context", "both", "deep", "attentional"),
    encoder_layers=(1, 2),
    decoder_layers=(1, 2),
    encoder_positions=kinds.POSITIONS,
    decoder_positions=kinds.POSITIONS,
    readout=kinds.READOUTS,
    source=SOURCES,
)


def possible_choices(random: Random, **fixed: str | None) -> Iterator[ModelChoice]:
    """Random choices without end; those in `fixed` are given."""
    axes = [list(axis) for axis in AXES._replace(**{name: (value,) for name, value in fixed.items()})]
    while True:
        choice = ModelChoice(*map(random.choice, axes))
        if choice.is_possible():
            yield choice


def choose_models(full: bool = FULL) -> list[ModelChoice]:
    """Models that combine any two values; with `full`, then also any encoder, decoder, mechanism and option."""
    random = Random(1)
    # Few random choices are possible with a decoder without start and readout input.
    with_each = product(DECODER_CHOICES, kinds.MECHANISMS)
    each = (next(possible_choices(random, decoder=decoder, mechanism=mechanism)) for decoder, mechanism in with_each)
    chosen = pairwise_sample(chain(each, islice(possible_choices(random), 5000)))
    for encoder, decoder, mechanism, option in product(*AXES[:4]) if full else ():
        if option is None or option in kinds.MECHANISMS[mechanism].Section.model_fields:
            kinds_chosen = {"encoder": encoder, "decoder": decoder, "mechanism": mechanism, "option": option}
            chosen.append(next(possible_choices(random, **kinds_chosen)))
    return chosen


def known_options(family: kinds.Kinds[Any], choice: Choice) -> Choice:
    """The options in `choice` that its kind has."""
    return {key: value for key, value in choice.items() if key in family.section_class(choice).model_fields}


def some_heads(size: int) -> int:
    return next(heads for heads in range(2, size + 1) if size % heads == 0)


def build_section(choice: ModelChoice) -> ModelSection:
    """The settings of a model of these kinds, with sizes that are equal only where they have to be."""

    def stack(size: int, layers: int, positions: str) -> Choice:
        section = known_options(kinds.POSITIONS, {"kind": positions, "width": 3, "longest": 13})
        return {"size": size, "heads": some_heads(size), "layers": layers, "positions": section}

    encoder, decoder = ENCODER_CHOICES[choice.encoder], DECODER_CHOICES[choice.decoder]
    encoder_size = 7 if choice.encoder in RECURRENT_ENCODERS else 6
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
        attention[choice.option] = OPTIONS[choice.option]
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
