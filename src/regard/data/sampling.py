"""Which examples an epoch has if they have weights: how often each is seen per epoch, on average."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from regard.seeding import seed_for


class WeightedSampler:
    """Selects the examples of each epoch, by the seed and the epoch alone.

    Every epoch has the same number of places, and each place has the same length in every epoch, so that all epochs are
    cut into the same batches. n examples of weight w have S = round(w · n) places. Sorted by length, the example at
    place j in epoch e is

        r(j, e) = ⌊((j + 1) · n − 1 − (e · S mod n)) / S⌋

    which is one of about 1/w neighbors. After any number of epochs, no example has been seen more than once more often
    than another one of its weight: all are seen before any is seen again.

    Args:
        buckets: The lengths of source and target, [examples, 2].
        weights: The weight of each example, [examples].
        seed: Determines the order of examples of the same length.

    Attributes:
        buckets: The lengths of the places, [places, 2]: that of the longest example that may be there.
    """

    def __init__(self, buckets: NDArray[np.int32], weights: NDArray[np.float64], seed: int) -> None:
        generator = torch.Generator().manual_seed(seed_for(seed, "weights"))
        shuffled = torch.randperm(len(buckets), generator=generator, dtype=torch.int32).numpy()
        by_length = shuffled[np.lexsort((buckets[shuffled, 0], buckets[shuffled, 1]))]
        self._groups: list[tuple[NDArray[np.int32], int]] = []
        longest = []
        for weight in np.unique(weights):
            members = by_length[weights[by_length] == weight]
            places = max(1, round(float(weight) * len(members)))
            self._groups.append((members, places))
            longest.append(_longest_of_places(buckets[members], places))
        self.buckets = np.concatenate(longest)

    def examples(self, epoch: int) -> NDArray[np.int32]:
        """The example at each place, [places].

        Args:
            epoch: Counted from 0.
        """
        return np.concatenate([members[_ranks(len(members), places, epoch)] for members, places in self._groups])


def _ranks(count: int, places: int, epoch: int) -> NDArray[np.int64]:
    """r(j, e) for all places j; see `WeightedSampler`."""
    return (np.arange(1, places + 1) * count - 1 - epoch * places % count) // places


def _longest_of_places(buckets: NDArray[np.int32], places: int) -> NDArray[np.int32]:
    """The maximum of both lengths over r(j, e) of all e, which are ⌊j · n / S⌋ to ⌈(j + 1) · n / S⌉ − 1."""
    count, place = len(buckets), np.arange(places)
    begins, ends = place * count // places, -(-(place + 1) * count // places)
    padded = np.concatenate((buckets, np.zeros((1, 2), np.int32)))  # an end is an index here
    longest: NDArray[np.int32] = np.maximum.reduceat(padded, np.stack((begins, ends), 1).ravel())[::2]
    return longest
