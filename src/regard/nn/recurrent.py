"""Recurrent cells, encoder and decoders.

Symbols: x_t input, h_t state, c_t context, y_t output token; f is the cell.
Shapes: [batch, steps, size] for sequences; the state of a cell is a tuple of [layers, batch, size], one tensor for
`tanh` and `gru`, two (state and memory cell) for `lstm`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.errors import UserError
from regard.nn.attention import Attention, Memory
from regard.nn.encoder_decoder import Decoder, Encoder, Encoding, Readout, split_index
from regard.nn.positions import Embedding

CellState = tuple[Tensor, ...]


class RecurrentLayers(nn.Module):
    """A recurrent cell with its layers, run over all steps of a sequence by torch's compiled code."""

    torch_module: ClassVar[Callable[..., nn.RNNBase]]
    parts: ClassVar[int] = 1  # how many tensors its state has

    def __init__(
        self,
        input_size: int,
        size: int,
        *,
        layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.layers = layers
        self.directions = 2 if bidirectional else 1
        self.output_size = size * self.directions
        self.recurrence = self.torch_module(
            input_size,
            size,
            layers,
            batch_first=True,
            bidirectional=bidirectional,
            dropout=dropout if layers > 1 else 0.0,  # between layers
        )

    def forward(
        self, inputs: Tensor, state: CellState | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, CellState]:
        """All outputs [batch, steps, size], and the state after each row's last real step.

        With both directions, a state is [→h_T ; ←h_0] and an output [→h_t ; ←h_t].
        """
        start = None if state is None else state[0] if self.parts == 1 else state
        if lengths is None:
            outputs, end = self.recurrence(inputs, start)
        else:  # packed, so that an LSTM's memory cell, too, is that of each row's own end
            packed = pack_padded_sequence(inputs, lengths.cpu(), batch_first=True, enforce_sorted=False)
            packed, end = self.recurrence(packed, start)
            outputs, _ = pad_packed_sequence(packed, batch_first=True, total_length=inputs.shape[1])
        end = (end,) if self.parts == 1 else end
        return outputs, tuple(self.join_directions(part) for part in end)

    def join_directions(self, part: Tensor) -> Tensor:
        layers = part.unflatten(0, (self.layers, self.directions))  # [layers, directions, batch, size]
        return torch.cat(layers.unbind(1), -1)


class TanhRNN(RecurrentLayers):
    """h_t = tanh(W_hh h_{t-1} + W_xh x_t + b_h)."""

    torch_module = nn.RNN


class GRU(RecurrentLayers):
    """r, z = σ(W [x_t ; h_{t-1}] + b), n = tanh(W x_t + b + r ∘ (W h_{t-1} + b)), h_t = (1 − z) ∘ n + z ∘ h_{t-1}."""

    torch_module = nn.GRU


class LSTM(RecurrentLayers):
    """i, f, o = σ(W [x_t ; h_{t-1}] + b), g = tanh(…), m_t = f ∘ m_{t-1} + i ∘ g, h_t = o ∘ tanh(m_t)."""

    torch_module = nn.LSTM
    parts = 2


class RecurrentEncoder(Encoder):
    """h_t = f(x_t, h_{t-1}), in one direction or both: h_t^(e) = [→h_t ; ←h_t]."""

    def __init__(self, embedding: Embedding, cell: RecurrentLayers) -> None:
        super().__init__()
        self.embedding = embedding
        self.cell = cell
        self.size = cell.output_size
        self.max_length = embedding.max_length

    def forward(self, tokens: Tensor, valid: Tensor) -> Encoding:
        states, last = self.cell(self.embedding(tokens), lengths=valid.sum(1))
        return Encoding(states, valid, last)


class ZeroStart(nn.Module):
    """h_0^dec = 0: the decoder learns of the source by attention or not at all."""

    def __init__(self, encoder_size: int, cell: RecurrentLayers) -> None:
        super().__init__()
        self.parts, self.layers, self.size = cell.parts, cell.layers, cell.output_size

    def forward(self, encoding: Encoding) -> CellState:
        shape = (self.layers, len(encoding.states), self.size)
        return tuple(encoding.states.new_zeros(shape) for _ in range(self.parts))


class CopyStart(ZeroStart):
    """h_0^dec = h_T: the encoder's last state, layer by layer."""

    def forward(self, encoding: Encoding) -> CellState:
        have = (len(encoding.final_state), *encoding.final_state[0].shape[::2])
        if have != (self.parts, self.layers, self.size):
            raise UserError(
                f"the decoder cannot start from a copy: the encoder ends with (parts, layers, size) = {have}, "
                f"the decoder begins with {(self.parts, self.layers, self.size)}; make them equal, "
                "or choose tanh, relu or zeros"
            )
        return encoding.final_state


class BridgeStart(nn.Module):
    """h_0^dec = g(W [→h_T ; ←h_0] + b), for each layer and part of the decoder's state its own W and b."""

    activation: ClassVar[Callable[[Tensor], Tensor]]

    def __init__(self, encoder_size: int, cell: RecurrentLayers) -> None:
        super().__init__()
        self.parts, self.layers = cell.parts, cell.layers
        self.layer = nn.Linear(encoder_size, cell.parts * cell.layers * cell.output_size)

    def forward(self, encoding: Encoding) -> CellState:
        summary = encoding.final_state[0][-1]  # [batch, size]
        start = type(self).activation(self.layer(summary)).unflatten(-1, (self.parts, self.layers, -1))
        return tuple(part.transpose(0, 1).contiguous() for part in start.unbind(1))  # [layers, batch, size]


class TanhStart(BridgeStart):
    """h_0^dec = tanh(W h_T + b)."""

    activation = torch.tanh


class ReluStart(BridgeStart):
    """h_sent = ReLU(W [→h_T ; ←h_0] + b)."""

    activation = torch.relu


@dataclass(frozen=True)
class RecurrentState:
    hidden: CellState  # [layers, batch, size] each
    memory: Memory
    position: int = 0  # steps taken
    weights: Tensor | None = None  # of the latest step: [batch, (heads,) positions]

    def select(self, index: Tensor) -> RecurrentState:
        rows, sources = split_index(index, self.hidden[0].shape[1], len(self.memory.keys))
        return replace(
            self,
            hidden=tuple(part.index_select(1, rows) for part in self.hidden),
            memory=self.memory.select(sources),
            weights=None if self.weights is None else self.weights.index_select(0, rows),
        )


class RecurrentDecoder(Decoder[RecurrentState]):
    """The parts of a recurrent decoder; a wiring (below) says when it attends."""

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

    @abstractmethod
    def input_size(self) -> int:
        """The size of what the cell reads at each step."""

    @abstractmethod
    def feature_size(self) -> int:
        """The size of what the readout gets at each step."""

    @property
    def source_attentions(self) -> tuple[Attention, ...]:
        return (self.attention,)

    def start(self, encoding: Encoding) -> RecurrentState:
        return RecurrentState(self.first_state(encoding), self.attention.prepare(encoding.states, encoding.valid))


class AttendBeforeDecoder(RecurrentDecoder):
    """The previous state asks, and the context enters the recurrence, so each step waits for the one before.

    α_t = softmax(a(h_{t-1}, h^enc))    c_t = Σ_i α_ti h_i^enc    h_t = f([y_{t-1} ; c_t], h_{t-1})    p = W_o h_t
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
    """The current state asks, and the context goes to the readout only, so all steps can be computed at once.

    h_t = f(y_{t-1}, h_{t-1})    α_t = softmax(a(h_t, h^enc))    c_t = Σ_i α_ti h_i^enc    p = W [c_t ; h_t] + b
    """

    def input_size(self) -> int:
        return self.embedding.size

    def feature_size(self) -> int:
        return self.attention.context_size + self.attention.query_size

    def decoder_states(self, features: Tensor) -> Tensor:
        return features[..., self.attention.context_size :]  # behind the context

    def forward_steps(self, tokens: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor, RecurrentState]:
        outputs, hidden = self.cell(self.embedding(tokens, state.position), state.hidden)
        context, weights = self.attention(outputs, state.memory)
        position = state.position + tokens.shape[1]
        state = RecurrentState(hidden, state.memory, position, weights.select(-2, -1))
        return torch.cat([context, outputs], -1), weights, state


CELLS: dict[str, Callable[..., RecurrentLayers]] = {"tanh": TanhRNN, "gru": GRU, "lstm": LSTM}
STARTS: dict[str, Callable[..., nn.Module]] = {
    "copy": CopyStart,
    "tanh": TanhStart,
    "relu": ReluStart,
    "zeros": ZeroStart,
}
WIRINGS: dict[str, type[RecurrentDecoder]] = {"before": AttendBeforeDecoder, "after": AttendAfterDecoder}
