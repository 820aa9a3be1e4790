"""Batches of sentences of like length, counted in tokens, defined by the seed and the step alone.

Shapes: source [batch, positions], inputs and outputs [batch, steps].
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.codec import Example
from regard.data.memory_mapped import example_lengths
from regard.seeding import seed_for
from regard.text import Vocabulary

# Lengths are compared in steps of so many tokens: sentences meet others of almost, not of exactly, their length.
BUCKET = 4


@dataclass(frozen=True)
class Batch:
    source: Tensor  # [batch, positions]
    source_valid: Tensor  # [batch, positions]; True: a real token
    inputs: Tensor  # [batch, steps]: what the decoder reads
    outputs: Tensor  # [batch, steps]: what it has to say then
    valid: Tensor  # [batch, steps]; True: a real step


def pad(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Rows of different lengths as one tensor, and where it is real."""
    longest = max(len(row) for row in rows)
    numbers = torch.tensor([[*row, *[Vocabulary.pad] * (longest - len(row))] for row in rows])
    lengths = torch.tensor([len(row) for row in rows])
    return numbers, torch.arange(longest) < lengths.unsqueeze(1)


def collate(examples: Sequence[Example]) -> Batch:
    source, source_valid = pad([example.source for example in examples])
    target, target_valid = pad([example.target for example in examples])
    return Batch(source, source_valid, target[:, :-1], target[:, 1:], target_valid[:, 1:])


class Batches:
    """Batch after batch without end: `per_epoch` of them hold every example once.

    Every epoch shuffles the examples and sorts them by length, so equals are in a new order; then it cuts them into
    batches, and shuffles those. Sorted lengths are the same in every epoch, and so are the cuts.
    """

    def __init__(self, examples: Sequence[Example], *, batch_tokens: int, seed: int) -> None:
        self.examples = examples
        self.seed = seed
        self._buckets = torch.from_numpy(
            -(-example_lengths(examples)[:, ::-1] // BUCKET)
        )  # [examples, target and source]
        self._keys = self._buckets[:, 0] * (self._buckets.max() + 1) + self._buckets[:, 1]
        self._cuts = self._cut(batch_tokens)
        self._epoch, self._order = -1, torch.empty(0)
        self._turns = torch.empty(0)

    @property
    def per_epoch(self) -> int:
        return len(self._cuts) - 1

    def at(self, step: int) -> Batch:
        """The batch of a step, counted from 0."""
        return collate(self.rows(step))

    def rows(self, step: int) -> list[Example]:
        """The examples of a step."""
        epoch, turn = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            self._shuffle(epoch)
        place = int(self._turns[turn])
        rows = self._order[self._cuts[place] : self._cuts[place + 1]]
        return [self.examples[row] for row in rows.tolist()]

    def once(self) -> Iterator[Batch]:
        """One epoch's batches, for measuring."""
        return (self.at(step) for step in range(self.per_epoch))

    def _shuffle(self, epoch: int) -> None:
        generator = torch.Generator().manual_seed(seed_for(self.seed, "order", epoch))
        shuffled = torch.randperm(len(self.examples), generator=generator)
        self._order = shuffled[self._keys[shuffled].argsort(stable=True)]
        self._turns = torch.randperm(self.per_epoch, generator=generator)
        self._epoch = epoch

    def _cut(self, batch_tokens: int) -> list[int]:
        """Where batches begin and end in the sorted order: as many sentences as fit into `batch_tokens`."""
        cuts, longest = [0], 0
        lengths = (self._buckets[self._keys.argsort(stable=True)].amax(1) * BUCKET).tolist()
        for place, length in enumerate(lengths):
            longest = max(longest, length)
            if place > cuts[-1] and longest * (place - cuts[-1] + 1) > batch_tokens:
                cuts.append(place)
                longest = length
        return [*cuts, len(lengths)]
