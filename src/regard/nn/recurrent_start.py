"""How a recurrent decoder computes its initial state h_0 from the encoded source."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.nn.encoder_decoder import Encoding
from regard.nn.recurrent_layers import LayersState, RecurrentLayers


class ZeroStart(nn.Module):
    """h_0^dec = 0: only attention passes on the source.

    Args:
        encoder_size: Size of an encoder state.
        layers: The decoder's recurrent layers.

    Attributes:
        copies_final_state: Whether encoder and decoder need states of the same shape.
    """

    copies_final_state: ClassVar[bool] = False

    def __init__(self, encoder_size: int, layers: RecurrentLayers) -> None:
        super().__init__()
        self.parts, self.layers, self.size = layers.parts, layers.layers, layers.output_size

    def forward(self, encoding: Encoding) -> LayersState:
        """The initial state, [layers, batch, size] for each tensor of the state.

        Args:
            encoding: The encoded sources.
        """
        shape = (self.layers, len(encoding.states), self.size)
        return tuple(encoding.states.new_zeros(shape) for _ in range(self.parts))


class CopyStart(ZeroStart):
    """h_0^dec = h_T: the encoder's final state, layer by layer.

    Args:
        encoder_size: Size of an encoder state.
        layers: The decoder's recurrent layers.
    """

    copies_final_state = True

    def forward(self, encoding: Encoding) -> LayersState:
        shape = (len(encoding.final_state), *encoding.final_state[0].shape[::2])
        if shape != (self.parts, self.layers, self.size):
            raise UserError(
                f"the decoder cannot start from a copy: the encoder ends with (parts, layers, size) = {shape}, "
                f"the decoder starts with {(self.parts, self.layers, self.size)}; make them equal, "
                "or choose tanh, relu or zeros"
            )
        return encoding.final_state


class BridgeStart(nn.Module):
    """h_0^dec = g(W [→h_T ; ←h_0] + b), with separate W and b for each layer and tensor of the decoder's state.

    Args:
        encoder_size: Size of an encoder state.
        layers: The decoder's recurrent layers.

    Attributes:
        activation: The function g.
    """

    copies_final_state: ClassVar[bool] = False
    activation: ClassVar[Callable[[Tensor], Tensor]]

    def __init__(self, encoder_size: int, layers: RecurrentLayers) -> None:
        super().__init__()
        self.parts, self.layers = layers.parts, layers.layers
        self.layer = nn.Linear(encoder_size, layers.parts * layers.layers * layers.output_size)

    def forward(self, encoding: Encoding) -> LayersState:
        """The initial state, [layers, batch, size] for each tensor of the state.

        Args:
            encoding: The encoded sources.
        """
        summary = encoding.final_state[0][-1]  # [batch, size]
        start = type(self).activation(self.layer(summary)).unflatten(-1, (self.parts, self.layers, -1))
        return tuple(part.transpose(0, 1).contiguous() for part in start.unbind(1))  # [layers, batch, size]


class TanhStart(BridgeStart):
    """h_0^dec = tanh(W h_T + b).

    Args:
        encoder_size: Size of an encoder state.
        layers: The decoder's recurrent layers.
    """

    activation = torch.tanh


class ReluStart(BridgeStart):
    """h_0^dec = ReLU(W [→h_T ; ←h_0] + b).

    Args:
        encoder_size: Size of an encoder state.
        layers: The decoder's recurrent layers.
    """

    activation = torch.relu
