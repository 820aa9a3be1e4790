"""Recurrent encoder and decoders.

Symbols: x_t input, h_t state, c_t context, y_t output token; f are the recurrent layers.
Shapes: [batch, steps, size] for sequences, [layers, batch, size] for states.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import isabstract
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from regard.config.base import invalid_combination
from regard.config.families import NameOf
from regard.config.kinds import CELLS, READOUTS, STARTS, WIRINGS, DecoderSection, EncoderSection, StateShape
from regard.nn.attention import Attention, Memory
from regard.nn.encoder_decoder import Decoder, Encoder, Encoding, split_index
from regard.nn.positions import Embedding
from regard.nn.readout import Readout
from regard.nn.recurrent_layers import LayersState, RecurrentLayers


class RecurrentEncoderSection(EncoderSection):
    """Settings of a recurrent encoder.

    Attributes:
        cell: The recurrent layers: `tanh`, `gru` or `lstm`.
        bidirectional: Whether to run over the source in both directions.
    """

    cell: Annotated[str, NameOf(CELLS)] = CELLS.default
    bidirectional: bool = True

    @property
    def state_size(self) -> int:
        return self.size * 2 if self.bidirectional else self.size

    @property
    def final_state(self) -> StateShape:
        return StateShape(CELLS[self.cell].parts, self.layers, self.state_size)


class RecurrentEncoder(Encoder):
    """h_t = f(x_t, h_{t-1}), in one direction or both: h_t^(e) = [→h_t ; ←h_t].

    Args:
        embedding: The source embedding.
        cell: The recurrent layers.
    """

    Section = RecurrentEncoderSection

    def __init__(self, embedding: Embedding, cell: RecurrentLayers) -> None:
        super().__init__()
        self.embedding = embedding
        self.cell = cell
        self.size = cell.output_size
        self.max_length = embedding.max_length

    @classmethod
    def from_section(cls, section: RecurrentEncoderSection, tokens: int, dropout: float) -> RecurrentEncoder:
        embedding = Embedding.from_section(section, tokens, dropout)
        cell = CELLS[section.cell](
            embedding.size, section.size, layers=section.layers, bidirectional=section.bidirectional, dropout=dropout
        )
        return cls(embedding, cell)

    def forward(self, tokens: Tensor, valid: Tensor) -> Encoding:
        states, final_state = self.cell(self.embedding(tokens), lengths=valid.sum(1))
        return Encoding(states, valid, final_state)


@dataclass(frozen=True)
class RecurrentState:
    """The state of a recurrent decoder between two steps.

    Args:
        hidden: State of the recurrent layers, [layers, batch, size] each.
        memory: What attention attends to.
        position: Number of steps so far.
        weights: Attention weights of the latest step, [batch, (heads,) positions].
    """

    hidden: LayersState
    memory: Memory
    position: int = 0
    weights: Tensor | None = None

    def select(self, index: Tensor) -> RecurrentState:
        rows, sources = split_index(index, self.hidden[0].shape[1], len(self.memory.keys))
        return replace(
            self,
            hidden=tuple(part.index_select(1, rows) for part in self.hidden),
            memory=self.memory.select(sources),
            weights=None if self.weights is None else self.weights.index_select(0, rows),
        )


class RecurrentDecoderSection(DecoderSection):
    """Settings of a recurrent decoder.

    Attributes:
        cell: The recurrent layers: `tanh`, `gru` or `lstm`.
        wiring: Whether attention comes `before` or `after` the recurrent step.
        start: How the initial state follows from the encoder's final state.
    """

    cell: Annotated[str, NameOf(CELLS)] = CELLS.default
    wiring: Annotated[str, NameOf(WIRINGS)] = WIRINGS.default
    start: Annotated[str, NameOf(STARTS)] = STARTS.default

    def check_encoder(self, encoder: EncoderSection) -> None:
        initial_state = StateShape(CELLS[self.cell].parts, self.layers, self.size)
        if STARTS[self.start].copies_final_state and encoder.final_state != initial_state:
            raise invalid_combination(
                "start",
                f"'{self.start}' needs the same on both sides, but the encoder ends with {encoder.final_state} and the "
                f"decoder starts with {initial_state}; choose tanh, relu or zeros, or make them equal",
            )


class RecurrentDecoder(Decoder[RecurrentState]):
    """Base class of the recurrent decoders; a subclass, the wiring, defines when the decoder attends.

    Args:
        embedding: The target embedding.
        attention: Attention to the source. Its `query_size` is the size of the decoder.
        cell: Class of the recurrent layers.
        layers: Number of recurrent layers.
        start: Class of the initial state, such as `TanhStart`.
        readout: Class of the output layer.
        dropout: Dropout probability.
    """

    Section = RecurrentDecoderSection

    def __init__(
        self,
        embedding: Embedding,
        attention: Attention,
        *,
        cell: Callable[..., RecurrentLayers],
        layers: int = 1,
        start: Callable[..., nn.Module],
        readout: Callable[..., Readout],
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.attention = attention
        self.cell = cell(self.input_size(), attention.query_size, layers=layers, dropout=dropout)
        self.first_state = start(attention.memory_size, self.cell)
        self.readout = readout(self.feature_size(), embedding, dropout=dropout)
        self.max_length = embedding.max_length
        self.weight_axes = attention.weight_axes

    @classmethod
    def from_section(
        cls, section: RecurrentDecoderSection, tokens: int, dropout: float, make_attention: Callable[[], Attention]
    ) -> Decoder[Any]:
        wiring = WIRINGS[section.wiring] if isabstract(cls) else cls  # a wiring builds itself
        decoder: Decoder[Any] = wiring(
            Embedding.from_section(section, tokens, dropout),
            make_attention(),
            cell=CELLS[section.cell],
            layers=section.layers,
            start=STARTS[section.start],
            readout=READOUTS[section.readout],
            dropout=dropout,
        )
        return decoder

    @abstractmethod
    def input_size(self) -> int:
        """Size of the input of the recurrent layers."""

    @abstractmethod
    def feature_size(self) -> int:
        """Size of the input of the readout."""

    @property
    def source_attentions(self) -> tuple[Attention, ...]:
        return (self.attention,)

    def start(self, encoding: Encoding) -> RecurrentState:
        return RecurrentState(self.first_state(encoding), self.attention.prepare(encoding.states, encoding.valid))


class AttendBeforeDecoder(RecurrentDecoder):
    """The previous state is the query and the context is an input of the step, so steps are computed one by one.

    α_t = softmax(a(h_{t-1}, h^enc))    c_t = Σ_i α_ti h_i^enc    h_t = f([y_{t-1} ; c_t], h_{t-1})    p = W_o h_t

    Args:
        embedding: The target embedding.
        attention: Attention to the source. Its `query_size` is the size of the decoder.
        cell: Class of the recurrent layers.
        layers: Number of recurrent layers.
        start: Class of the initial state, such as `TanhStart`.
        readout: Class of the output layer.
        dropout: Dropout probability.
    """

    def input_size(self) -> int:
        return self.embedding.size + self.attention.context_size

    def feature_size(self) -> int:
        return self.attention.query_size

    def forward_steps(self, tokens: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor, RecurrentState]:
        outputs, all_weights, hidden = [], [], state.hidden
        for embedded in self.embedding(tokens, state.position).split(1, dim=1):  # [batch, 1, size]
            query = hidden[0][-1].unsqueeze(1)
            context, weights = self.attention(query, state.memory)
            output, hidden = self.cell(torch.cat([embedded, context], -1), hidden)
            outputs.append(output)
            all_weights.append(weights)
        position = state.position + tokens.shape[1]
        state = RecurrentState(hidden, state.memory, position, all_weights[-1].select(-2, -1))
        return torch.cat(outputs, 1), torch.cat(all_weights, -2), state


class AttendAfterDecoder(RecurrentDecoder):
    """The current state is the query and the context goes to the readout only, so all steps are computed at once.

    h_t = f(y_{t-1}, h_{t-1})    α_t = softmax(a(h_t, h^enc))    c_t = Σ_i α_ti h_i^enc    p = W [c_t ; h_t] + b

    Args:
        embedding: The target embedding.
        attention: Attention to the source. Its `query_size` is the size of the decoder.
        cell: Class of the recurrent layers.
        layers: Number of recurrent layers.
        start: Class of the initial state, such as `TanhStart`.
        readout: Class of the output layer.
        dropout: Dropout probability.
    """

    def input_size(self) -> int:
        return self.embedding.size

    def feature_size(self) -> int:
        return self.attention.context_size + self.attention.query_size

    def decoder_states(self, features: Tensor) -> Tensor:
        return features[..., self.attention.context_size :]

    def forward_steps(self, tokens: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor, RecurrentState]:
        outputs, hidden = self.cell(self.embedding(tokens, state.position), state.hidden)
        context, weights = self.attention(outputs, state.memory)
        position = state.position + tokens.shape[1]
        state = RecurrentState(hidden, state.memory, position, weights.select(-2, -1))
        return torch.cat([context, outputs], -1), weights, state
