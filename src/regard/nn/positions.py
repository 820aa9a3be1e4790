"""Token embeddings and position encodings.

Shapes: tokens [batch, steps], vectors [batch, steps, size]. `offset` is the position of the first step, counted from
0, so that a decoder that computes one step at a time encodes each step with its own position. One-hot and sinusoidal
encodings that are concatenated are from EECS 182 (docs/sources.md).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from regard.config.base import Size
from regard.config.kinds import POSITIONS, EncoderDecoderSection, PositionsSection
from regard.devices import copy_to
from regard.errors import UserError
from regard.nn.dropout import Dropout


class Positions(nn.Module):
    """No position encoding, and the base class of the encodings: returns the vectors unchanged.

    Args:
        input_size: Size of the vectors.

    Attributes:
        Section: The settings class of the encoding.
        size: Size of the vectors with their positions.
        max_length: Number of positions that can be encoded; None means no limit.
    """

    Section: ClassVar[type[PositionsSection]] = PositionsSection
    max_length: int | None = None

    def __init__(self, input_size: int) -> None:
        super().__init__()
        self.input_size = self.size = input_size

    def forward(self, vectors: Tensor, offset: int = 0) -> Tensor:
        """The vectors with their positions, [batch, steps, size].

        Args:
            vectors: [batch, steps, input_size].
            offset: Position of the first step.
        """
        return vectors

    def check_length(self, steps: int) -> None:
        """Raise `UserError` if a sequence is longer than the encoding allows.

        Args:
            steps: Number of tokens.
        """
        limit = self.max_length
        if limit is not None and steps > limit:
            raise UserError(f"a sequence of {steps} tokens is longer than the {limit} positions of this model")


class LimitedPositionsSection(PositionsSection):
    """Settings of an encoding with a limited number of positions.

    Attributes:
        longest: Number of positions.
    """

    longest: Size = 128

    @property
    def max_length(self) -> int:
        return self.longest

    def options(self) -> dict[str, Any]:
        return {"max_length": self.longest}


class OneHotPositions(Positions):
    """Concatenates a one-hot vector of the position. Not learned; its size grows with the length.

    The weight matrix of the next layer has a column for each position, so that it learns a vector for each.

    Args:
        input_size: Size of the vectors.
        max_length: Number of positions, which is the size of the one-hot vector.
    """

    Section = LimitedPositionsSection

    def __init__(self, input_size: int, *, max_length: int) -> None:
        super().__init__(input_size)
        self.max_length = max_length
        self.size = input_size + max_length

    def forward(self, vectors: Tensor, offset: int = 0) -> Tensor:
        batch, steps, _ = vectors.shape
        self.check_length(offset + steps)
        positions = torch.arange(offset, offset + steps, device=vectors.device)
        one_hot = nn.functional.one_hot(positions, self.size - self.input_size).to(vectors)
        return torch.cat([vectors, one_hot.expand(batch, -1, -1)], -1)


class RelativePositionsSection(PositionsSection):
    """Settings of an encoding that acts inside self-attention."""

    is_relative = True


class RelativePositions(Positions):
    """Base class of the encodings that act inside self-attention: on queries and keys, or on their scores.

    The vectors of the embedding are returned unchanged. A subclass overrides `rotate`, `add_bias` or both, which change
    nothing here. `regard.nn.SelfAttention` calls them.

    Args:
        input_size: Size of the vectors.
    """

    Section = RelativePositionsSection

    def rotate(self, vectors: Tensor, offset: int) -> Tensor:
        """Queries or keys with their positions, of the same shape.

        Args:
            vectors: q or k, [batch, heads, steps, size].
            offset: Position of the first step.
        """
        return vectors

    def add_bias(self, scores: Tensor) -> Tensor:
        """The scores with what depends on the positions alone, of the same shape.

        Args:
            scores: e, [batch, heads, queries, positions]; the queries are the last of the positions.
        """
        return scores

    def check_heads(self, heads: int, size: int) -> None:
        """Raise `UserError` if the encoding cannot be used with self-attention heads.

        Args:
            heads: Number of heads.
            size: Size of the states that they share.
        """


FirstFrequency = Literal[0, 1]


def wave_angles(
    offset: int, steps: int, size: int, *, first_frequency: FirstFrequency = 0, base: float = 10_000.0
) -> Tensor:
    """ω_k t for each position t and each pair k of dimensions, ω_k = 1 / base^(2k/size), in double precision.

    Args:
        offset: Position t of the first row.
        steps: Number of rows.
        size: Number of dimensions; the last one has no partner if it is odd.
        first_frequency: The first k.
        base: See above.

    Returns:
        The angles, [steps, pairs].
    """
    doubled = torch.arange(0, size, 2, dtype=torch.float64) + 2 * first_frequency  # 2k
    frequencies = base ** (-doubled / size)
    return torch.arange(offset, offset + steps, dtype=torch.float64).unsqueeze(1) * frequencies


def sinusoidal_encoding(offset: int, steps: int, size: int, first_frequency: FirstFrequency = 0) -> Tensor:
    """PE(t) = [sin ω_k t, cos ω_k t, sin ω_{k+1} t, cos ω_{k+1} t, …], ω_k = 1 / 10000^(2k/size).

    The first k is 0 in the Transformer and 1 in EECS 182. Each pair of columns has a frequency of its own, which is the
    same at all positions. The wavelengths 2π / ω_k form a geometric progression: from 2π to 10000^(1 − 2/size) · 2π if
    k is 0, …, size/2 − 1, and from 10000^(2/size) · 2π to 10000 · 2π if k is 1, …, size/2.

    Args:
        offset: Position t of the first row.
        steps: Number of rows.
        size: Number of columns.
        first_frequency: The first k.

    Returns:
        The encodings, [steps, size].
    """
    angles = wave_angles(offset, steps, size, first_frequency=first_frequency)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :size].float()


class AddedSinusoidalPositionsSection(PositionsSection):
    """Settings of sinusoidal positions that are added.

    Attributes:
        first_frequency: The first k of ω_k = 1 / 10000^(2k/d): 0 as in the Transformer, or 1 as in EECS 182.
    """

    first_frequency: FirstFrequency = 0


class SinusoidalPositionsSection(AddedSinusoidalPositionsSection):
    """Settings of concatenated sinusoidal positions.

    Attributes:
        width: Size of the encoding.
    """

    width: Size = 16


class SinusoidalPositions(Positions):
    """Concatenates PE(t).

    Args:
        input_size: Size of the vectors.
        width: Size of PE(t), which does not limit the length.
        first_frequency: The first k of ω_k, 0 or 1.
    """

    Section = SinusoidalPositionsSection

    def __init__(self, input_size: int, *, width: int, first_frequency: FirstFrequency = 0) -> None:
        super().__init__(input_size)
        self.width = width
        self.first_frequency = first_frequency
        self.size = input_size + width

    def forward(self, vectors: Tensor, offset: int = 0) -> Tensor:
        encoding = sinusoidal_encoding(offset, vectors.shape[1], self.width, self.first_frequency)
        return torch.cat(
            [vectors, copy_to(encoding.to(vectors.dtype), vectors.device).expand(len(vectors), -1, -1)], -1
        )


class AddedSinusoidalPositions(Positions):
    """Adds PE(t) to the vector, as in the original Transformer.

    Args:
        input_size: Size of the vectors.
        first_frequency: The first k of ω_k, 0 or 1.
    """

    Section = AddedSinusoidalPositionsSection

    def __init__(self, input_size: int, *, first_frequency: FirstFrequency = 0) -> None:
        super().__init__(input_size)
        self.first_frequency = first_frequency

    def forward(self, vectors: Tensor, offset: int = 0) -> Tensor:
        encoding = sinusoidal_encoding(offset, vectors.shape[1], self.size, self.first_frequency)
        return vectors + copy_to(encoding.to(vectors.dtype), vectors.device)


class LearnedPositions(Positions):
    """Adds a learned vector for each position.

    Args:
        input_size: Size of the vectors.
        max_length: Number of positions.
    """

    Section = LimitedPositionsSection

    def __init__(self, input_size: int, *, max_length: int) -> None:
        super().__init__(input_size)
        self.max_length = max_length
        self.table = nn.Parameter(torch.randn(max_length, input_size))

    def forward(self, vectors: Tensor, offset: int = 0) -> Tensor:
        steps = vectors.shape[1]
        self.check_length(offset + steps)
        return vectors + self.table[offset : offset + steps]


class Embedding(nn.Module):
    """z_t = W_e w_t with its position encoding and dropout.

    Args:
        tokens: Size of the vocabulary.
        size: Size of an embedding.
        positions: The position encoding; none if None.
        dropout: Dropout probability.

    Attributes:
        size: Size of an embedding with its position.
        max_length: Longest sequence that can be embedded; None means no limit.
    """

    def __init__(self, tokens: int, size: int, *, positions: Positions | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        self.tokens = nn.Embedding(tokens, size)
        # With variance 1/size, the embeddings also serve as an output layer; times √size, the inputs have variance 1.
        nn.init.normal_(self.tokens.weight, std=size**-0.5)
        self.scale = math.sqrt(size)
        self.positions = positions or Positions(size)
        self.dropout = Dropout(dropout)
        self.size = self.positions.size
        self.max_length = self.positions.max_length

    @property
    def relative_positions(self) -> RelativePositions | None:
        """The position encoding if it acts inside self-attention, otherwise None."""
        return self.positions if isinstance(self.positions, RelativePositions) else None

    @classmethod
    def from_section(cls, section: EncoderDecoderSection, tokens: int, dropout: float) -> Self:
        """The embedding of an encoder or decoder.

        Args:
            section: Settings of the encoder or decoder.
            tokens: Size of the vocabulary.
            dropout: Dropout probability.
        """
        positions = POSITIONS[section.positions.kind](section.embedding, **section.positions.options())
        return cls(tokens, section.embedding, positions=positions, dropout=dropout)

    def forward(self, tokens: Tensor, offset: int = 0) -> Tensor:
        """The embedded tokens, [batch, steps, size].

        Args:
            tokens: Token ids, [batch, steps], or patches of a picture, [batch, steps, pixels].
            offset: Position of the first step.
        """
        return self.dropout(self.positions(self.tokens(tokens) * self.scale, offset))
