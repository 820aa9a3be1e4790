"""Every kind of decoder with every mechanism, untrained and yet with something to say."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from regard import nn
from regard.assembly import DECODERS, build_model
from regard.config import ModelSection
from regard.data.batches import pad
from regard.text import Vocabulary

TOKENS = 7  # few, so that `<end>` is said now and then
LONGEST = 7


def choose_sections() -> dict[str, ModelSection]:
    decoders = {wiring: {"wiring": wiring, "cell": "lstm"} for wiring in nn.WIRINGS}
    decoders |= {kind: {"kind": kind, "heads": 2} for kind in DECODERS if kind != "recurrent"}
    common = {"embedding": 3, "size": 6, "layers": 2, "inner_size": 11, "positions": {"kind": "sine-added"}}
    return {
        f"{decoder}-{mechanism}": ModelSection.model_validate(
            {
                "encoder": {"embedding": 5, "size": 3},
                "decoder": decoders[decoder] | common,
                "attention": {"kind": mechanism, "heads": 3},
            }
        )
        for decoder, mechanism in product(decoders, nn.MECHANISMS)
    }


SECTIONS = choose_sections()


def draw_sources() -> list[list[int]]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(3, TOKENS, (length,), generator=generator).tolist() for length in (1, 7, 2, 5, 3, 6, 4, 5)]


@pytest.fixture(scope="session")
def sources() -> list[list[int]]:
    return draw_sources()


@pytest.fixture(scope="session")
def firsts() -> list[int]:
    return [1, 4, 5, 1, 6, 4, 1, 3]  # what the decoder reads first need not be `<begin>`


def build(section: ModelSection, seed: int) -> nn.Seq2Seq:
    """Weights are large, so that what it says depends on what it reads."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = build_model(section, TOKENS, TOKENS).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.mul_(3)
    return model


@torch.inference_mode()
def lengths(model: nn.Seq2Seq, sources: list[list[int]], firsts: list[int]) -> set[int]:
    """After how many tokens it ends, left to itself; more than `LONGEST`: it does not."""
    read = torch.tensor(firsts).unsqueeze(1).expand(-1, LONGEST)
    said = model.decoder.unroll_by_coin(read, model.start(*pad(sources)), torch.zeros_like(read, dtype=torch.bool))
    ended = (said.argmax(-1) == Vocabulary.end).cumsum(1) > 0
    return set((LONGEST + 1 - ended.sum(1)).tolist())


@pytest.fixture(scope="module", params=SECTIONS.values(), ids=SECTIONS.keys())
def model(request: pytest.FixtureRequest, sources: list[list[int]], firsts: list[int]) -> nn.Seq2Seq:
    """The first at which rows leave a batch at different steps, and some stay to the end."""
    for seed in range(1_000):
        model = build(request.param, seed)
        ends = lengths(model, sources, firsts)
        if len(ends) > 2 and LONGEST + 1 in ends:
            return model
    pytest.fail("no such model was found")
