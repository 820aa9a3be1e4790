"""Recurrent layers: tanh RNN, GRU and LSTM with one interface.

Symbols: x_t input, h_t state. Shapes: [batch, steps, size] for sequences; a state is a tuple of [layers, batch, size],
one tensor for `tanh` and `gru`, two (state and memory cell) for `lstm`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

LayersState = tuple[Tensor, ...]


class RecurrentLayers(nn.Module):
    """A stack of recurrent layers of one kind, computed by `torch.nn.RNN`, `GRU` or `LSTM`.

    Args:
        input_size: Size of an input x_t.
        size: Size of a state h_t in one direction.
        layers: Number of layers.
        bidirectional: Whether to run over the sequence in both directions.
        dropout: Dropout probability between layers.

    Attributes:
        parts: Number of tensors of a state.
        output_size: Size of an output, in both directions together.
    """

    torch_module: ClassVar[Callable[..., nn.RNNBase]]
    parts: ClassVar[int] = 1

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
            dropout=dropout if layers > 1 else 0.0,
        )

    def forward(
        self, inputs: Tensor, state: LayersState | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, LayersState]:
        """Run over a sequence.

        Args:
            inputs: x, [batch, steps, input_size].
            state: The state before the first step, [layers, batch, size] each; zeros if None.
            lengths: Number of steps of each row, [batch]; all steps if None.

        Returns:
            The outputs of the last layer, [batch, steps, output_size], and the state after the last step of each row,
            [layers, batch, output_size] each. With both directions, an output is [→h_t ; ←h_t] and the state is
            [→h_T ; ←h_0].
        """
        start = None if state is None else state[0] if self.parts == 1 else state
        if lengths is None:
            outputs, end = self.recurrence(inputs, start)
        else:  # packed, so that the final state is the one after the last step of each row
            packed = pack_padded_sequence(inputs, lengths.cpu(), batch_first=True, enforce_sorted=False)
            packed, end = self.recurrence(packed, start)
            outputs, _ = pad_packed_sequence(packed, batch_first=True, total_length=inputs.shape[1])
        end = (end,) if self.parts == 1 else end
        return outputs, tuple(self.join_directions(part) for part in end)

    def join_directions(self, part: Tensor) -> Tensor:
        """A state of torch, [layers · directions, batch, size], as [layers, batch, directions · size].

        Args:
            part: One tensor of the state that the torch module returned.
        """
        layers = part.unflatten(0, (self.layers, self.directions))  # [layers, directions, batch, size]
        return torch.cat(layers.unbind(1), -1)


class TanhRNN(RecurrentLayers):
    """h_t = tanh(W_hh h_{t-1} + W_xh x_t + b_h).

    Args:
        input_size: Size of an input x_t.
        size: Size of a state h_t in one direction.
        layers: Number of layers.
        bidirectional: Whether to run over the sequence in both directions.
        dropout: Dropout probability between layers.
    """

    torch_module = nn.RNN


class GRU(RecurrentLayers):
    """r, z = σ(W [x_t ; h_{t-1}] + b), n = tanh(W x_t + b + r ∘ (W h_{t-1} + b)), h_t = (1 − z) ∘ n + z ∘ h_{t-1}.

    Args:
        input_size: Size of an input x_t.
        size: Size of a state h_t in one direction.
        layers: Number of layers.
        bidirectional: Whether to run over the sequence in both directions.
        dropout: Dropout probability between layers.
    """

    torch_module = nn.GRU


class LSTM(RecurrentLayers):
    """i, f, o = σ(W [x_t ; h_{t-1}] + b), g = tanh(…), m_t = f ∘ m_{t-1} + i ∘ g, h_t = o ∘ tanh(m_t).

    Args:
        input_size: Size of an input x_t.
        size: Size of a state h_t in one direction.
        layers: Number of layers.
        bidirectional: Whether to run over the sequence in both directions.
        dropout: Dropout probability between layers.
    """

    torch_module = nn.LSTM
    parts = 2
