"""The interface of all recurrent layers, and those that torch computes: tanh RNN, GRU and LSTM.

Symbols: x_t input, h_t state. Shapes: [batch, steps, size] for sequences; a state is a tuple of [layers, batch, size],
one tensor for `tanh`, `gru` and `ssru`, two (state and memory cell) for `lstm`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.devices import copy_to

LayersState = tuple[Tensor, ...]


class RecurrentLayers(nn.Module, ABC):
    """Base class of the recurrent layers: a stack of layers of one kind. A subclass implements `forward`.

    Args:
        input_size: Size of an input x_t.
        size: Size of a state h_t in one direction.
        layers: Number of layers.
        bidirectional: Whether to run over the sequence in both directions.
        dropout: Dropout probability between layers, which a subclass applies.

    Attributes:
        parts: Number of tensors of a state.
        output_size: Size of an output, in both directions together.
    """

    parts: ClassVar[int] = 1

    def __init__(
        self, input_size: int, size: int, *, layers: int = 1, bidirectional: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.layers = layers
        self.directions = 2 if bidirectional else 1
        self.output_size = size * self.directions

    @abstractmethod
    def forward(
        self, inputs: Tensor, state: LayersState | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, LayersState]:
        """Run over a sequence.

        Args:
            inputs: x, [batch, steps, input_size].
            state: The state before the first step, [layers, batch, output_size] each; zeros if None.
            lengths: Number of steps of each row, [batch]; all steps if None.

        Returns:
            The outputs of the last layer, [batch, steps, output_size], 0 after the end of a row, and the state after
            the last step of each row, [layers, batch, output_size] each. With both directions, an output is
            [→h_t ; ←h_t] and the state is [→h_T ; ←h_0]. Initial states are computed from the first tensor of the state
            of an encoder's last layer, and a decoder that attends before its step queries with that of its own.
        """


class TorchRecurrentLayers(RecurrentLayers):
    """Recurrent layers that are computed by `torch.nn.RNN`, `GRU` or `LSTM`.

    Args:
        input_size: Size of an input x_t.
        size: Size of a state h_t in one direction.
        layers: Number of layers.
        bidirectional: Whether to run over the sequence in both directions.
        dropout: Dropout probability between layers.

    Attributes:
        torch_module: The class of torch.
    """

    torch_module: ClassVar[Callable[..., nn.RNNBase]]

    def __init__(
        self, input_size: int, size: int, *, layers: int = 1, bidirectional: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__(input_size, size, layers=layers, bidirectional=bidirectional, dropout=dropout)
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
        return self.run(inputs, state) if lengths is None else self.run_packed(inputs, state, lengths)

    def run_packed(self, inputs: Tensor, state: LayersState | None, lengths: Tensor) -> tuple[Tensor, LayersState]:
        """Run over packed rows, so that the final state is the one after the last step of each row.

        This waits for a GPU once, since packing needs the lengths on the CPU. Unsorted rows would make PyTorch wait
        again when it packs, and when it pads.

        Args:
            inputs: x, [batch, steps, input_size].
            state: The state before the first step; zeros if None.
            lengths: Number of steps of each row, [batch].
        """
        lengths, order = lengths.cpu().sort(descending=True)
        order = copy_to(order, inputs.device)
        state = None if state is None else tuple(part.index_select(1, order) for part in state)
        packed = pack_padded_sequence(inputs.index_select(0, order), lengths, batch_first=True)
        packed, end = self.run(packed, state)
        outputs, _ = pad_packed_sequence(packed, batch_first=True, total_length=inputs.shape[1])
        restored = order.argsort()
        return outputs.index_select(0, restored), tuple(part.index_select(1, restored) for part in end)

    def run(self, inputs: Any, state: LayersState | None) -> tuple[Any, LayersState]:
        """Run the torch module.

        Args:
            inputs: x, [batch, steps, input_size], or packed.
            state: The state before the first step; zeros if None.
        """
        outputs, end = self.recurrence(inputs, None if state is None else state[0] if self.parts == 1 else state)
        return outputs, tuple(self.join_directions(part) for part in ((end,) if self.parts == 1 else end))

    def join_directions(self, part: Tensor) -> Tensor:
        """A state of torch, [layers · directions, batch, size], as [layers, batch, directions · size].

        Args:
            part: One tensor of the state that the torch module returned.
        """
        layers = part.unflatten(0, (self.layers, self.directions))  # [layers, directions, batch, size]
        return torch.cat(layers.unbind(1), -1)


class TanhRNN(TorchRecurrentLayers):
    """h_t = tanh(W_hh h_{t-1} + W_xh x_t + b_h).

    Args:
        input_size: Size of an input x_t.
        size: Size of a state h_t in one direction.
        layers: Number of layers.
        bidirectional: Whether to run over the sequence in both directions.
        dropout: Dropout probability between layers.
    """

    torch_module = nn.RNN


class GRU(TorchRecurrentLayers):
    """r, z = σ(W [x_t ; h_{t-1}] + b), n = tanh(W x_t + b + r ∘ (W h_{t-1} + b)), h_t = (1 − z) ∘ n + z ∘ h_{t-1}.

    Args:
        input_size: Size of an input x_t.
        size: Size of a state h_t in one direction.
        layers: Number of layers.
        bidirectional: Whether to run over the sequence in both directions.
        dropout: Dropout probability between layers.
    """

    torch_module = nn.GRU


class LSTM(TorchRecurrentLayers):
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
