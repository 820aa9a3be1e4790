"""Rotary positions and ALiBi against their formulas, and self-attention with them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from regard import nn
from regard.config import kinds
from regard.config.schema import ModelSection
from regard.errors import UserError
from regard.nn.build import build_model
from regard.nn.relative_positions import alibi_slopes

SIZE, HEADS, BATCH, STEPS = 12, 3, 2, 5
LAYER = nn.LayerOptions(heads=HEADS, inner_size=7)


def rotated(rotary: nn.RotaryPositions, vector: Tensor, position: int) -> Tensor:
    """A vector [size] at one position."""
    return rotary.rotate(vector.view(1, 1, 1, -1), position).flatten()


# Rotary positions


def test_a_pair_of_dimensions_is_rotated_by_its_position() -> None:
    """In two dimensions θ_0 = 1: (3, 4) at position 2 is turned by 2 radians."""
    x = torch.tensor([3.0, 4.0])
    cosine, sine = -0.4161468, 0.9092974
    expected = [3 * cosine - 4 * sine, 3 * sine + 4 * cosine]  # -4.885630, 1.063305
    assert rotated(nn.RotaryPositions(5), x, 2).tolist() == pytest.approx(expected, abs=1e-6)
    assert rotated(nn.RotaryPositions(5), x, 0).tolist() == [3, 4]


def test_the_product_of_query_and_key_by_hand() -> None:
    """q = (1, 0) and k = (2, 0) at a distance of 3: 2 cos 3, wherever they are."""
    rotary, q, k = nn.RotaryPositions(5), torch.tensor([1.0, 0.0]), torch.tensor([2.0, 0.0])
    for j in (0, 1, 40):
        assert float(rotated(rotary, q, j + 3) @ rotated(rotary, k, j)) == pytest.approx(2 * math.cos(3), abs=1e-5)


@pytest.mark.parametrize("base", [10_000.0, 100.0])
def test_each_pair_has_a_frequency_of_its_own(base: float) -> None:
    rotary = nn.RotaryPositions(5, base=base)
    x, t = torch.randn(6, generator=torch.Generator().manual_seed(1)), 7
    expected = []
    for k in range(3):
        angle, a, b = t / base ** (2 * k / 6), float(x[2 * k]), float(x[2 * k + 1])
        expected += [a * math.cos(angle) - b * math.sin(angle), a * math.sin(angle) + b * math.cos(angle)]
    assert rotated(rotary, x, t).tolist() == pytest.approx(expected, abs=1e-6)


def test_a_rotary_score_depends_on_the_distance_and_keeps_norms() -> None:
    rotary = nn.RotaryPositions(5)
    generator = torch.Generator().manual_seed(2)
    q, k = (torch.randn(8, dtype=torch.float64, generator=generator) for _ in range(2))
    for distance in (-11, 0, 4):
        products = [rotated(rotary, q, j + distance) @ rotated(rotary, k, j) for j in (11, 12, 300)]
        torch.testing.assert_close(torch.stack(products), products[0].expand(3))
    near, far = (rotated(rotary, q, 1) @ rotated(rotary, k, j) for j in (2, 9))
    assert abs(near - far) > 0.01
    torch.testing.assert_close(rotated(rotary, q, 123).norm(), q.norm())


def test_rotary_frequencies_are_those_of_sinusoidal_positions() -> None:
    """(1, 0) in each pair becomes (cos ω_k t, sin ω_k t)."""
    cosines_and_sines = rotated(nn.RotaryPositions(5), torch.tensor([1.0, 0.0] * 4), 9).view(-1, 2)
    assert torch.equal(cosines_and_sines.flip(-1).flatten(), nn.sinusoidal_encoding(9, 1, 8)[0])


# ALiBi


def test_slopes_of_eight_heads_are_powers_of_one_half() -> None:
    assert alibi_slopes(8).tolist() == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]


@pytest.mark.parametrize("heads", [1, 3, 6, 16])
def test_slopes_are_geometric_and_end_with_1_in_256(heads: int) -> None:
    slopes = alibi_slopes(heads).tolist()
    assert slopes == pytest.approx([2 ** (-8 * h / heads) for h in range(1, heads + 1)], rel=1e-6)
    assert slopes[-1] == 1 / 256


def test_the_bias_of_three_positions_and_two_heads() -> None:
    """The slopes are 1/16 and 1/256."""
    bias = nn.AlibiPositions(5).add_bias(torch.zeros(1, 2, 3, 3))[0]
    distances = torch.tensor([[0.0, 1, 2], [1, 0, 1], [2, 1, 0]])
    assert torch.equal(bias, torch.stack([-distances / 16, -distances / 256]))


def test_new_queries_are_the_last_positions() -> None:
    scores = torch.randn(BATCH, HEADS, STEPS, STEPS, generator=torch.Generator().manual_seed(3))
    alibi = nn.AlibiPositions(5)
    assert torch.equal(alibi.add_bias(scores[:, :, 3:]), alibi.add_bias(scores)[:, :, 3:])


# Self-attention


@pytest.fixture
def states() -> Tensor:
    return torch.randn(BATCH, STEPS, SIZE, generator=torch.Generator().manual_seed(4))


def weights_by_hand(attention: nn.SelfAttention, states: Tensor, kind: str) -> Tensor:
    """The weights of all heads, one pair of positions at a time, each of which attends to itself and earlier ones."""
    rotary, width = nn.RotaryPositions(5), SIZE // HEADS
    weights = torch.zeros(BATCH, HEADS, STEPS, STEPS)
    for row, head, i in torch.cartesian_prod(*map(torch.arange, (BATCH, HEADS, STEPS))).tolist():
        part, scores = slice(head * width, (head + 1) * width), []
        for j in range(i + 1):
            q = attention.query_layer(states[row, i])[part]
            k = attention.key_layer(states[row, j])[part]
            if kind == "rotary":
                q, k = rotated(rotary, q, i), rotated(rotary, k, j)
            bias = -(2 ** (-8 * (head + 1) / HEADS)) * (i - j) if kind == "alibi" else 0.0
            scores.append(q @ k / math.sqrt(width) + bias)
        weights[row, head, i, : i + 1] = torch.stack(scores).softmax(0)
    return weights


@pytest.mark.parametrize("kind", ["none", "rotary", "alibi"])
@torch.inference_mode()
def test_weights_of_masked_self_attention_by_hand(kind: str, states: Tensor) -> None:
    torch.manual_seed(5)
    positions = None if kind == "none" else kinds.POSITIONS[kind](SIZE)
    attention = nn.SelfAttention(SIZE, heads=HEADS, positions=positions)
    visible = torch.ones(STEPS, STEPS, dtype=torch.bool).tril().expand(BATCH, -1, -1)
    _, weights = attention(states, attention.prepare(states, visible))
    torch.testing.assert_close(weights, weights_by_hand(attention, states, kind), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("positions", [nn.RotaryPositions(SIZE), nn.AlibiPositions(SIZE)])
@torch.inference_mode()
def test_moving_a_sequence_changes_nothing_but_its_distances(positions: nn.RelativePositions, states: Tensor) -> None:
    """Three unattended positions before the sequence move it by three."""
    torch.manual_seed(5)
    attention = nn.SelfAttention(SIZE, heads=HEADS, positions=positions)
    everything = torch.ones(BATCH, STEPS, dtype=torch.bool)
    context, weights = attention(states, attention.prepare(states, everything))
    moved, valid = torch.cat([states[:, :3], states], 1), torch.cat([~everything[:, :3], everything], 1)
    moved_context, moved_weights = attention(moved, attention.prepare(moved, valid))
    torch.testing.assert_close(moved_context[:, 3:], context, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(moved_weights[:, :, 3:, 3:], weights, rtol=1e-4, atol=1e-5)
    reverse = attention(states.flip(1), attention.prepare(states.flip(1), everything))[0].flip(1)
    assert torch.allclose(reverse, context, rtol=1e-4, atol=1e-5) == isinstance(positions, nn.AlibiPositions)


def test_relative_positions_act_in_every_self_attention_and_in_no_cross_attention() -> None:
    kinds_of_both = {"positions": {"kind": "rotary"}, "size": SIZE, "heads": HEADS, "layers": 2}
    sections = {"encoder": {"kind": "self-attention"} | kinds_of_both, "attention": {"kind": "multi-head"}}
    sections["decoder"] = {"kind": "transformer", "positions": {"kind": "alibi"}, "size": SIZE, "layers": 2}
    model = build_model(ModelSection.model_validate(sections), 17, 19)
    encoder = [each.positions for each in model.encoder.modules() if isinstance(each, nn.SelfAttention)]
    decoder = [each.positions for each in model.decoder.modules() if isinstance(each, nn.SelfAttention)]
    assert list(map(type, encoder)) == [nn.RotaryPositions] * 2
    assert list(map(type, decoder)) == [nn.AlibiPositions] * 2
    assert {type(each) for each in model.decoder.source_attentions} == {nn.MultiHeadAttention}


def test_an_encoder_reads_the_positions_of_its_embedding() -> None:
    torch.manual_seed(5)
    embedding = nn.Embedding(17, SIZE, positions=nn.AlibiPositions(SIZE))
    encoder = nn.SelfAttentionEncoder(embedding, SIZE, layers=1, options=LAYER)
    assert embedding.relative_positions is encoder.layers[0].attention.positions
    assert nn.Embedding(17, SIZE, positions=nn.LearnedPositions(SIZE, max_length=3)).relative_positions is None


def test_weights_have_the_names_and_values_that_they_have_without_positions() -> None:
    def weights(kind: str) -> dict[str, Tensor]:
        section = {"kind": "self-attention", "positions": {"kind": kind}}
        torch.manual_seed(6)
        return build_model(ModelSection.model_validate({"encoder": section}), 17, 19).state_dict()

    for kind in ("rotary", "alibi"):
        actual, expected = weights(kind), weights("none")
        assert actual.keys() == expected.keys()
        assert all(torch.equal(actual[name], expected[name]) for name in actual)


# Settings


@pytest.mark.parametrize("kind", ["rotary", "alibi"])
@pytest.mark.parametrize(
    "section", [("encoder", "recurrent"), ("encoder", "plain-attention"), ("decoder", "recurrent")], ids="-".join
)
def test_relative_positions_need_self_attention_heads(section: tuple[str, str], kind: str) -> None:
    side, coder = section
    message = (
        rf"'{kind}' acts on the heads of self-attention layers, which '{coder}' does not have; "
        "choose none, one-hot, sine, sine-added or learned"
    )
    with pytest.raises(ValidationError, match=message) as error:
        ModelSection.model_validate({side: {"kind": coder, "positions": {"kind": kind}}})
    assert error.value.errors()[0]["ctx"]["key"] == "positions.kind"


@pytest.mark.parametrize(
    ("section", "size"),
    [
        ({"kind": "self-attention", "size": 6, "heads": 2}, 3),
        ({"kind": "recurrent-self-attention", "size": 5, "heads": 2}, 5),
    ],
)
def test_rotary_positions_need_an_even_head(section: dict[str, Any], size: int) -> None:
    message = f"rotate pairs of dimensions, but each of 2 heads has {size}; make it even"
    with pytest.raises(ValidationError, match=message):
        kinds.ENCODERS.parse_section(section | {"positions": {"kind": "rotary"}})
    kinds.ENCODERS.parse_section(section | {"positions": {"kind": "alibi"}})
    with pytest.raises(UserError, match=message):
        nn.SelfAttention(2 * size, heads=2, positions=nn.RotaryPositions(SIZE))


def test_the_base_is_more_than_1() -> None:
    assert kinds.POSITIONS.parse_section({"kind": "rotary"}).base == 10_000
    with pytest.raises(ValidationError, match="greater than 1"):
        kinds.POSITIONS.parse_section({"kind": "rotary", "base": 1.0})
