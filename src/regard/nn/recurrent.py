"""Recurrent encoder, and the base class of the recurrent decoders. The decoders are in `regard.nn.wirings`.

Symbols: x_t input, h_t state, c_t context, y_t output token, h̃_t attentional vector; f are the recurrent layers.
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
from regard.nn.attention_history import NO_HISTORY, AttentionHistory
from regard.nn.encoder_decoder import Decoder, Encoder, Encoding, split_index
from regard.nn.positions import Embedding
from regard.nn.readout import Readout
from regard.nn.recurrent_layers import LayersState, RecurrentLayers

ReadoutInput = Literal["state", "context", "both", "deep", "attentional"]
WITHOUT_EFFECT = {
    "state": "leaves attention without effect",
    "context": "leaves the previous token without effect",
}


class RecurrentEncoderSection(EncoderSection):
    """Settings of a recurrent encoder.

    Attributes:
        cell: The recurrent layers: `tanh`, `gru`, `lstm` or `ssru`.
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
        history: The steps so far of the attention.
        weights: Attention weights of the latest step, [batch, (heads,) positions].
        attentional: The attentional vector h̃ of the latest step, [batch, size], in a decoder with input feeding.
    """

    hidden: LayersState
    memory: Memory
    history: AttentionHistory = NO_HISTORY
    weights: Tensor | None = None
    attentional: Tensor | None = None

    @property
    def position(self) -> int:
        """Number of steps so far."""
        return self.history.steps

    def select(self, index: Tensor) -> RecurrentState:
        rows, sources = split_index(index, self.hidden[0].shape[1], len(self.memory.keys))
        return replace(
            self,
            hidden=tuple(part.index_select(1, rows) for part in self.hidden),
            memory=self.memory.select(sources),
            history=self.history.select(rows),
            weights=None if self.weights is None else self.weights.index_select(0, rows),
            attentional=None if self.attentional is None else self.attentional.index_select(0, rows),
        )


class RecurrentDecoderSection(DecoderSection):
    """Settings of a recurrent decoder.

    Attributes:
        cell: The recurrent layers: `tanh`, `gru`, `lstm` or `ssru`.
        wiring: Whether attention comes `before` or `after` the recurrent step, or after it with `input-feeding`.
        start: How the initial state follows from the encoder's final state.
        readout_input: What the readout reads: `state`, `both` or `deep` if attention comes before the step, `both`,
            `context` or `deep` if it comes after, `attentional` with input feeding; null means the first of these.
    """

    cell: Annotated[str, NameOf(CELLS)] = CELLS.default
    wiring: Annotated[str, NameOf(WIRINGS)] = WIRINGS.default
    start: Annotated[str, NameOf(STARTS)] = STARTS.default
    readout_input: ReadoutInput | None = None

    @model_validator(mode="after")
    def _check_readout_input(self) -> Self:
        allowed = WIRINGS[self.wiring].readout_inputs
        if self.readout_input is not None and self.readout_input not in allowed:
            raise invalid_combination(
                "readout_input",
                f"'{self.readout_input}' {WITHOUT_EFFECT.get(self.readout_input, 'is not computed')} in the wiring "
                f"'{self.wiring}'; choose {' or '.join(allowed)}",
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

    The features of a step are [c_t ; h_t]. The readout reads both, or one of them, or both and the embedded previous
    token: the deep output [c_t ; h_t ; y_{t-1}] of Bahdanau et al. (2015).

    Args:
        embedding: The target embedding.
        attention: Attention to the source. Its `query_size` is the size of the decoder.
        cell: Class of the recurrent layers.
        layers: Number of recurrent layers.
        start: Class of the initial state, such as `TanhStart`.
        readout: Class of the output layer.
        readout_input: What the output layer reads: "state", "context", "both" or "deep"; None: the wiring's default.
        dropout: Dropout probability.

    Attributes:
        readout_inputs: What the output layer may read in this wiring; the first is the default.
    """

    Section = RecurrentDecoderSection
    readout_inputs: ClassVar[tuple[ReadoutInput, ...]] = ("both", "state", "context", "deep")

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
        self.readout_input = readout_input or self.readout_inputs[0]
        context, both = attention.context_size, attention.context_size + attention.query_size
        begin, end = {
            "context": (0, context),
            "state": (context, both),
            "both": (0, both),
            "deep": (0, both + embedding.size),
            "attentional": (both, both + attention.query_size),
        }[self.readout_input]
        self.readout_part = slice(begin, end)  # of [c_t ; h_t], followed by y_{t-1} or by h̃_t
        self.readout = readout(end - begin, embedding, dropout=dropout)
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

    def join_features(self, context: Tensor, states: Tensor, embedded: Tensor) -> Tensor:
        """[c_t ; h_t], followed by y_{t-1} if the readout reads it, [batch, steps, feature].

        Args:
            context: c, [batch, steps, context_size].
            states: h, [batch, steps, size].
            embedded: The embedded input tokens y_{t-1}, [batch, steps, embedding].
        """
        return torch.cat([context, states, embedded] if self.readout_input == "deep" else [context, states], -1)

    def decoder_states(self, features: Tensor) -> Tensor:
        context = self.attention.context_size
        return features[..., context : context + self.attention.query_size]

    def logits(self, features: Tensor) -> Tensor:
        return self.readout(features[..., self.readout_part])
