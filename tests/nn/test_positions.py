"""Positions and embeddings against their formulas."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from regard import nn
from regard.config import kinds
from regard.errors import UserError
from regard.nn.positions import FirstFrequency

SIZE, WIDTH, LONGEST, BATCH, STEPS = 7, 5, 11, 2, 3
OPTIONS: dict[str, dict[str, int]] = {
    "one-hot": {"max_length": LONGEST},
    "sine": {"width": WIDTH},
    "learned": {"max_length": LONGEST},
}
LIMITED = ["one-hot", "learned"]
RELATIVE = [kind for kind in kinds.POSITIONS if kinds.POSITIONS[kind].Section.is_relative]
LAYER = nn.LayerOptions(heads=2, inner_size=3)


def build(kind: str) -> nn.Positions:
    torch.manual_seed(1)
    return kinds.POSITIONS[kind](SIZE, **OPTIONS.get(kind, {})).requires_grad_(False)


@pytest.fixture
def vectors() -> Tensor:
    return torch.randn(BATCH, LONGEST, SIZE, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("size", [1, 2, 5, 16])
def test_sines_follow_their_formula(size: int, first: FirstFrequency) -> None:
    waves = nn.sinusoidal_encoding(3, 4, size, first)
    assert waves.shape == (4, size)
    for row, t in enumerate(range(3, 7)):
        for index in range(size):
            frequency = 1 / 10_000 ** (2 * (first + index // 2) / size)
            expected = math.cos(frequency * t) if index % 2 else math.sin(frequency * t)
            assert float(waves[row, index]) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("first", "shortest", "longest"), [(0, 1.0, 10_000 ** (1 - 2 / 64)), (1, 10_000 ** (2 / 64), 10_000.0)]
)
def test_wavelengths_are_a_geometric_progression_with_one_of_the_ends_that_eecs_182_states(
    first: FirstFrequency, shortest: float, longest: float
) -> None:
    """From 2π to 10000 · 2π, says the source: the first is right if k starts with 0, the last if it starts with 1."""
    size = 64
    # The angle of each pair at t = 1 is its frequency.
    one = nn.sinusoidal_encoding(1, 1, size, first).double().view(-1, 2)
    wavelengths = 2 * math.pi / torch.atan2(one[:, 0], one[:, 1])
    assert len(wavelengths) == size // 2
    assert float(wavelengths[0]) / (2 * math.pi) == pytest.approx(shortest, rel=1e-6)
    assert float(wavelengths[-1]) / (2 * math.pi) == pytest.approx(longest, rel=1e-6)
    ratios = wavelengths[1:] / wavelengths[:-1]
    torch.testing.assert_close(ratios, torch.full_like(ratios, 10_000 ** (2 / size)), rtol=1e-4, atol=0)


def test_sines_are_those_of_earlier_versions_unless_the_first_frequency_is_set(vectors: Tensor) -> None:
    exponents = torch.arange(0, WIDTH, 2, dtype=torch.float64) / WIDTH
    angles = torch.arange(2, 2 + LONGEST, dtype=torch.float64).unsqueeze(1) * 10_000.0**-exponents
    expected = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :WIDTH].float()
    assert torch.equal(build("sine")(vectors, 2)[0, :, SIZE:], expected)
    for kind in ("sine", "sine-added"):
        assert kinds.POSITIONS.parse_section({"kind": kind}).first_frequency == 0
        other = kinds.POSITIONS[kind](SIZE, **OPTIONS.get(kind, {}), first_frequency=1)
        assert not torch.allclose(other(vectors), build(kind)(vectors))
        with pytest.raises(ValidationError, match="Input should be 0 or 1"):
            kinds.POSITIONS.parse_section({"kind": kind, "first_frequency": 2})


def test_a_linear_layer_after_one_hot_positions_learns_a_vector_for_each_position(vectors: Tensor) -> None:
    """W [x_t ; one-hot(t)] + b = W_x x_t + (column t of W_p) + b: the columns are a learned embedding of positions."""
    torch.manual_seed(1)
    positions = build("one-hot")
    layer = torch.nn.Linear(positions.size, 3)
    columns = layer.weight[:, SIZE:]  # W_p, [3, positions]
    embedding = torch.nn.Embedding.from_pretrained(columns.detach().T.clone(), freeze=False)
    used = torch.arange(4, 4 + STEPS)
    actual = layer(positions(vectors[:, :STEPS], 4))
    expected = torch.nn.functional.linear(vectors[:, :STEPS], layer.weight[:, :SIZE], layer.bias) + embedding(used)
    torch.testing.assert_close(actual, expected)

    loss = torch.randn(actual.shape)
    (gradient,) = torch.autograd.grad((actual * loss).sum(), layer.weight)
    (of_embedding,) = torch.autograd.grad((expected * loss).sum(), embedding.weight)
    torch.testing.assert_close(gradient[:, SIZE:], of_embedding.T)
    assert gradient[:, SIZE:].any(0).nonzero().flatten().tolist() == used.tolist()


def test_one_hot_and_sinusoidal_encodings_are_not_learned() -> None:
    learned = {kind for kind in kinds.POSITIONS if list(build(kind).parameters())}
    assert learned == {"learned"}


def test_sines_stay_exact_far_from_the_beginning() -> None:
    assert float(nn.sinusoidal_encoding(100_001, 1, 2)[0, 0]) == pytest.approx(math.sin(100_001), abs=1e-6)


@pytest.mark.parametrize("kind", ["none", *RELATIVE])
def test_none_and_relative_positions_do_not_change_vectors(kind: str, vectors: Tensor) -> None:
    assert torch.equal(build(kind)(vectors, 3), vectors)


def test_one_hot_is_concatenated(vectors: Tensor) -> None:
    with_positions = build("one-hot")(vectors[:, :STEPS], 4)
    assert torch.equal(with_positions[..., :SIZE], vectors[:, :STEPS])
    expected = [[float(index == 4 + step) for index in range(LONGEST)] for step in range(STEPS)]
    assert with_positions[..., SIZE:].tolist() == [expected] * BATCH


def test_sine_is_concatenated(vectors: Tensor) -> None:
    with_positions = build("sine")(vectors, 2)
    assert torch.equal(with_positions[..., :SIZE], vectors)
    assert torch.equal(with_positions[..., SIZE:], nn.sinusoidal_encoding(2, LONGEST, WIDTH).expand(BATCH, -1, -1))


def test_sine_can_be_added(vectors: Tensor) -> None:
    torch.testing.assert_close(
        build("sine-added")(vectors, 2) - vectors, nn.sinusoidal_encoding(2, LONGEST, SIZE).expand_as(vectors)
    )


def test_learned_vectors_are_added(vectors: Tensor) -> None:
    positions = build("learned")
    expected = vectors[:, :STEPS] + positions.table[4 : 4 + STEPS]
    assert torch.equal(positions(vectors[:, :STEPS], 4), expected)
    assert isinstance(positions.table, torch.nn.Parameter)
    assert len(positions.table.unique(dim=0)) == LONGEST


@pytest.mark.parametrize("kind", kinds.POSITIONS)
def test_a_chunk_gets_the_positions_it_has_in_the_full_sequence(kind: str, vectors: Tensor) -> None:
    positions = build(kind)
    full = positions(vectors)
    assert full.shape == (BATCH, LONGEST, positions.size)
    assert torch.equal(positions(vectors[:, 3:6], 3), full[:, 3:6])
    one_by_one = [positions(vectors[:, step : step + 1], step) for step in range(LONGEST)]
    assert torch.equal(torch.cat(one_by_one, 1), full)


@pytest.mark.parametrize("kind", [kind for kind in kinds.POSITIONS if kind not in ("none", *RELATIVE)])
def test_equal_vectors_differ_between_positions(kind: str) -> None:
    everywhere = build(kind)(torch.ones(1, LONGEST, SIZE))[0]
    assert len(everywhere.unique(dim=0)) == LONGEST


@pytest.mark.parametrize("kind", kinds.POSITIONS)
def test_an_embedding_has_the_size_and_limit_of_its_positions(kind: str) -> None:
    embedding = nn.Embedding(13, SIZE, positions=build(kind))
    assert embedding(torch.zeros(BATCH, STEPS, dtype=torch.long)).shape == (BATCH, STEPS, embedding.size)
    assert embedding.max_length == (LONGEST if kind in LIMITED else None)


def test_an_embedding_is_scaled_to_variance_one() -> None:
    torch.manual_seed(1)
    embedding = nn.Embedding(2_000, 49).requires_grad_(False)
    tokens = torch.tensor([[1_999, 0, 3]])
    torch.testing.assert_close(embedding(tokens), 7 * embedding.tokens.weight[tokens])
    assert float(embedding(torch.arange(2_000).unsqueeze(0)).var()) == pytest.approx(1.0, rel=0.05)


# Sequences beyond the last position


@pytest.mark.parametrize("kind", LIMITED)
def test_a_sequence_beyond_the_last_position_is_refused_with_both_lengths(kind: str, vectors: Tensor) -> None:
    positions = build(kind)
    positions(vectors)
    message = rf"{LONGEST + 1} tokens is longer than the {LONGEST} positions"
    with pytest.raises(UserError, match=message):
        positions(torch.zeros(1, LONGEST + 1, SIZE))
    with pytest.raises(UserError, match=message):
        positions(vectors[:, :3], LONGEST - 2)


def limited_embedding(kind: str) -> nn.Embedding:
    return nn.Embedding(13, SIZE, positions=build(kind))


def encoders(kind: str) -> dict[str, nn.Encoder]:
    embedding = limited_embedding(kind)
    return {
        "recurrent": nn.RecurrentEncoder(embedding, nn.GRU(embedding.size, 5)),
        "self-attention": nn.SelfAttentionEncoder(embedding, 6, layers=1, options=LAYER),
        "plain-attention": nn.PlainAttentionEncoder(embedding, 6),
        "recurrent-self-attention": nn.RecurrentSelfAttentionEncoder(
            embedding, nn.GRU(embedding.size, 6), self_attention_layers=1, options=LAYER
        ),
    }


def decoders(kind: str) -> dict[str, nn.Decoder[Any]]:
    parts: dict[str, Any] = {"start": nn.ZeroStart, "readout": nn.DirectReadout, "cell": nn.GRU}
    made: dict[str, nn.Decoder[Any]] = {
        wiring: decoder(limited_embedding(kind), nn.MeanAttention(5, 6), **parts)
        for wiring, decoder in kinds.WIRINGS.items()
    }
    made["transformer"] = nn.TransformerDecoder(
        limited_embedding(kind), [nn.MeanAttention(6, 6)], options=LAYER, readout=nn.DirectReadout
    )
    return made


@pytest.mark.parametrize("kind", LIMITED)
@pytest.mark.parametrize("encoder", encoders("learned"))
def test_an_encoder_reports_its_maximum_length_and_refuses_more(encoder: str, kind: str) -> None:
    module = encoders(kind)[encoder]
    assert module.max_length == LONGEST
    for length in (LONGEST, LONGEST + 1):
        tokens = torch.zeros(1, length, dtype=torch.long)
        if length == LONGEST:
            module(tokens, tokens == 0)
            continue
        with pytest.raises(UserError, match=rf"{length} tokens .* {LONGEST} positions"):
            module(tokens, tokens == 0)


@pytest.mark.parametrize("kind", LIMITED)
@pytest.mark.parametrize("decoder", decoders("learned"))
@torch.inference_mode()
def test_a_decoder_reports_its_maximum_length_and_refuses_more_at_once_and_step_by_step(
    decoder: str, kind: str
) -> None:
    module = decoders(kind)[decoder]
    assert module.max_length == LONGEST
    states = torch.zeros(1, 2, 6)
    state = module.start(nn.Encoding(states, torch.ones(1, 2, dtype=torch.bool), (states[:, :1],)))
    tokens = torch.zeros(1, LONGEST + 1, dtype=torch.long)
    with pytest.raises(UserError, match=rf"{LONGEST + 1} tokens .* {LONGEST} positions"):
        module.teacher_forced(tokens, state)
    for token in tokens.unbind(1)[:LONGEST]:
        _, state = module.step(token, state)
    with pytest.raises(UserError, match=rf"{LONGEST + 1} tokens .* {LONGEST} positions"):
        module.step(tokens[:, -1], state)
