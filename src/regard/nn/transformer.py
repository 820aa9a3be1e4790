"""Self-attention: an encoder without recurrence, and the Transformer's decoder. Layers are pre-norm.

Shapes: [batch, positions, size] on the source side, [batch, steps, size] on the target side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from regard.nn.attention import Attention, Memory, MultiHeadAttention
from regard.nn.dropout import Dropout
from regard.nn.encoder_decoder import Decoder, Encoder, Encoding, Readout, split_index
from regard.nn.positions import Embedding


class FeedForward(nn.Sequential):
    """W_2 ReLU(W_1 x + b_1) + b_2, at every position alike."""

    def __init__(self, size: int, inner_size: int, *, dropout: float = 0.0) -> None:
        super().__init__(nn.Linear(size, inner_size), nn.ReLU(), Dropout(dropout), nn.Linear(inner_size, size))


def to_size(input_size: int, size: int) -> nn.Module:
    """A layer between two sizes, and nothing where they are equal."""
    return nn.Identity() if input_size == size else nn.Linear(input_size, size)


class EncoderLayer(nn.Module):
    """x ← x + SelfAttention(norm(x));  x ← x + FeedForward(norm(x))."""

    def __init__(self, size: int, *, heads: int, inner_size: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(size, size, heads=heads)
        self.feed_forward = FeedForward(size, inner_size, dropout=dropout)
        self.attention_norm = nn.LayerNorm(size)
        self.feed_forward_norm = nn.LayerNorm(size)
        self.dropout = Dropout(dropout)

    def forward(self, states: Tensor, valid: Tensor) -> Tensor:
        normed = self.attention_norm(states)
        context, _ = self.attention(normed, self.attention.prepare(normed, valid))
        states = states + self.dropout(context)
        return states + self.dropout(self.feed_forward(self.feed_forward_norm(states)))


class SelfAttentionEncoder(Encoder):
    """An encoder of attention layers only. It sees a set of tokens: without positions, order is lost on it."""

    def __init__(
        self,
        embedding: Embedding,
        size: int,
        *,
        layers: int,
        heads: int,
        inner_size: int,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.input_layer = to_size(embedding.size, size)
        self.layers = nn.ModuleList(
            EncoderLayer(size, heads=heads, inner_size=inner_size, dropout=dropout) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(size)
        self.size = size
        self.max_length = embedding.max_length

    def forward(self, tokens: Tensor, valid: Tensor) -> Encoding:
        states = self.input_layer(self.embedding(tokens))
        for layer in self.layers:
            states = layer(states, valid)
        states = self.norm(states)
        # It has no last state; a recurrent decoder starts from the mean of its real ones.
        real = valid.unsqueeze(-1).to(states)
        mean = (states * real).sum(1) / real.sum(1)
        return Encoding(states, valid, (mean.unsqueeze(0),))


class DecoderLayer(nn.Module):
    """x ← x + MaskedSelfAttention(norm(x));  x ← x + Attention(norm(x), h^enc);  x ← x + FeedForward(norm(x)).

    `cross_attention` may be any mechanism; the Transformer's own is `MultiHeadAttention`.
    """

    def __init__(self, cross_attention: Attention, *, heads: int, inner_size: int, dropout: float = 0.0) -> None:
        super().__init__()
        size = cross_attention.query_size
        self.self_attention = MultiHeadAttention(size, size, heads=heads)
        self.cross_attention = cross_attention
        self.context_layer = to_size(cross_attention.context_size, size)
        self.feed_forward = FeedForward(size, inner_size, dropout=dropout)
        self.self_norm = nn.LayerNorm(size)
        self.cross_norm = nn.LayerNorm(size)
        self.feed_forward_norm = nn.LayerNorm(size)
        self.dropout = Dropout(dropout)

    def forward(
        self, states: Tensor, visible: Tensor, past: Memory | None, source: Memory
    ) -> tuple[Tensor, Tensor, Memory]:
        """`visible` [batch, steps, past and new steps] says which of the steps so far each new one may look at."""
        normed = self.self_norm(states)
        steps_so_far = self.self_attention.prepare(normed, visible)
        if past is not None:
            steps_so_far = steps_so_far.after(past)
        context, _ = self.self_attention(normed, steps_so_far)
        states = states + self.dropout(context)
        context, weights = self.cross_attention(self.cross_norm(states), source)
        states = states + self.dropout(self.context_layer(context))
        states = states + self.dropout(self.feed_forward(self.feed_forward_norm(states)))
        return states, weights, steps_so_far


@dataclass(frozen=True)
class TransformerState:
    rows: int  # hypotheses, each source having as many
    source: tuple[Memory, ...]  # for each layer
    past: tuple[Memory | None, ...]  # for each layer, the steps so far
    position: int = 0
    weights: Tensor | None = None  # of the latest step: [batch, layers, (heads,) positions]

    def select(self, index: Tensor) -> TransformerState:
        rows, sources = split_index(index, self.rows, len(self.source[0].keys))
        return replace(
            self,
            rows=len(rows),
            source=tuple(memory.select(sources) for memory in self.source),
            past=tuple(None if memory is None else memory.select(rows) for memory in self.past),
            weights=None if self.weights is None else self.weights.index_select(0, rows),
        )


class TransformerDecoder(Decoder[TransformerState]):
    """Layers of masked self-attention, attention to the source, and a feed-forward net; one mechanism a layer."""

    def __init__(
        self,
        embedding: Embedding,
        cross_attentions: Sequence[Attention],
        *,
        heads: int,
        inner_size: int,
        readout: Callable[..., Readout],
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        size = cross_attentions[0].query_size
        self.embedding = embedding
        self.input_layer = to_size(embedding.size, size)
        self.layers = nn.ModuleList(
            DecoderLayer(attention, heads=heads, inner_size=inner_size, dropout=dropout)
            for attention in cross_attentions
        )
        self.norm = nn.LayerNorm(size)
        self.readout = readout(size, embedding, dropout=dropout)
        self.max_length = embedding.max_length
        self.weight_axes = ("layer", *cross_attentions[0].weight_axes)

    @property
    def source_attentions(self) -> tuple[Attention, ...]:
        return tuple(cast(DecoderLayer, layer).cross_attention for layer in self.layers)

    def start(self, encoding: Encoding) -> TransformerState:
        source = tuple(each.prepare(encoding.states, encoding.valid) for each in self.source_attentions)
        return TransformerState(len(encoding.states), source, (None,) * len(source))

    def forward_steps(self, tokens: Tensor, state: TransformerState) -> tuple[Tensor, Tensor, TransformerState]:
        batch, steps = tokens.shape
        position = state.position + steps
        # A step sees itself and what came before it.
        visible = torch.ones(steps, position, dtype=torch.bool, device=tokens.device).tril(state.position)
        states = self.input_layer(self.embedding(tokens, state.position))
        weights, past = [], []
        for layer, layer_past, source in zip(self.layers, state.past, state.source, strict=True):
            states, layer_weights, layer_past = layer(states, visible.expand(batch, -1, -1), layer_past, source)
            weights.append(layer_weights)
            past.append(layer_past)
        stacked = torch.stack(weights, 1)  # [batch, layers, (heads,) steps, positions]
        state = TransformerState(batch, state.source, tuple(past), position, stacked.select(-2, -1))
        return self.norm(states), stacked, state
