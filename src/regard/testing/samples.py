"""Small inputs for checks. Sizes are distinct primes where possible, so that a swapped axis is noticed."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data import Batch
from regard.nn import Attention

SOURCE_TOKENS, TARGET_TOKENS = 17, 19
SOURCE_LENGTHS, POSITIONS = (7, 1, 4), 7
TARGET_LENGTHS, STEPS = (3, 5, 1), 5


def sample_batch(seed: int = 7) -> Batch:
    """Three sources and targets of different lengths, with token ids below `SOURCE_TOKENS` and `TARGET_TOKENS`.

    Padding has random ids, because nothing may depend on it. No token occurs twice in a source: without positions,
    equal scores would leave the largest to rounding.

    Args:
        seed: Seed of the token ids.
    """
    generator = torch.Generator("cpu").manual_seed(seed)
    rows = len(SOURCE_LENGTHS)
    orders = [torch.randperm(SOURCE_TOKENS, generator=generator, device="cpu") for _ in range(rows)]
    tokens = torch.randint(TARGET_TOKENS, (2, rows, STEPS), generator=generator, device="cpu")
    return Batch(
        source=torch.stack([order[:POSITIONS] for order in orders]),
        source_valid=valid_mask(SOURCE_LENGTHS, POSITIONS),
        inputs=tokens[0],
        outputs=tokens[1],
        valid=valid_mask(TARGET_LENGTHS, STEPS),
    )


def valid_mask(lengths: tuple[int, ...], positions: int) -> Tensor:
    """True for the first positions of each row, [rows, positions].

    Args:
        lengths: How many positions of each row are valid.
        positions: Number of positions.
    """
    return torch.arange(positions, device="cpu") < torch.tensor(lengths, device="cpu").unsqueeze(1)


def row_alone(batch: Batch, row: int) -> tuple[Tensor, Tensor]:
    """One source without padding, and its mask, both [1, positions].

    Args:
        batch: The batch that contains it.
        row: Its index.
    """
    source = batch.source[row, batch.source_valid[row]].unsqueeze(0)
    return source, torch.ones_like(source, dtype=torch.bool)


def more_padding(batch: Batch, positions: int = 5) -> tuple[Tensor, Tensor]:
    """The sources with more padding and with other tokens in it, and their mask, both [batch, positions].

    Args:
        batch: The sources.
        positions: Number of positions to add.
    """
    tokens = int(batch.source.max()) + 1
    source = torch.where(batch.source_valid, batch.source, (batch.source + 1) % tokens)
    filler = torch.arange(positions, device=source.device).expand(len(source), -1) % tokens
    return torch.cat([source, filler], 1), torch.cat([batch.source_valid, filler < 0], 1)


@dataclass(frozen=True)
class AttentionInputs:
    """Random inputs of a mechanism.

    Args:
        query: [batch, steps, query_size].
        states: [batch, positions, memory_size].
        valid: [batch, positions].
    """

    query: Tensor
    states: Tensor
    valid: Tensor

    @classmethod
    def draw(cls, attention: Attention, seed: int) -> AttentionInputs:
        """Two rows, one of them padded, with three steps and five positions.

        Args:
            attention: The mechanism, which has the sizes.
            seed: Seed of the numbers.
        """
        generator = torch.Generator("cpu").manual_seed(seed)
        query = torch.randn(2, 3, attention.query_size, generator=generator, device="cpu")
        states = torch.randn(2, 5, attention.memory_size, generator=generator, device="cpu")
        return cls(query * 2, states, valid_mask((5, 2), 5))  # the second row is shorter than its steps
