"""What each training step learns from: the next batches of the epoch, which the processes of a group divide."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from regard.data import Batches, Example, example_lengths
from regard.process_group import ProcessGroup
from regard.seeding import seed_for
from regard.training.data_parallel import split_by_tokens

Resample = Callable[[Example, Random], Example]


class StepBatches:
    """The batches of each step. The last step of an epoch may have fewer than the others.

    Args:
        batches: The batches of the training split.
        per_step: The number of batches of a step, whose gradients are accumulated.
        resample: Returns an example with newly sampled subwords, for subword regularization; None: it is not used.
    """

    def __init__(self, batches: Batches, per_step: int = 1, resample: Resample | None = None) -> None:
        self.batches = batches
        self.per_step = per_step
        self.resample = resample

    @property
    def per_epoch(self) -> int:
        """The number of steps in an epoch."""
        return -(-self.batches.per_epoch // self.per_step)

    def numbers(self, step: int) -> range:
        """The numbers of the batches of a step, which are in one epoch.

        Args:
            step: Counted from 0.
        """
        epoch, turn = divmod(step, self.per_epoch)
        first, end = turn * self.per_step, min((turn + 1) * self.per_step, self.batches.per_epoch)
        start = epoch * self.batches.per_epoch
        return range(start + first, start + end)

    def own(self, step: int, group: ProcessGroup) -> list[tuple[list[Example], int]]:
        """The examples of this process in each batch of a step, and the weight of their mean loss.

        The weight is the number of target tokens. A process without any examples, because there are fewer sentences
        than processes, gets the first one with weight 0.

        Args:
            step: Counted from 0.
            group: The processes.
        """
        random = Random(seed_for(self.batches.seed, "tokens", step))
        parts = [self._part(number, random, group) for number in self.numbers(step)]
        weighted = [(part, sum(len(example.target) - 1 for example in part)) for part in parts if part]
        return weighted or [(self.batches.rows(self.numbers(step)[0])[:1], 0)]

    def _part(self, number: int, random: Random, group: ProcessGroup) -> list[Example]:
        """The examples of this process in a batch: about as many tokens as those of the others."""
        rows = self.batches.indices(number)
        lengths = example_lengths(self.batches.examples)[rows.numpy()].sum(1)
        own = split_by_tokens(lengths, group.size)[group.rank]
        if self.resample is None:
            return [self.batches.examples[row] for row in rows[own].tolist()]
        # All processes sample for the whole batch, so that a text has the same subwords however many there are.
        return [self.resample(example, random) for example in self.batches.rows(number)][own]
