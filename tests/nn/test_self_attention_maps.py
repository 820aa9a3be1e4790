"""The weights of self-attention that are recorded, for every combination of encoder and decoder."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.config.schema import ModelSection
from regard.nn import MultiHeadAttention, ScaledDotAttention, SelfAttentionMaps, Seq2Seq, record_self_attention
from regard.nn.build import build_model
from regard.nn.encoder_decoder import attentions_in
from regard.nn.self_attention_maps import join_layers, record_weights

CLOSE = {"rtol": 1e-5, "atol": 1e-6}


def recorded(model: Seq2Seq, batch: Any) -> list[SelfAttentionMaps]:
    return record_self_attention(model, batch.source, batch.source_valid, batch.inputs, batch.valid)


def sides(maps: SelfAttentionMaps, batch: Any, row: int) -> list[tuple[Tensor | None, int]]:
    """The weights of encoder and decoder, each with the number of its positions."""
    return [(maps.encoder, int(batch.source_valid[row].sum())), (maps.decoder, int(batch.valid[row].sum()))]


def test_weights_are_distributions_over_the_tokens_of_each_row(any_model, batch) -> None:
    model = any_model.model
    for row, maps in enumerate(recorded(model, batch)):
        for (weights, length), side in zip(sides(maps, batch, row), (model.encoder, model.decoder), strict=True):
            assert (weights is None) == (not side.self_attentions)
            if weights is not None:
                heads = [side.self_attentions[0].heads] if side.self_attentions[0].weight_axes else []
                assert weights.shape == (len(side.self_attentions), *heads, length, length)
                assert (weights >= 0).all()
                torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
        if maps.decoder is not None:
            assert maps.decoder.triu(1).abs().max() == 0, "the future has exactly no weight"


def test_a_row_has_the_same_weights_alone_in_a_batch_and_in_any_order(any_model, batch) -> None:
    model, together = any_model.model, recorded(any_model.model, batch)
    order = [2, 0, 1]
    parts = (batch.source, batch.source_valid, batch.inputs, batch.valid)
    shuffled = record_self_attention(model, *(part[order] for part in parts))
    for place, row in enumerate(order):
        source, inputs = batch.source[row, batch.source_valid[row]], batch.inputs[row, batch.valid[row]]
        alone_parts = (
            part for ids in (source, inputs) for part in (ids[None], torch.ones(1, len(ids), dtype=torch.bool))
        )
        (alone,) = record_self_attention(model, *alone_parts)
        for other in (shuffled[place], alone):
            pairs = ((other.encoder, together[row].encoder), (other.decoder, together[row].decoder))
            for weights, expected in pairs:
                assert (weights is None) == (expected is None)
                if weights is not None:
                    torch.testing.assert_close(weights, expected, **CLOSE)


@torch.inference_mode()
def test_weights_are_those_of_single_steps(any_model, batch) -> None:
    """Search computes one step at a time, with the keys of earlier steps kept."""
    model = any_model.model
    state = model.start(batch.source, batch.source_valid)
    with record_weights(model.decoder.self_attentions) as calls:
        for token in batch.inputs.unbind(1):
            _, state = model.decoder.step(token, state)
    by_step = join_layers(calls, batch.inputs.shape[1])
    for row, maps in enumerate(recorded(model, batch)):
        assert (maps.decoder is None) == (by_step is None)
        if by_step is not None:
            length = int(batch.valid[row].sum())
            torch.testing.assert_close(by_step[row, ..., :length, :length], maps.decoder, **CLOSE)


def test_hooks_are_removed_even_after_an_error(any_model, batch) -> None:
    recorded(any_model.model, batch)
    with pytest.raises(RuntimeError, match="stop"), record_weights(any_model.model.encoder.self_attentions):
        raise RuntimeError("stop")
    assert not any(module._forward_hooks for module in any_model.model.modules())


# --- by hand ---------------------------------------------------------------------------------------------


def transformer() -> Seq2Seq:
    size = {"size": 6, "embedding": 6, "heads": 2, "inner_size": 7, "layers": 1}
    sections = {"encoder": {"kind": "self-attention", **size}, "decoder": {"kind": "transformer", **size}}
    torch.manual_seed(3)
    return build_model(ModelSection.model_validate(sections), 11, 13).eval()


def weights_by_hand(x: Tensor, attention: MultiHeadAttention, *, causal: bool) -> Tensor:
    """α_ij = exp(q_i · k_j / √d) / Σ_j' exp(q_i · k_j' / √d), one head and row at a time."""
    queries, keys = (x @ layer.weight.T + layer.bias for layer in (attention.query_layer, attention.key_layer))
    size = queries.shape[1] // attention.heads
    weights = torch.zeros(attention.heads, len(x), len(x))
    for head in range(attention.heads):
        part = slice(head * size, (head + 1) * size)
        for i, query in enumerate(queries[:, part]):
            visible = i + 1 if causal else len(x)
            exponentials = [math.exp(float(query @ key) / math.sqrt(size)) for key in keys[:visible, part]]
            weights[head, i, :visible] = torch.tensor(exponentials) / sum(exponentials)
    return weights


@torch.no_grad()
def test_a_layer_has_the_weights_that_its_equation_gives() -> None:
    model = transformer()
    source, inputs = torch.tensor([[4, 9, 2, 5]]), torch.tensor([[1, 8, 3]])
    (maps,) = record_self_attention(model, source, source > 0, inputs, inputs > 0)
    layer, decoder_layer = model.encoder.layers[0], model.decoder.layers[0]
    x = layer.attention_norm(model.encoder.embedding(source))[0]
    torch.testing.assert_close(maps.encoder[0], weights_by_hand(x, layer.attention, causal=False))
    x = decoder_layer.self_norm(model.decoder.embedding(inputs))[0]
    torch.testing.assert_close(maps.decoder[0], weights_by_hand(x, decoder_layer.self_attention, causal=True))


# --- layers outside Regard -------------------------------------------------------------------------------


def random_weights(*shape: int) -> Tensor:
    return torch.rand(*shape).softmax(-1)


def test_a_mechanism_that_several_layers_share_has_a_map_for_each_call() -> None:
    calls = [random_weights(2, 5, 5) for _ in range(3)]
    assert torch.equal(join_layers([calls], 5), torch.stack(calls, 1))


def test_layers_with_different_numbers_of_heads_are_averaged_over_heads() -> None:
    two, three, none = random_weights(7, 2, 5, 5), random_weights(7, 3, 5, 5), random_weights(7, 5, 5)
    joined = join_layers([[two], [three], [none]], 5)
    assert torch.equal(joined, torch.stack([two.mean(1), three.mean(1), none], 1))


@pytest.mark.parametrize("shape", [(7, 1, 5), (7, 5, 3), (7, 6, 6), (7, 2, 5, 4)])
def test_attention_to_something_else_is_not_shown(shape: tuple[int, ...]) -> None:
    """Such as pooling by one query, or a memory that is not the tokens."""
    assert join_layers([[random_weights(*shape)]], 5) is None
    square = random_weights(7, 5, 5)
    assert torch.equal(join_layers([[random_weights(*shape)], [square]], 5), square[:, None])


def test_a_mechanism_inside_another_is_not_listed() -> None:
    outer, second = ScaledDotAttention(3, 3), MultiHeadAttention(4, 4, heads=2)
    outer.inner = ScaledDotAttention(3, 3)
    shared = nn.ModuleList([nn.Sequential(outer), second, outer])
    assert attentions_in(shared) == [outer, second]
