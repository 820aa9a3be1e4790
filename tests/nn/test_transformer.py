"""Self-attention layers against those of torch, with the same weights."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from regard import nn
from regard.config import kinds
from regard.config.schema import ModelSection
from regard.errors import UserError
from regard.nn.build import build_model
from regard.nn.transformer_layers import ACTIVATIONS, NORM_POSITIONS, Activation, NormPosition, RMSNorm

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
SIZE, HEADS, INNER, BATCH, STEPS, POSITIONS = 6, 3, 11, 2, 5, 7
LAYER = nn.LayerOptions(heads=HEADS, inner_size=INNER)
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


def torch_options(options: nn.LayerOptions) -> dict[str, object]:
    return {
        "dim_feedforward": INNER,
        "dropout": 0.0,
        "batch_first": True,
        "norm_first": options.norm_position == "pre",
        "activation": options.activation,
    }


def torch_encoder_layer(own: nn.EncoderLayer, options: nn.LayerOptions = LAYER) -> torch.nn.TransformerEncoderLayer:
    torch_layer = torch.nn.TransformerEncoderLayer(SIZE, HEADS, **torch_options(options))
    copy_attention(own.attention, torch_layer.self_attn)
    copy_rest(own, torch_layer, [own.attention_norm, own.feed_forward_norm])
    return torch_layer


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("norm_position", NORM_POSITIONS)
def test_an_encoder_layer_equals_torch(norm_position: NormPosition, activation: Activation, states: Tensor) -> None:
    options = replace(LAYER, norm_position=norm_position, activation=activation)
    own = with_random_norms_and_biases(nn.EncoderLayer(SIZE, options))
    actual, expected = own(states, VALID), torch_encoder_layer(own, options)(states, src_key_padding_mask=~VALID)
    torch.testing.assert_close(actual[VALID], expected[VALID], **CLOSE)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("norm_position", NORM_POSITIONS)
def test_a_decoder_layer_equals_torch(norm_position: NormPosition, activation: Activation, states: Tensor) -> None:
    options = replace(LAYER, norm_position=norm_position, activation=activation)
    own = with_random_norms_and_biases(nn.DecoderLayer(nn.MultiHeadAttention(SIZE, SIZE, heads=HEADS), options))
    torch_layer = torch.nn.TransformerDecoderLayer(SIZE, HEADS, **torch_options(options))
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
    encoder = nn.SelfAttentionEncoder(embedding, SIZE, layers=2, options=LAYER)
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


@pytest.mark.parametrize(
    "positions", [nn.Positions(6), nn.AddedSinusoidalPositions(6), nn.RotaryPositions(6), nn.AlibiPositions(6)]
)
@torch.inference_mode()
def test_without_positions_an_encoder_is_permutation_equivariant(positions: nn.Positions) -> None:
    torch.manual_seed(2)
    encoder = nn.SelfAttentionEncoder(nn.Embedding(17, 6, positions=positions), SIZE, layers=1, options=LAYER)
    tokens, everything = torch.tensor([[3, 1, 4, 5]]), torch.ones(1, 4, dtype=torch.bool)
    order = torch.tensor([2, 0, 3, 1])
    plain, shuffled = encoder(tokens, everything).states, encoder(tokens[:, order], everything).states
    is_equivariant = torch.allclose(shuffled, plain[:, order], **CLOSE)
    assert is_equivariant == (type(positions) is nn.Positions)


def test_root_mean_square_normalization_follows_its_formula(states: Tensor) -> None:
    norm = with_random_norms_and_biases(replace(LAYER, norm="rms").new_norm(SIZE))
    assert dict(norm.named_parameters()).keys() == {"weight"}
    for x, y in zip(states.flatten(0, 1), norm(states).flatten(0, 1), strict=True):
        root_mean_square = (sum(float(each) ** 2 for each in x) / SIZE) ** 0.5
        torch.testing.assert_close(y, norm.weight * x / root_mean_square, **CLOSE)


@pytest.mark.parametrize("norm", ["layer", "rms"])
@torch.inference_mode()
def test_a_stack_ends_with_one_normalization_in_pre_norm_and_in_post_norm(norm: str) -> None:
    """Pre-norm needs one after the last layer; a post-norm layer ends with its own."""
    torch.manual_seed(2)
    tokens = torch.randint(17, (BATCH, POSITIONS))
    for norm_position in NORM_POSITIONS:
        options = replace(LAYER, norm=norm, norm_position=norm_position)
        encoder = nn.SelfAttentionEncoder(nn.Embedding(17, 5), SIZE, layers=2, options=options)
        assert isinstance(encoder.norm, torch.nn.Identity) == (norm_position == "post")
        states = encoder(tokens, VALID).states[VALID]
        torch.testing.assert_close(states.square().mean(-1), torch.ones(len(states)), rtol=1e-3, atol=1e-3)
        assert torch.allclose(states.mean(-1), torch.zeros(len(states)), atol=1e-5) == (norm == "layer")


LAYER_SETTINGS = {"norm_position": "post", "norm": "rms", "activation": "gelu"}


@pytest.mark.parametrize("encoder", ["self-attention", "recurrent-self-attention"])
def test_the_options_of_layers_reach_encoder_and_decoder(encoder: str) -> None:
    sections = {"encoder": {"kind": encoder} | LAYER_SETTINGS, "decoder": {"kind": "transformer"} | LAYER_SETTINGS}
    model = build_model(ModelSection.model_validate(sections), 17, 19)
    norms = {"attention_norm", "self_norm", "cross_norm", "feed_forward_norm"}
    for coder in (model.encoder, model.decoder):
        assert isinstance(coder.norm, torch.nn.Identity)
        for layer in coder.layers:
            assert not layer.is_pre_norm
            assert isinstance(layer.feed_forward[1], torch.nn.GELU)
            own = {name: part for name, part in layer.named_children() if name in norms}
            assert {type(part) for part in own.values()} == {RMSNorm}
            assert len(own) == (3 if coder is model.decoder else 2)


@pytest.mark.parametrize("option", LAYER_SETTINGS)
def test_an_unknown_option_of_a_layer_is_refused(option: str) -> None:
    with pytest.raises(UserError, match=rf"{option} is 'batch'; it can be \w+ or \w+"):
        nn.LayerOptions(heads=HEADS, inner_size=INNER, **{option: "batch"})
    with pytest.raises(ValidationError, match=r"Input should be '\w+' or '\w+'"):
        kinds.DECODERS.parse_section({"kind": "transformer", option: "batch"})


def test_initial_weights_do_not_depend_on_the_options_of_layers() -> None:
    """A study that compares them starts from the same weights."""

    def weights(**options: str) -> dict[str, Tensor]:
        section = {"encoder": {"kind": "self-attention"} | options, "decoder": {"kind": "transformer"} | options}
        torch.manual_seed(5)
        model = build_model(ModelSection.model_validate(section), 17, 19)
        return {name: each for name, each in model.named_parameters() if "norm" not in name}

    default, other = weights(), weights(**LAYER_SETTINGS)
    assert default.keys() == other.keys()
    assert all(torch.equal(each, other[name]) for name, each in default.items())
