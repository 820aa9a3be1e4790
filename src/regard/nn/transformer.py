"""The Transformer: an encoder of self-attention layers and its decoder.

Shapes: [batch, positions, size] on the source side, [batch, steps, size] on the target side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self, cast

import torch
from pydantic import model_validator
from torch import Tensor, nn

from regard.config.base import Count, Size, invalid_combination
from regard.config.kinds import READOUTS, DecoderSection, EncoderDecoderSection, EncoderSection, StateShape
from regard.nn.attention import Attention, Memory
from regard.nn.attention_history import NO_HISTORY, AttentionHistory
from regard.nn.encoder_decoder import Decoder, Encoder, Encoding, split_index
from regard.nn.positions import Embedding
from regard.nn.readout import Readout
from regard.nn.transformer_layers import (
    Activation,
    DecoderLayer,
    EncoderLayer,
    LayerOptions,
    Norm,
    NormPosition,
    projection,
)


class TransformerSection(EncoderDecoderSection):
    """Settings of an encoder or decoder with Transformer layers.

    Attributes:
        heads: Number of self-attention heads of a layer.
        inner_size: Size of the hidden layer of the feed-forward network.
        norm_position: `pre` normalizes the input of each part of a layer, `post` its sum with the input.
        norm: `layer` is LayerNorm, `rms` is RMSNorm.
        activation: That of the feed-forward network: `relu` or `gelu`.
    """

    takes_relative_positions = True

    heads: Count = 4
    inner_size: Size = 512
    norm_position: NormPosition = "pre"
    norm: Norm = "layer"
    activation: Activation = "relu"

    @property
    def layer_size(self) -> int:
        """Size of the states of a layer."""
        return self.size

    @model_validator(mode="after")
    def _check_heads(self) -> Self:
        check_heads(self.heads, self.layer_size)
        self.positions.check_heads(self.heads, self.layer_size)
        return self

    def layer_options(self, dropout: float) -> LayerOptions:
        """The options of the layers.

        Args:
            dropout: Dropout probability.
        """
        return LayerOptions(
            heads=self.heads,
            inner_size=self.inner_size,
            norm_position=self.norm_position,
            norm=self.norm,
            activation=self.activation,
            dropout=dropout,
        )


def check_heads(heads: int, size: int) -> None:
    """Raise `invalid_combination` if self-attention heads cannot have the same size.

    Args:
        heads: Number of heads.
        size: Size of the states that they share.
    """
    if size % heads:
        raise invalid_combination("heads", f"{heads} heads cannot share a size of {size} equally")


class MeanStateEncoderSection(EncoderSection):
    """Settings of an encoder whose final state is the mean of its states."""

    @property
    def state_size(self) -> int:
        return self.size

    @property
    def final_state(self) -> StateShape:
        return StateShape(1, 1, self.size)


def mean_state(states: Tensor, valid: Tensor) -> tuple[Tensor]:
    """The mean of the states of each source: the final state of an encoder that has no last step.

    Args:
        states: h_i, [batch, positions, size].
        valid: True for tokens, False for padding, [batch, positions].

    Returns:
        One tensor, [1, batch, size].
    """
    included = valid.unsqueeze(-1).to(states)
    mean = (states * included).sum(1) / included.sum(1)
    return (mean.unsqueeze(0),)


class SelfAttentionEncoderSection(TransformerSection, MeanStateEncoderSection):
    """Settings of a Transformer encoder."""


class SelfAttentionEncoder(Encoder):
    """A Transformer encoder. Without a position encoding, it does not depend on the order of the tokens.

    Args:
        embedding: The source embedding.
        size: Size of a state.
        layers: Number of layers.
        options: Those of each layer.
    """

    Section = SelfAttentionEncoderSection

    def __init__(self, embedding: Embedding, size: int, *, layers: int, options: LayerOptions) -> None:
        super().__init__()
        self.embedding = embedding
        self.input_layer = projection(embedding.size, size)
        self.layers = nn.ModuleList(EncoderLayer(size, options, embedding.relative_positions) for _ in range(layers))
        self.norm = options.final_norm(size)
        self.size = size
        self.max_length = embedding.max_length

    @classmethod
    def from_section(cls, section: SelfAttentionEncoderSection, tokens: int, dropout: float) -> SelfAttentionEncoder:
        return cls(
            Embedding.from_section(section, tokens, dropout),
            section.size,
            layers=section.layers,
            options=section.layer_options(dropout),
        )

    def forward(self, tokens: Tensor, valid: Tensor) -> Encoding:
        states = self.input_layer(self.embedding(tokens))
        for layer in self.layers:
            states = layer(states, valid)
        states = self.norm(states)
        return Encoding(states, valid, mean_state(states, valid))


@dataclass(frozen=True)
class TransformerState:
    """The state of a Transformer decoder between two steps.

    Args:
        rows: Number of hypotheses.
        source: Keys and values of the source, for each layer.
        past: Keys and values of the steps so far, for each layer; None before the first step.
        histories: The steps so far of the attention to the source, for each layer.
        weights: Cross-attention weights of the latest step, [batch, layers, (heads,) positions].
    """

    rows: int
    source: tuple[Memory, ...]
    past: tuple[Memory | None, ...]
    histories: tuple[AttentionHistory, ...]
    weights: Tensor | None = None

    @property
    def position(self) -> int:
        """Number of steps so far."""
        return self.histories[0].steps

    def select(self, index: Tensor) -> TransformerState:
        rows, sources = split_index(index, self.rows, len(self.source[0].keys))
        return replace(
            self,
            rows=len(rows),
            source=tuple(memory.select(sources) for memory in self.source),
            past=tuple(None if memory is None else memory.select(rows) for memory in self.past),
            histories=tuple(history.select(rows) for history in self.histories),
            weights=None if self.weights is None else self.weights.index_select(0, rows),
        )


class TransformerDecoderSection(TransformerSection, DecoderSection):
    """Settings of a Transformer decoder."""


class TransformerDecoder(Decoder[TransformerState]):
    """A Transformer decoder: layers of masked self-attention, attention to the source and a feed-forward network.

    Args:
        embedding: The target embedding.
        cross_attentions: Attention to the source, one mechanism for each layer.
        options: Those of each layer.
        readout: Class of the output layer.
    """

    Section = TransformerDecoderSection

    def __init__(
        self,
        embedding: Embedding,
        cross_attentions: Sequence[Attention],
        *,
        options: LayerOptions,
        readout: Callable[..., Readout],
    ) -> None:
        super().__init__()
        size = cross_attentions[0].query_size
        self.embedding = embedding
        self.input_layer = projection(embedding.size, size)
        self.layers = nn.ModuleList(
            DecoderLayer(attention, options, embedding.relative_positions) for attention in cross_attentions
        )
        self.norm = options.final_norm(size)
        self.readout = readout(size, embedding, dropout=options.dropout)
        self.max_length = embedding.max_length
        self.weight_axes = ("layer", *cross_attentions[0].weight_axes)

    @classmethod
    def from_section(
        cls, section: TransformerDecoderSection, tokens: int, dropout: float, make_attention: Callable[[], Attention]
    ) -> TransformerDecoder:
        return cls(
            Embedding.from_section(section, tokens, dropout),
            [make_attention() for _ in range(section.layers)],
            options=section.layer_options(dropout),
            readout=READOUTS[section.readout],
        )

    @property
    def source_attentions(self) -> tuple[Attention, ...]:
        return tuple(cast(DecoderLayer, layer).cross_attention for layer in self.layers)

    def start(self, encoding: Encoding) -> TransformerState:
        source = tuple(
            each.prepare_source(encoding.states, encoding.valid, encoding.final_state)
            for each in self.source_attentions
        )
        return TransformerState(len(encoding.states), source, (None,) * len(source), (NO_HISTORY,) * len(source))

    def forward_steps(self, tokens: Tensor, state: TransformerState) -> tuple[Tensor, Tensor, TransformerState]:
        batch, steps = tokens.shape
        position = state.position + steps
        # The causal mask: a step attends to itself and to earlier steps.
        visible = torch.ones(steps, position, dtype=torch.bool, device=tokens.device).tril(state.position)
        states = self.input_layer(self.embedding(tokens, state.position))
        weights, past, histories = [], [], []
        layers = zip(self.layers, state.past, state.source, state.histories, strict=True)
        for layer, layer_past, source, history in layers:
            states, layer_weights, layer_past = layer(
                states, visible.expand(batch, -1, -1), layer_past, source, history
            )
            weights.append(layer_weights)
            past.append(layer_past)
            histories.append(cast(DecoderLayer, layer).cross_attention.extend_history(history, layer_weights))
        stacked = torch.stack(weights, 1)  # [batch, layers, (heads,) steps, positions]
        state = TransformerState(batch, state.source, tuple(past), tuple(histories), stacked.select(-2, -1))
        return self.norm(states), stacked, state
