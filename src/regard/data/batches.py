"""Batches of sentences of similar length, determined by the seed and the step alone.

Shapes: source [batch, positions], or [batch, positions, pixels] of pictures; inputs and outputs [batch, steps].
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.examples import Example, Source, is_patches
from regard.data.on_disk import example_lengths
from regard.data.sampling import WeightedSampler
from regard.devices import copy_to
from regard.seeding import seed_for
from regard.text import Vocabulary

# Lengths are rounded up to a multiple of this, so that sentences share batches with others of similar length.
BUCKET = 4


@dataclass(frozen=True)
class Batch:
    """Padded examples.

    Args:
        source: The encoder's input: token ids, [batch, positions], or patches, [batch, positions, pixels] of uint8.
        source_valid: [batch, positions], False at padding.
        inputs: [batch, steps], the decoder's input.
        outputs: [batch, steps], the decoder's expected output.
        valid: [batch, steps], False at padding.
    """

    source: Tensor
    source_valid: Tensor
    inputs: Tensor
    outputs: Tensor
    valid: Tensor

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on a device.

        Args:
            device: A PyTorch device.
        """
        return Batch(
            copy_to(self.source, device, pin=True),
            copy_to(self.source_valid, device, pin=True),
            copy_to(self.inputs, device, pin=True),
            copy_to(self.outputs, device, pin=True),
            copy_to(self.valid, device, pin=True),
        )


def pad(rows: Sequence[Source]) -> tuple[Tensor, Tensor]:
    """Rows of different lengths as one tensor, and a mask that is False at padding, [rows, longest].

    Args:
        rows: Token ids, which become [rows, longest], or patches, which become [rows, longest, pixels] of uint8.
    """
    longest = max(len(row) for row in rows)
    lengths = torch.tensor([len(row) for row in rows])
    padded = torch.stack([_padded(row, longest) for row in rows])
    return padded, torch.arange(longest) < lengths.unsqueeze(1)


def _padded(row: Source, length: int) -> Tensor:
    if is_patches(row):
        content = bytearray(b"".join(row).ljust(length * len(row[0]), b"\0"))
        return torch.frombuffer(content, dtype=torch.uint8).view(length, -1)
    return torch.tensor([*row, *[Vocabulary.pad] * (length - len(row))])


def collate(examples: Sequence[Example]) -> Batch:
    """The batch of some examples, on the CPU.

    Args:
        examples: At least one.
    """
    source, source_valid = pad([example.source for example in examples])
    target, target_valid = pad([example.target for example in examples])
    return Batch(source, source_valid, target[:, :-1], target[:, 1:], target_valid[:, 1:])


class Batches:
    """An endless sequence of batches; every `per_epoch` of them contain each example once, or as its weight says.

    Each epoch shuffles the examples and sorts them by length, so that examples of equal length are in a new order; then
    it cuts them into batches and shuffles these. Sorted lengths are the same in every epoch, and so are the cuts.

    There may be many millions of examples, so arrays have small integers: 6 or 8 bytes for each, besides its lengths,
    and less than 40 while an epoch is shuffled.

    Args:
        examples: The examples, in memory or on disk.
        batch_tokens: The largest number of tokens in a batch on its longer side, padding included.
        seed: The seed of the order.
        weights: How often an epoch contains each example, on average, [examples]; None: once. See `WeightedSampler`.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        *,
        batch_tokens: int,
        seed: int,
        weights: NDArray[np.float64] | None = None,
    ) -> None:
        self.examples = examples
        self.seed = seed
        # The lengths are not kept: a memory-mapped file that is in use cannot be removed on Windows.
        buckets = np.asarray(example_lengths(examples)) + np.int32(BUCKET - 1)
        buckets //= BUCKET
        self._sampler = None if weights is None else WeightedSampler(buckets, weights, seed)
        buckets = self._sampler.buckets if self._sampler else buckets
        self._base = int(buckets.max()) + 1
        dtype = np.min_scalar_type(self._base**2)
        # The order of keys is by target, then by source.
        self._keys = buckets[:, 1].astype(dtype) * dtype.type(self._base) + buckets[:, 0].astype(dtype)
        self._cuts = self._cut(batch_tokens)
        self._epoch, self._order = -1, torch.empty(0)
        self._batch_order = torch.empty(0)

    @property
    def per_epoch(self) -> int:
        """The number of batches in an epoch."""
        return len(self._cuts) - 1

    def at(self, step: int) -> Batch:
        """The batch of a step, on the CPU.

        Args:
            step: Counted from 0.
        """
        return collate(self.rows(step))

    def rows(self, step: int) -> list[Example]:
        """The examples of a step.

        Args:
            step: Counted from 0.
        """
        return [self.examples[row] for row in self.indices(step).tolist()]

    def indices(self, step: int) -> Tensor:
        """The numbers of the examples of a step.

        Args:
            step: Counted from 0.
        """
        epoch, turn = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            self._shuffle(epoch)
        batch = int(self._batch_order[turn])
        return self._order[self._cuts[batch] : self._cuts[batch + 1]].long()

    def once(self) -> Iterator[Batch]:
        """The batches of one epoch."""
        return (self.at(step) for step in range(self.per_epoch))

    def _shuffle(self, epoch: int) -> None:
        generator = torch.Generator().manual_seed(seed_for(self.seed, "order", epoch))
        self._order = torch.empty(0)  # frees the memory of the last epoch
        shuffled = torch.randperm(len(self._keys), generator=generator, dtype=torch.int32).numpy()
        order = shuffled[self._keys[shuffled].argsort(stable=True)]
        self._order = torch.from_numpy(self._sampler.examples(epoch)[order] if self._sampler else order)
        self._batch_order = torch.randperm(self.per_epoch, generator=generator)
        self._epoch = epoch

    def _cut(self, batch_tokens: int) -> array[int]:
        """Where batches begin and end in the sorted order: as many sentences as fit into `batch_tokens`."""
        cuts, index, longest = array("q", (0,)), 0, 0
        for key, count in zip(*np.unique(self._keys, return_counts=True), strict=True):
            length = BUCKET * max(divmod(int(key), self._base))
            longest = max(longest, length)
            end = index + int(count)
            while (cut := max(index, cuts[-1] + max(1, batch_tokens // longest))) < end:
                cuts.append(cut)
                longest = length
            index = end
        cuts.append(index)
        return cuts
