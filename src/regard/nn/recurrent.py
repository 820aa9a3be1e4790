"""Recurrent encoder and decoders.

Symbols: x_t input, h_t state, c_t context, y_t output token; f are the recurrent layers.
Shapes: [batch, steps, size] for sequences, [layers, batch, size] for states.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import isabstract
from typing import Annotated, Any, ClassVar, Literal, Self

import torch
from pydantic import model_validator
from torch import Tensor, nn

from regard.config.base import invalid_combination
from regard.config.families import NameOf
from regard.config.kinds import (
    CELLS,
    READOUTS,
    STARTS,
    WIRINGS,
    AttentionSection,
    DecoderSection,
    EncoderSection,
    StateShape,
)
from regard.nn.attention import Attention, Memory
from regard.nn.encoder_decoder import Decoder, Encoder, Encoding, split_index
from regard.nn.positions import Embedding
from regard.nn.readout import Readout
from regard.nn.recurrent_layers import LayersState, RecurrentLayers

ReadoutInput = Literal["state", "context", "both"]


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
        readout_input: What the readout reads: `state` or `both` if attention comes before the step, `both` or
            `context` if it comes after; null means the first of these.
    """

    cell: Annotated[str, NameOf(CELLS)] = CELLS.default
    wiring: Annotated[str, NameOf(WIRINGS)] = WIRINGS.default
    start: Annotated[str, NameOf(STARTS)] = STARTS.default
    readout_input: ReadoutInput | None = None

    @model_validator(mode="after")
    def _check_readout_input(self) -> Self:
        allowed = WIRINGS[self.wiring].readout_inputs
        if self.readout_input is not None and self.readout_input not in allowed:
            ignored = "attention" if self.readout_input == "state" else "the previous token"
            raise invalid_combination(
                "readout_input",
                f"'{self.readout_input}' leaves {ignored} without effect in the wiring '{self.wiring}'; choose "
                f"{' or '.join(allowed)}",
            )
        return self

    def check_attention(self, attention: AttentionSection) -> None:
        if self.readout_input == "context" and not attention.has_scores:
            raise invalid_combination(
                "readout_input",
                f"the context of '{attention.label}' attention does not depend on the decoder's state, so an output "
                "would not depend on earlier ones; choose both, or another attention",
            )

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

    The features of a step are [c_t ; h_t]. The readout reads both, or one of them.

    Args:
        embedding: The target embedding.
        attention: Attention to the source. Its `query_size` is the size of the decoder.
        cell: Class of the recurrent layers.
        layers: Number of recurrent layers.
        start: Class of the initial state, such as `TanhStart`.
        readout: Class of the output layer.
        readout_input: What the output layer reads: "state", "context" or "both"; None: the wiring's default.
        dropout: Dropout probability.

    Attributes:
        readout_inputs: What the output layer may read in this wiring; the first is the default.
    """

    Section = RecurrentDecoderSection
    readout_inputs: ClassVar[tuple[ReadoutInput, ...]] = ("both", "state", "context")

    def __init__(
        self,
        embedding: Embedding,
        attention: Attention,
        *,
        cell: Callable[..., RecurrentLayers],
        layers: int = 1,
        start: Callable[..., nn.Module],
        readout: Callable[..., Readout],
        readout_input: ReadoutInput | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.attention = attention
        self.cell = cell(self.input_size(), attention.query_size, layers=layers, dropout=dropout)
        self.first_state = start(attention.memory_size, self.cell)
        context, both = attention.context_size, attention.context_size + attention.query_size
        parts = {"context": (0, context), "state": (context, both), "both": (0, both)}
        self.readout_part = slice(*parts[readout_input or self.readout_inputs[0]])  # of [c_t ; h_t]
        self.readout = readout(len(range(both)[self.readout_part]), embedding, dropout=dropout)
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
            readout_input=section.readout_input,
            dropout=dropout,
        )
        return decoder

    @abstractmethod
    def input_size(self) -> int:
        """Size of the input of the recurrent layers."""

    @property
    def source_attentions(self) -> tuple[Attention, ...]:
        return (self.attention,)

    def start(self, encoding: Encoding) -> RecurrentState:
        memory = self.attention.prepare_source(encoding.states, encoding.valid, encoding.final_state)
        return RecurrentState(self.first_state(encoding), memory)

    def decoder_states(self, features: Tensor) -> Tensor:
        return features[..., self.attention.context_size :]

    def logits(self, features: Tensor) -> Tensor:
        return self.readout(features[..., self.readout_part])


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
        readout_input: What the output layer reads: "state" (h_t, also if None) or "both".
        dropout: Dropout probability.
    """

    readout_inputs = ("state", "both")

    def input_size(self) -> int:
        return self.embedding.size + self.attention.context_size

    def forward_steps(self, tokens: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor, RecurrentState]:
        features, all_weights, hidden, position = [], [], state.hidden, state.position
        for embedded in self.embedding(tokens, position).split(1, dim=1):  # [batch, 1, size]
            query = hidden[0][-1].unsqueeze(1)
            context, weights = self.attention(query, state.memory, position)
            output, hidden = self.cell(torch.cat([embedded, context], -1), hidden)
            position += 1
            features.append(torch.cat([context, output], -1))
            all_weights.append(weights)
        state = RecurrentState(hidden, state.memory, position, all_weights[-1].select(-2, -1))
        return torch.cat(features, 1), torch.cat(all_weights, -2), state


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
        readout_input: What the output layer reads: "both" ([c_t ; h_t], also if None) or "context".
        dropout: Dropout probability.
    """

    readout_inputs = ("both", "context")

    def input_size(self) -> int:
        return self.embedding.size

    def forward_steps(self, tokens: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor, RecurrentState]:
        outputs, hidden = self.cell(self.embedding(tokens, state.position), state.hidden)
        context, weights = self.attention(outputs, state.memory, state.position)
        position = state.position + tokens.shape[1]
        state = RecurrentState(hidden, state.memory, position, weights.select(-2, -1))
        return torch.cat([context, outputs], -1), weights, state
