"""The simpler simple recurrent unit (SSRU), the fastest of the recurrent layers.

Symbols: x_t input, f_t forget gate, c_t state, h_t output, LN layer normalization.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.nn.dropout import Dropout
from regard.nn.recurrent_layers import LayersState, RecurrentLayers


class SSRULayer(nn.Module):
    """f_t = σ(W_f x_t + b_f), c_t = f_t ∘ c_{t-1} + (1 − f_t) ∘ W x_t, h_t = LN(x_t + ReLU(c_t)).

    No matrix multiplies the state, so the matrix products of all steps are computed at once, and only the elementwise
    c_t step by step. If inputs and outputs differ in size, W_r x_t replaces x_t in h_t. Steps come first here, so that
    the numbers of one step are contiguous.

    Args:
        input_size: Size of an input x_t.
        size: Size of a state c_t in one direction.
        bidirectional: Whether to run over the sequence in both directions.
    """

    def __init__(self, input_size: int, size: int, *, bidirectional: bool = False) -> None:
        super().__init__()
        self.bidirectional = bidirectional
        output_size = size * 2 if bidirectional else size  # [→c_t ; ←c_t]
        self.forget_layer = nn.Linear(input_size, output_size)  # W_f, b_f
        self.input_layer = nn.Linear(input_size, output_size, bias=False)  # W
        is_same = input_size == output_size
        self.residual_layer = nn.Identity() if is_same else nn.Linear(input_size, output_size, bias=False)  # W_r
        self.norm = nn.LayerNorm(output_size)

    def forward(self, inputs: Tensor, state: Tensor, valid: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Run over a sequence.

        Args:
            inputs: x, [steps, batch, input_size].
            state: c_0, [batch, output_size].
            valid: False on padding, [steps, batch, 1]; everything is valid if None.

        Returns:
            h, [steps, batch, output_size], and the state after the last step, [batch, output_size].
        """
        # Autocast may have computed it in a smaller type, in which a gate close to 1 is 1 and its updates are lost.
        state = state.to(self.forget_layer.weight.dtype)
        forget = torch.sigmoid(self.forget_layer(inputs).to(state.dtype))
        if valid is not None:
            forget = forget.masked_fill(~valid, 1.0)  # padding leaves c as it is
        forget = self.in_reading_order(forget)
        new = self.in_reading_order(self.input_layer(inputs))
        states, end = scan(new, forget, state)
        del new, forget  # frees memory if there are no gradients
        activated = torch.relu(self.in_reading_order(states))
        return self.norm(self.residual_layer(inputs) + activated), end

    def in_reading_order(self, sequence: Tensor) -> Tensor:
        """With the steps of the backward direction reversed; twice, the sequence itself.

        Args:
            sequence: A tensor [steps, batch, output_size].
        """
        if not self.bidirectional:
            return sequence
        forward, backward = sequence.chunk(2, -1)
        return torch.cat([forward, backward.flip(0)], -1)


def scan(new: Tensor, forget: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """c_t = f_t ∘ c_{t-1} + (1 − f_t) ∘ W x_t for all steps, [steps, batch, size], and the last of them.

    This is a loop, because a parallel scan computes about log(steps) times as much and is slower on a CPU, and the
    closed form divides by products of gates, which are soon 0.

    Args:
        new: W x, [steps, batch, size].
        forget: f, [steps, batch, size].
        state: c_0, [batch, size].
    """
    states = []
    new, forget = new.to(state.dtype), forget.to(state.dtype)  # which autocast has computed in a smaller type
    for x, f in zip(new, forget, strict=True):
        state = torch.lerp(x, state, f)
        states.append(state)
    return torch.stack(states), state


class SSRU(RecurrentLayers):
    """f_t = σ(W_f x_t + b_f), c_t = f_t ∘ c_{t-1} + (1 − f_t) ∘ W x_t, h_t = LN(x_t + ReLU(c_t)).

    The unit of Kim et al. (2019) with the residual connection and the layer normalization that surround it there, where
    it replaces the self-attention of a Transformer decoder. Without these two it learns more slowly than a GRU. A layer
    that changes the size has W_r x_t in place of x_t. What a step passes on is c_t, not h_t: an encoder ends
    with c_T, and a decoder that attends before its step queries with c_{t-1}.

    Args:
        input_size: Size of an input x_t.
        size: Size of a state c_t in one direction.
        layers: Number of layers.
        bidirectional: Whether to run over the sequence in both directions.
        dropout: Dropout probability between layers.
    """

    def __init__(
        self, input_size: int, size: int, *, layers: int = 1, bidirectional: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__(input_size, size, layers=layers, bidirectional=bidirectional, dropout=dropout)
        sizes = [input_size] + [self.output_size] * (layers - 1)
        self.stack = nn.ModuleList(SSRULayer(each, size, bidirectional=bidirectional) for each in sizes)
        self.dropout = Dropout(dropout)

    def forward(
        self, inputs: Tensor, state: LayersState | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, LayersState]:
        outputs = inputs.transpose(0, 1)  # steps first
        steps, batch, _ = outputs.shape
        start = inputs.new_zeros(self.layers, batch, self.output_size) if state is None else state[0]
        valid = None
        if lengths is not None:
            valid = (torch.arange(steps, device=inputs.device).unsqueeze(1) < lengths).unsqueeze(-1)
        ends = []
        for number, layer in enumerate(self.stack):
            outputs, end = layer(self.dropout(outputs) if number else outputs, start[number], valid)
            ends.append(end)
        if valid is not None:
            outputs = outputs.masked_fill(~valid, 0.0)
        return outputs.transpose(0, 1), (torch.stack(ends),)
