"""Tokens as vectors, and how a vector tells where its token stands.

Shapes: tokens [batch, steps], vectors [batch, steps, size]. `first` is the number of the first step, counted from 0,
so that a decoder that goes one step at a time gives each step its own position.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.nn.dropout import Dropout


class Positions(nn.Module):
    """No positions: vectors stay as they are. The others add to a vector or grow it to `size`."""

    max_length: int | None = None  # how many positions there are; None: no limit

    def __init__(self, input_size: int) -> None:
        super().__init__()
        self.input_size = self.size = input_size

    def forward(self, vectors: Tensor, first: int = 0) -> Tensor:
        return vectors

    def check_length(self, steps: int) -> None:
        if self.max_length is not None and steps > self.max_length:
            raise UserError(
                f"a sequence of {steps} tokens is longer than the {self.max_length} positions of this model"
            )


class OneHotPositions(Positions):
    """A vector as long as the longest sequence, 1 at the position, concatenated. Not learned; grows with length."""

    def __init__(self, input_size: int, *, longest: int) -> None:
        super().__init__(input_size)
        self.max_length = longest
        self.size = input_size + longest

    def forward(self, vectors: Tensor, first: int = 0) -> Tensor:
        batch, steps, _ = vectors.shape
        self.check_length(first + steps)
        places = torch.arange(first, first + steps, device=vectors.device)
        one_hot = nn.functional.one_hot(places, self.size - self.input_size).to(vectors)
        return torch.cat([vectors, one_hot.expand(batch, -1, -1)], -1)


def sinusoidal_encoding(first: int, steps: int, size: int) -> Tensor:
    """PE(t) = [sin ω_0 t, cos ω_0 t, sin ω_1 t, cos ω_1 t, …], ω_k = 1 / 10000^(2k/size): [steps, size].

    Wavelengths form a geometric progression from 2π towards 10000·2π.
    """
    frequencies = 10_000.0 ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angles = torch.arange(first, first + steps, dtype=torch.float64).unsqueeze(1) * frequencies
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :size].float()


class SinusoidalPositions(Positions):
    """PE(t), concatenated. Its `width` is a free choice that need not be tied to any length."""

    def __init__(self, input_size: int, *, width: int) -> None:
        super().__init__(input_size)
        self.width = width
        self.size = input_size + width

    def forward(self, vectors: Tensor, first: int = 0) -> Tensor:
        waves = sinusoidal_encoding(first, vectors.shape[1], self.width).to(vectors)
        return torch.cat([vectors, waves.expand(len(vectors), -1, -1)], -1)


class AddedSinusoidalPositions(Positions):
    """The vector plus PE(t), as in the Transformer."""

    def forward(self, vectors: Tensor, first: int = 0) -> Tensor:
        return vectors + sinusoidal_encoding(first, vectors.shape[1], self.size).to(vectors)


class LearnedPositions(Positions):
    """The vector plus a learned one for its position."""

    def __init__(self, input_size: int, *, longest: int) -> None:
        super().__init__(input_size)
        self.max_length = longest
        self.table = nn.Parameter(torch.randn(longest, input_size))

    def forward(self, vectors: Tensor, first: int = 0) -> Tensor:
        steps = vectors.shape[1]
        self.check_length(first + steps)
        return vectors + self.table[first : first + steps]


class Embedding(nn.Module):
    """z_t = W_e w_t, with its position: numbers of tokens in, vectors out."""

    def __init__(self, tokens: int, size: int, *, positions: Positions | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        self.tokens = nn.Embedding(tokens, size)
        # Entries of variance 1/size serve as an output layer too; times √size they are inputs of variance 1.
        nn.init.normal_(self.tokens.weight, std=size**-0.5)
        self.scale = math.sqrt(size)
        self.positions = positions or Positions(size)
        self.dropout = Dropout(dropout)
        self.size = self.positions.size
        self.max_length = self.positions.max_length

    def forward(self, tokens: Tensor, first: int = 0) -> Tensor:
        return self.dropout(self.positions(self.tokens(tokens) * self.scale, first))


POSITIONS: dict[str, Callable[..., Positions]] = {
    "none": Positions,
    "one-hot": OneHotPositions,
    "sine": SinusoidalPositions,
    "sine-added": AddedSinusoidalPositions,
    "learned": LearnedPositions,
}
