"""Rotary positions and ALiBi, in which the score of a query and a key depends on the distance of their positions.

Symbols: i position of the query, j position of the key, d size of a head.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from regard.config.base import invalid_combination
from regard.devices import copy_to
from regard.errors import UserError
from regard.nn.normalizers import at_least_float32
from regard.nn.positions import RelativePositions, RelativePositionsSection, wave_angles


class RotaryPositionsSection(RelativePositionsSection):
    """Settings of rotary positions.

    Attributes:
        base: θ_k = 1 / base^(2k/d): a larger one has longer wavelengths.
    """

    base: float = Field(default=10_000.0, gt=1)

    def check_heads(self, heads: int, size: int) -> None:
        if problem := odd_heads(heads, size):
            raise invalid_combination("heads", problem)


def odd_heads(heads: int, size: int) -> str | None:
    """The problem if heads have dimensions that cannot be paired; None if they can.

    Args:
        heads: Number of heads.
        size: Size of the states that they share.
    """
    if size // heads % 2:
        return (
            f"rotary positions rotate pairs of dimensions, but each of {heads} heads has {size // heads}; make it even"
        )
    return None


class RotaryPositions(RelativePositions):
    """RoPE (Su et al. 2021): rotates each pair of dimensions of queries and keys by an angle for their position t.

    [x_2k, x_2k+1] ← [x_2k cos tθ_k − x_2k+1 sin tθ_k, x_2k sin tθ_k + x_2k+1 cos tθ_k],    θ_k = 1 / base^(2k/d)

    With R_t for this rotation, (R_i q) · (R_j k) = q · (R_{j−i} k): a score depends on q, k and the distance. The θ_k
    are the frequencies of the sinusoidal encoding. A key is rotated once, by its own position.

    Args:
        input_size: Size of the vectors of the embedding.
        base: See above.
    """

    Section = RotaryPositionsSection

    def __init__(self, input_size: int, *, base: float = 10_000.0) -> None:
        super().__init__(input_size)
        self.base = base

    def rotate(self, vectors: Tensor, offset: int) -> Tensor:
        angles = wave_angles(offset, *vectors.shape[-2:], base=self.base)  # t θ_k, [steps, size / 2]
        rotations = torch.stack([angles.cos(), angles.sin()]).to(vectors.dtype)
        cosine, sine = copy_to(rotations, vectors.device)
        first, second = vectors.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack([first * cosine - second * sine, first * sine + second * cosine], -1).flatten(-2)

    def check_heads(self, heads: int, size: int) -> None:
        if problem := odd_heads(heads, size):
            raise UserError(problem)


def alibi_slopes(heads: int) -> Tensor:
    """m_h = 2^(−8h/n) for h = 1, …, n, [heads]: 1/2, …, 1/256 for 8 heads.

    The sequence is geometric for every n, as Press et al. (2022) define it; their code has another rule if n is not a
    power of two.

    Args:
        heads: Number of heads n.
    """
    return 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)


class AlibiPositions(RelativePositions):
    """ALiBi (Press et al. 2022): lowers each score by the distance of its positions, e_ij ← e_ij − m_h |i − j|.

    Each head h has a slope m_h of its own. In a decoder, which attends to j ≤ i only, this is the m_h (j − i) of the
    paper; an encoder has the same bias in both directions.

    Args:
        input_size: Size of the vectors of the embedding.
    """

    def add_bias(self, scores: Tensor) -> Tensor:
        heads, queries, positions = scores.shape[-3:]
        numbers = torch.arange(positions, device=scores.device)
        distances = (numbers[positions - queries :, None] - numbers).abs()  # [queries, positions]
        scores = at_least_float32(scores)  # bfloat16 counts up to 256
        slopes = copy_to(alibi_slopes(heads).to(scores.dtype), scores.device)
        return scores - slopes[:, None, None] * distances
