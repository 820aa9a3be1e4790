"""Encoders between the recurrent one and the Transformer's: attention layers alone, and self-attention over an RNN.

Shapes: [batch, positions, size].
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, cast

from pydantic import Field
from torch import Tensor, nn

from regard.config.base import Count
from regard.nn.encoder_decoder import Encoder, Encoding
from regard.nn.mechanisms import ScaledDotAttention
from regard.nn.positions import Embedding
from regard.nn.recurrent import RecurrentEncoder, RecurrentEncoderSection
from regard.nn.recurrent_layers import RecurrentLayers
from regard.nn.transformer import MeanStateEncoderSection, TransformerSection, mean_state
from regard.nn.transformer_layers import EncoderLayer, LayerOptions, projection


class PlainAttentionEncoderSection(MeanStateEncoderSection):
    """Settings of an encoder of plain attention layers.

    Attributes:
        layers: Number of attention layers; 0: the states are the embeddings.
    """

    layers: Annotated[int, Field(ge=0, le=1_024)] = 1


class PlainAttentionEncoder(Encoder):
    """Attention layers without feed-forward network, residual connection and normalization.

    Q = X W_Q    K = X W_K    V = X W_V    Y = softmax(Q Kᵀ / √m) V

    The first X are the embeddings. Without layers they are the states, projected if their size differs.

    Args:
        embedding: The source embedding.
        size: Size of a state, which is m, the size of queries and keys, and the size of the values.
        layers: Number of layers.
    """

    Section = PlainAttentionEncoderSection

    def __init__(self, embedding: Embedding, size: int, *, layers: int = 1) -> None:
        super().__init__()
        self.embedding = embedding
        self.input_layer = nn.Identity() if layers else projection(embedding.size, size)
        input_sizes = [embedding.size, *[size] * (layers - 1)] if layers else []
        self.layers = nn.ModuleList(
            ScaledDotAttention(input_size, input_size, key_size=size, value_size=size) for input_size in input_sizes
        )
        self.size = size
        self.max_length = embedding.max_length

    @classmethod
    def from_section(cls, section: PlainAttentionEncoderSection, tokens: int, dropout: float) -> PlainAttentionEncoder:
        return cls(Embedding.from_section(section, tokens, dropout), section.size, layers=section.layers)

    def forward(self, tokens: Tensor, valid: Tensor) -> Encoding:
        states = self.input_layer(self.embedding(tokens))
        for layer in cast(Iterable[ScaledDotAttention], self.layers):
            states, _ = layer(states, layer.prepare(states, valid))
        return Encoding(states, valid, mean_state(states, valid))


class RecurrentSelfAttentionEncoderSection(TransformerSection, RecurrentEncoderSection):
    """Settings of a recurrent encoder with self-attention over its states.

    The heads of a self-attention layer share the states of both directions. Relative positions act in these layers
    only.

    Attributes:
        layers: Number of recurrent layers.
        self_attention_layers: Number of self-attention layers after them.
    """

    self_attention_layers: Count = 1

    @property
    def layer_size(self) -> int:
        return self.state_size


class RecurrentSelfAttentionEncoder(RecurrentEncoder):
    """A recurrent encoder, and the layers of a Transformer encoder over its states. The final state is the RNN's.

    h_t = f(x_t, h_{t-1})    x_t ← h_t    x ← x + SelfAttention(norm(x))    x ← x + FeedForward(norm(x))

    Args:
        embedding: The source embedding.
        cell: The recurrent layers.
        self_attention_layers: Number of self-attention layers.
        options: Those of each self-attention layer.
    """

    Section = RecurrentSelfAttentionEncoderSection

    def __init__(
        self,
        embedding: Embedding,
        cell: RecurrentLayers,
        *,
        self_attention_layers: int,
        options: LayerOptions,
    ) -> None:
        super().__init__(embedding, cell)
        self.layers = nn.ModuleList(
            EncoderLayer(self.size, options, embedding.relative_positions) for _ in range(self_attention_layers)
        )
        self.norm = options.final_norm(self.size)

    @classmethod
    def from_section(
        cls, section: RecurrentEncoderSection, tokens: int, dropout: float
    ) -> RecurrentSelfAttentionEncoder:
        assert isinstance(section, RecurrentSelfAttentionEncoderSection)
        recurrent = RecurrentEncoder.from_section(section, tokens, dropout)
        return cls(
            recurrent.embedding,
            recurrent.cell,
            self_attention_layers=section.self_attention_layers,
            options=section.layer_options(dropout),
        )

    def forward(self, tokens: Tensor, valid: Tensor) -> Encoding:
        encoding = super().forward(tokens, valid)
        states = encoding.states
        for layer in self.layers:
            states = layer(states, valid)
        return replace(encoding, states=self.norm(states))
