"""Every kind of model, enumerated from the tables of `regard.config.kinds`, so that a new kind is tested
without editing tests.

Sizes are small and differ wherever they may, so that a swapped axis fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, product
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

from regard import nn
from regard.config import kinds
from regard.config.kinds import DECODERS, ENCODERS
from regard.config.schema import ModelSection
from regard.nn.build import build_model

SOURCE_TOKENS, TARGET_TOKENS = 17, 19
BATCH, POSITIONS, STEPS = 3, 7, 5
LENGTHS = (7, 1, 4)  # of the sources
LAYERS = (1, 2)

Choice = dict[str, Any]


def encoder_choices() -> list[Choice]:
    recurrent = [
        {"kind": "recurrent", "cell": cell, "bidirectional": both} for cell, both in product(kinds.CELLS, (False, True))
    ]
    return recurrent + [{"kind": kind} for kind in ENCODERS if kind != "recurrent"]


def decoder_choices() -> list[Choice]:
    recurrent = [
        {"kind": "recurrent", "cell": cell, "wiring": wiring} for cell, wiring in product(kinds.CELLS, kinds.WIRINGS)
    ]
    return recurrent + [{"kind": kind} for kind in DECODERS if kind != "recurrent"]


def attention_choices() -> list[Choice]:
    """Every mechanism, plain, and with each of the options that it takes."""
    return [
        {"kind": kind, **options}
        for kind, mechanism in kinds.MECHANISMS.items()
        for options in ({}, {"hard": True}, {"unit_norm": True})
        if options.keys() <= mechanism.Section.model_fields.keys()
    ]


def known_options(family: kinds.Kinds[Any], choice: Choice) -> Choice:
    """The options in `choice` that its kind has."""
    return {key: value for key, value in choice.items() if key in family.section_class(choice).model_fields}


def some_heads(size: int) -> int:
    return next(heads for heads in range(2, size + 1) if size % heads == 0)


def complete(encoder: Choice, decoder: Choice, attention: Choice, random: Random) -> ModelSection:
    """A model of these kinds; what is left open is drawn, and sizes are made equal only where they have to be."""

    def side(embedding: int, inner_size: int, positions: str | None = None) -> Choice:
        kind = positions or random.choice(list(kinds.POSITIONS))
        positions_section = known_options(kinds.POSITIONS, {"kind": kind, "width": 3, "longest": 13})
        return {"embedding": embedding, "inner_size": inner_size, "positions": positions_section}

    recurrent = encoder["kind"] == "recurrent"
    size = 7 if recurrent else 6
    encoder = encoder | side(5, 23, encoder.get("positions")) | {"size": size, "heads": some_heads(size)}
    encoder.setdefault("layers", random.choice(LAYERS))
    state_size = size * 2 if encoder.get("bidirectional") else size
    last_layers = encoder["layers"] if recurrent else 1

    cells_alike = (encoder.get("cell") == "lstm") == (decoder.get("cell") == "lstm")
    start = random.choice([start for start in kinds.STARTS if start != "copy" or cells_alike])
    copied = decoder["kind"] == "recurrent" and start == "copy"
    size = state_size if copied or attention["kind"] == "dot" else 10 if decoder["kind"] == "transformer" else 11
    decoder = decoder | side(3, 29) | {"size": size, "heads": some_heads(size), "start": start}
    decoder["layers"] = last_layers if copied else random.choice(LAYERS)
    decoder["readout"] = random.choice(list(kinds.READOUTS))

    attention = attention | {"heads": 3, "key_size": 12 if attention["kind"] == "multi-head" else 2}
    return ModelSection.model_validate(
        {
            "encoder": known_options(kinds.ENCODERS, encoder),
            "decoder": known_options(kinds.DECODERS, decoder),
            "attention": known_options(kinds.MECHANISMS, attention),
        }
    )


def name(*choices: Choice) -> str:
    words = chain.from_iterable(choice.items() for choice in choices)
    return "-".join(key if value is True else f"no-{key}" if value is False else str(value) for key, value in words)


def choose_all() -> dict[str, ModelSection]:
    """Every encoder with every decoder with every mechanism, each with some option."""
    chosen = {}
    for *coders, mechanism in product(encoder_choices(), decoder_choices(), kinds.MECHANISMS):
        random = Random(name(*coders) + mechanism)
        attention = random.choice([choice for choice in attention_choices() if choice["kind"] == mechanism])
        chosen[name(*coders, attention)] = complete(*coders, attention, random)
    return chosen


def choose_decoders() -> dict[str, ModelSection]:
    """Every decoder with every mechanism with every option, each with some encoder."""
    chosen = {}
    for choices in product(decoder_choices(), attention_choices()):
        random = Random(name(*choices))
        chosen[name(*choices)] = complete(random.choice(encoder_choices()), *choices, random)
    return chosen


def choose_encoders() -> dict[str, ModelSection]:
    """Every encoder with every number of layers and every kind of positions, each with some decoder."""
    chosen = {}
    for encoder, layers, positions in product(encoder_choices(), LAYERS, kinds.POSITIONS):
        exact = encoder | {"layers": layers, "positions": positions}
        random = Random(name(exact))
        rest = random.choice(decoder_choices()), random.choice(attention_choices())
        chosen[name(exact)] = complete(exact, *rest, random)
    return chosen


EVERY_MODEL, EVERY_DECODER, EVERY_ENCODER = choose_all(), choose_decoders(), choose_encoders()


@dataclass(frozen=True)
class Built:
    section: ModelSection
    model: nn.Seq2Seq


def build(section: ModelSection) -> Built:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return Built(section, build_model(section, SOURCE_TOKENS, TARGET_TOKENS).eval())


@pytest.fixture(scope="module", params=EVERY_MODEL.values(), ids=EVERY_MODEL.keys())
def any_model(request: pytest.FixtureRequest) -> Built:
    return build(request.param)


@pytest.fixture(scope="module", params=EVERY_DECODER.values(), ids=EVERY_DECODER.keys())
def any_decoder(request: pytest.FixtureRequest) -> Built:
    return build(request.param)


@pytest.fixture(scope="module", params=EVERY_ENCODER.values(), ids=EVERY_ENCODER.keys())
def any_encoder(request: pytest.FixtureRequest) -> Built:
    return build(request.param)


@pytest.fixture(scope="session")
def all_sections() -> list[ModelSection]:
    return [*EVERY_MODEL.values(), *EVERY_DECODER.values(), *EVERY_ENCODER.values()]


@dataclass(frozen=True)
class Data:
    source: Tensor  # [batch, positions]; padding, too, is random: nothing may depend on it
    valid: Tensor  # [batch, positions]
    inputs: Tensor  # [batch, steps]
    steps_valid: Tensor  # [batch, steps]
    outputs: Tensor  # [batch, steps]

    def row(self, row: int) -> tuple[Tensor, Tensor]:
        """One source alone, without padding."""
        source = self.source[row, self.valid[row]].unsqueeze(0)
        return source, torch.ones_like(source, dtype=torch.bool)

    def padded(self, more: int) -> tuple[Tensor, Tensor]:
        """The sources with more padding, and with other tokens in it."""
        other = (self.source + 1) % SOURCE_TOKENS
        source = torch.where(self.valid, self.source, other)
        filler = torch.arange(more).expand(len(source), -1)
        return torch.cat([source, filler], 1), torch.cat([self.valid, filler < 0], 1)


@pytest.fixture(scope="session")
def data() -> Data:
    generator = torch.Generator().manual_seed(7)
    return Data(
        # No token stands twice in a source: without order, both have the same score, and only rounding has a highest.
        source=torch.stack([torch.randperm(SOURCE_TOKENS, generator=generator)[:POSITIONS] for _ in range(BATCH)]),
        valid=torch.arange(POSITIONS) < torch.tensor(LENGTHS).unsqueeze(1),
        inputs=torch.randint(TARGET_TOKENS, (BATCH, STEPS), generator=generator),
        steps_valid=torch.arange(STEPS) < torch.tensor([3, 5, 1]).unsqueeze(1),
        outputs=torch.randint(TARGET_TOKENS, (BATCH, STEPS), generator=generator),
    )
