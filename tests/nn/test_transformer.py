"""Self-attention layers against those of torch, with the same weights."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard import nn

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
SIZE, HEADS, INNER, BATCH, STEPS, POSITIONS = 6, 3, 11, 2, 5, 7
VALID = torch.tensor([[True] * 7, [True] * 4 + [False] * 3])


def copy_attention(own: nn.MultiHeadAttention, torch_layer: torch.nn.MultiheadAttention) -> None:
    layers = [own.query_layer, own.key_layer, own.value_layer]
    with torch.no_grad():
        torch_layer.in_proj_weight.copy_(torch.cat([layer.weight for layer in layers]))
        torch_layer.in_proj_bias.copy_(torch.cat([layer.bias for layer in layers]))
    torch_layer.out_proj.load_state_dict(own.output_layer.state_dict())


def copy_rest(
    own: nn.EncoderLayer | nn.DecoderLayer, torch_layer: torch.nn.Module, norms: list[torch.nn.LayerNorm]
) -> None:
    torch_layer.linear1.load_state_dict(own.feed_forward[0].state_dict())
    torch_layer.linear2.load_state_dict(own.feed_forward[3].state_dict())
    for number, norm in enumerate(norms, start=1):
        getattr(torch_layer, f"norm{number}").load_state_dict(norm.state_dict())


def with_random_norms_and_biases(module: torch.nn.Module) -> torch.nn.Module:
    """With no bias of 0 and no norm of 1, which would hide that they were swapped."""
    torch.manual_seed(4)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return module


@pytest.fixture
def states() -> Tensor:
    return torch.randn(BATCH, POSITIONS, SIZE, generator=torch.Generator().manual_seed(3))


def torch_options() -> dict[str, object]:
    return {"dim_feedforward": INNER, "dropout": 0.0, "batch_first": True, "norm_first": True}


def torch_encoder_layer(own: nn.EncoderLayer) -> torch.nn.TransformerEncoderLayer:
    torch_layer = torch.nn.TransformerEncoderLayer(SIZE, HEADS, **torch_options())
    copy_attention(own.attention, torch_layer.self_attn)
    copy_rest(own, torch_layer, [own.attention_norm, own.feed_forward_norm])
    return torch_layer


def test_an_encoder_layer_equals_torch(states: Tensor) -> None:
    own = with_random_norms_and_biases(nn.EncoderLayer(SIZE, heads=HEADS, inner_size=INNER))
    actual, expected = own(states, VALID), torch_encoder_layer(own)(states, src_key_padding_mask=~VALID)
    torch.testing.assert_close(actual[VALID], expected[VALID], **CLOSE)


def test_a_decoder_layer_equals_torch(states: Tensor) -> None:
    own = with_random_norms_and_biases(
        nn.DecoderLayer(nn.MultiHeadAttention(SIZE, SIZE, heads=HEADS), heads=HEADS, inner_size=INNER)
    )
    torch_layer = torch.nn.TransformerDecoderLayer(SIZE, HEADS, **torch_options())
    copy_attention(own.self_attention, torch_layer.self_attn)
    copy_attention(own.cross_attention, torch_layer.multihead_attn)
    copy_rest(own, torch_layer, [own.self_norm, own.cross_norm, own.feed_forward_norm])
    targets = torch.randn(BATCH, STEPS, SIZE)
    visible = torch.ones(STEPS, STEPS, dtype=torch.bool).tril()
    source = own.cross_attention.prepare(states, VALID)
    actual, weights, _ = own(targets, visible.expand(BATCH, -1, -1), None, source)
    expected = torch_layer(targets, states, tgt_mask=~visible, memory_key_padding_mask=~VALID)
    torch.testing.assert_close(actual, expected, **CLOSE)
    assert weights.shape == (BATCH, HEADS, STEPS, POSITIONS)


@torch.inference_mode()
def test_an_encoder_applies_its_layers_in_order_and_its_final_state_is_the_mean_of_valid_states() -> None:
    torch.manual_seed(2)
    embedding = nn.Embedding(17, 5, positions=nn.AddedSinusoidalPositions(5))
    encoder = nn.SelfAttentionEncoder(embedding, SIZE, layers=2, heads=HEADS, inner_size=INNER)
    tokens = torch.randint(17, (BATCH, POSITIONS))
    encoding = encoder(tokens, VALID)
    states = encoder.input_layer(embedding(tokens))
    for layer in encoder.layers:
        states = torch_encoder_layer(layer)(states, src_key_padding_mask=~VALID)
    states = encoder.norm(states)
    torch.testing.assert_close(encoding.states[VALID], states[VALID], **CLOSE)
    assert encoding.final_state[0].shape == (1, BATCH, SIZE)
    for row in range(BATCH):
        torch.testing.assert_close(encoding.final_state[0][0, row], states[row, VALID[row]].mean(0), **CLOSE)


@pytest.mark.parametrize("positions", [nn.Positions(6), nn.AddedSinusoidalPositions(6)], ids=["without", "with"])
@torch.inference_mode()
def test_without_positions_an_encoder_is_permutation_equivariant(positions: nn.Positions) -> None:
    torch.manual_seed(2)
    encoder = nn.SelfAttentionEncoder(
        nn.Embedding(17, 6, positions=positions), SIZE, layers=1, heads=HEADS, inner_size=INNER
    )
    tokens, everything = torch.tensor([[3, 1, 4, 5]]), torch.ones(1, 4, dtype=torch.bool)
    order = torch.tensor([2, 0, 3, 1])
    plain, shuffled = encoder(tokens, everything).states, encoder(tokens[:, order], everything).states
    is_equivariant = torch.allclose(shuffled, plain[:, order], **CLOSE)
    assert is_equivariant == (type(positions) is nn.Positions)
