"""Plain attention and self-attention over an RNN against torch, with the same weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch.nn.functional import scaled_dot_product_attention

from regard import nn
from regard.config import kinds
from regard.config.schema import ModelSection
from regard.nn.build import build_model

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
TOKENS, EMBEDDING, SIZE, BATCH, POSITIONS = 17, 5, 7, 2, 11
VALID = torch.tensor([[True] * 11, [True] * 4 + [False] * 7])


def new_embedding() -> nn.Embedding:
    return nn.Embedding(TOKENS, EMBEDDING, positions=nn.AddedSinusoidalPositions(EMBEDDING))


def some_tokens() -> torch.Tensor:
    return torch.randint(TOKENS, (BATCH, POSITIONS), generator=torch.Generator().manual_seed(3))


# Plain attention


@pytest.mark.parametrize("layers", [1, 2, 3])
@torch.inference_mode()
def test_plain_attention_equals_torch_and_ends_with_the_mean_of_valid_states(layers: int) -> None:
    torch.manual_seed(2)
    encoder = nn.PlainAttentionEncoder(new_embedding(), SIZE, layers=layers)
    tokens = some_tokens()
    encoding = encoder(tokens, VALID)
    states = encoder.embedding(tokens)
    for layer in encoder.layers:
        queries, keys, values = (
            states @ part.weight.T for part in (layer.query_layer, layer.key_layer, layer.value_layer)
        )
        states = scaled_dot_product_attention(queries, keys, values, attn_mask=VALID.unsqueeze(1))
    assert len(encoder.layers) == layers
    assert encoding.states.shape == (BATCH, POSITIONS, SIZE)
    torch.testing.assert_close(encoding.states[VALID], states[VALID], **CLOSE)
    (final_state,) = encoding.final_state
    for row in range(BATCH):
        torch.testing.assert_close(final_state[0, row], states[row, VALID[row]].mean(0), **CLOSE)


@torch.inference_mode()
def test_plain_attention_by_hand() -> None:
    """Two tokens with the embeddings (1, 0) and (0, 1), W_Q = (2, 0), W_K = (1, 3), W_V = (4, 8): m = 1.

    q = (2, 0), k = (1, 3), v = (4, 8). The scores are (2, 6) and (0, 0).
    """
    encoder = nn.PlainAttentionEncoder(nn.Embedding(2, 2), 1)
    encoder.embedding.tokens.weight.copy_(torch.eye(2) / encoder.embedding.scale)
    (layer,) = encoder.layers
    layer.query_layer.weight.copy_(torch.tensor([[2.0, 0.0]]))
    layer.key_layer.weight.copy_(torch.tensor([[1.0, 3.0]]))
    layer.value_layer.weight.copy_(torch.tensor([[4.0, 8.0]]))
    encoding = encoder(torch.tensor([[0, 1]]), torch.ones(1, 2, dtype=torch.bool))
    first = 4 * 0.0179862 + 8 * 0.9820138  # softmax(2, 6)
    assert encoding.states.flatten().tolist() == pytest.approx([first, 6.0], abs=1e-5)
    assert encoding.final_state[0].item() == pytest.approx((first + 6.0) / 2, abs=1e-5)


def test_plain_attention_has_the_three_matrices_of_each_layer_and_nothing_else() -> None:
    encoder = nn.PlainAttentionEncoder(new_embedding(), SIZE, layers=2)
    shapes = [tuple(weight.shape) for name, weight in encoder.named_parameters() if not name.startswith("embedding")]
    assert sorted(shapes) == [(SIZE, EMBEDDING)] * 3 + [(SIZE, SIZE)] * 3


@torch.inference_mode()
def test_without_layers_the_states_are_the_embeddings() -> None:
    torch.manual_seed(2)
    tokens = some_tokens()
    encoder = nn.PlainAttentionEncoder(new_embedding(), EMBEDDING, layers=0)
    assert torch.equal(encoder(tokens, VALID).states, encoder.embedding(tokens))
    assert {name for name, _ in encoder.named_parameters()} == {"embedding.tokens.weight"}
    projected = nn.PlainAttentionEncoder(new_embedding(), SIZE, layers=0)
    weight, bias = projected.input_layer.weight, projected.input_layer.bias
    expected = projected.embedding(tokens) @ weight.T + bias
    torch.testing.assert_close(projected(tokens, VALID).states, expected, **CLOSE)


@pytest.mark.parametrize("positions", [nn.Positions(EMBEDDING), nn.AddedSinusoidalPositions(EMBEDDING)])
@torch.inference_mode()
def test_without_positions_plain_attention_is_permutation_equivariant(positions: nn.Positions) -> None:
    torch.manual_seed(2)
    encoder = nn.PlainAttentionEncoder(nn.Embedding(TOKENS, EMBEDDING, positions=positions), SIZE)
    tokens, everything = torch.tensor([[3, 1, 4, 5]]), torch.ones(1, 4, dtype=torch.bool)
    order = torch.tensor([2, 0, 3, 1])
    plain, shuffled = encoder(tokens, everything).states, encoder(tokens[:, order], everything).states
    assert torch.allclose(shuffled, plain[:, order], **CLOSE) == (type(positions) is nn.Positions)


@pytest.mark.parametrize("kind", kinds.ENCODERS)
def test_only_plain_attention_may_have_no_layers(kind: str) -> None:
    values = {"kind": kind, "size": 8, "layers": 0}
    if kind == "plain-attention":
        assert kinds.ENCODERS.parse_section(values).layers == 0
        assert kinds.ENCODERS.parse_section({"kind": kind}).layers == 1
    else:
        with pytest.raises(ValidationError, match="greater than or equal to 1"):
            kinds.ENCODERS.parse_section(values)


# Self-attention over an RNN


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", kinds.CELLS)
@torch.inference_mode()
def test_self_attention_over_an_rnn_equals_torch_and_ends_with_the_state_of_the_rnn(
    cell: str, bidirectional: bool
) -> None:
    torch.manual_seed(2)
    layers = kinds.CELLS[cell](EMBEDDING, 6, layers=2, bidirectional=bidirectional)
    options = nn.LayerOptions(heads=3, inner_size=13)
    encoder = nn.RecurrentSelfAttentionEncoder(new_embedding(), layers, self_attention_layers=2, options=options).eval()
    tokens = some_tokens()
    encoding = encoder(tokens, VALID)
    for row in range(BATCH):  # without padding, so that the RNN ends with the last token
        embedded = encoder.embedding(tokens[row : row + 1])[:, VALID[row]]
        states, end = encoder.cell(embedded)
        for layer in encoder.layers:
            states = torch_layer(layer, encoder.size)(states)
        expected = torch.nn.functional.layer_norm(states, (encoder.size,), encoder.norm.weight, encoder.norm.bias)
        torch.testing.assert_close(encoding.states[row, VALID[row]], expected[0], **CLOSE)
        for own, part in zip(encoding.final_state, end, strict=True):
            torch.testing.assert_close(own[:, row], part[:, 0], **CLOSE)


def torch_layer(own: nn.EncoderLayer, size: int) -> torch.nn.TransformerEncoderLayer:
    """The layer of torch with the weights of ours."""
    layer = torch.nn.TransformerEncoderLayer(
        size, own.attention.heads, own.feed_forward[0].out_features, dropout=0.0, batch_first=True, norm_first=True
    )
    parts = [own.attention.query_layer, own.attention.key_layer, own.attention.value_layer]
    layer.self_attn.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
    layer.self_attn.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    layer.self_attn.out_proj.load_state_dict(own.attention.output_layer.state_dict())
    layer.linear1.load_state_dict(own.feed_forward[0].state_dict())
    layer.linear2.load_state_dict(own.feed_forward[3].state_dict())
    layer.norm1.load_state_dict(own.attention_norm.state_dict())
    layer.norm2.load_state_dict(own.feed_forward_norm.state_dict())
    return layer


def test_a_recurrent_encoder_with_self_attention_has_the_configured_parts() -> None:
    section = {"kind": "recurrent-self-attention", "cell": "lstm", "embedding": 3, "size": 5, "layers": 2}
    section |= {"bidirectional": True, "self_attention_layers": 3, "heads": 2, "inner_size": 11}
    encoder = build_model(ModelSection.model_validate({"encoder": section}), TOKENS, 19).encoder
    assert isinstance(encoder, nn.RecurrentSelfAttentionEncoder)
    assert isinstance(encoder.cell, nn.LSTM)
    assert (encoder.size, encoder.cell.layers, encoder.cell.directions, len(encoder.layers)) == (10, 2, 2, 3)
    assert {(layer.attention.heads, layer.feed_forward[0].out_features) for layer in encoder.layers} == {(2, 11)}


def test_heads_share_the_states_of_both_directions() -> None:
    values: dict[str, Any] = {"kind": "recurrent-self-attention", "size": 5, "heads": 2}
    assert kinds.ENCODERS.parse_section(values).state_size == 10
    with pytest.raises(ValidationError, match="2 heads cannot share a size of 5 equally"):
        kinds.ENCODERS.parse_section(values | {"bidirectional": False})


# Every start of a recurrent decoder


@pytest.mark.parametrize("start", kinds.STARTS)
@pytest.mark.parametrize(
    "encoder",
    [
        {"kind": "plain-attention"},
        {"kind": "plain-attention", "layers": 0},
        {"kind": "recurrent-self-attention", "bidirectional": False},
    ],
    ids=["plain", "embeddings", "recurrent"],
)
@torch.inference_mode()
def test_a_recurrent_decoder_may_have_every_start(encoder: dict[str, Any], start: str) -> None:
    sections = {"encoder": encoder | {"size": 8}, "decoder": {"size": 8, "start": start}}
    model = build_model(ModelSection.model_validate(sections), TOKENS, 19)
    state = model.start(some_tokens(), VALID)
    final_state = model.encoder(some_tokens(), VALID).final_state[0]
    assert torch.equal(state.hidden[0], final_state) == (start == "copy")
