"""Small inputs for checks. Sizes are distinct primes where possible, so that a swapped axis is noticed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.data import Batch
from regard.images import PatchGrid
from regard.nn import Attention

SOURCE_TOKENS, TARGET_TOKENS = 17, 19
SOURCE_LENGTHS, POSITIONS = (7, 1, 4), 7
TARGET_LENGTHS, STEPS = (3, 5, 1), 5
PATCHES = PatchGrid(height=17, max_width=23, patch_height=17, patch_width=1)  # of a batch of pictures


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


def sample_picture_batch(seed: int = 7) -> Batch:
    """The batch `sample_batch` with pictures as sources, `PATCHES` of them, and noise everywhere, in the padding, too.

    A patch has ink at two pixels that follow from its token, so that no patch occurs twice in a source.

    Args:
        seed: Seed of the noise and of the token ids.
    """
    batch, generator = sample_batch(seed), torch.Generator("cpu").manual_seed(seed)
    pixels = torch.stack([batch.source, (3 * batch.source + 1) % SOURCE_TOKENS], -1)
    ink = 220 * torch.nn.functional.one_hot(pixels, PATCHES.pixels).amax(-2)
    noise = torch.randint(32, ink.shape, generator=generator, device="cpu")
    return replace(batch, source=(ink + noise).to(torch.uint8))


def valid_mask(lengths: tuple[int, ...], positions: int) -> Tensor:
    """True for the first positions of each row, [rows, positions].

    Args:
        lengths: How many positions of each row are valid.
        positions: Number of positions.
    """
    return torch.arange(positions, device="cpu") < torch.tensor(lengths, device="cpu").unsqueeze(1)


def row_alone(batch: Batch, row: int) -> tuple[Tensor, Tensor]:
    """One source without padding, [1, positions] or [1, positions, pixels], and its mask, [1, positions].

    Args:
        batch: The batch that contains it.
        row: Its index.
    """
    valid = batch.source_valid[row]
    return batch.source[row, valid].unsqueeze(0), valid[valid].unsqueeze(0)


def more_padding(batch: Batch, positions: int = 5) -> tuple[Tensor, Tensor]:
    """The sources with more padding and with other tokens or pixels in it, and their mask, [batch, positions].

    Args:
        batch: The sources.
        positions: Number of positions to add.
    """
    values = int(batch.source.max()) + 1
    other = ((batch.source.int() + 1) % values).to(batch.source.dtype)
    valid = batch.source_valid if batch.source.dim() == 2 else batch.source_valid.unsqueeze(-1)
    source = torch.cat([torch.where(valid, batch.source, other), other[:, :positions]], 1)
    return source, torch.cat([batch.source_valid, torch.zeros_like(batch.source_valid[:, :positions])], 1)


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
