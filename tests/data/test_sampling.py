"""Weights: how often each example is seen per epoch, and that epochs are cut into the same batches."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data import Batches, Example
from regard.data.sampling import WeightedSampler
from regard.text import Vocabulary

weights_of_examples = st.lists(
    st.tuples(st.integers(1, 20), st.integers(0, 20), st.sampled_from([0.3, 0.5, 1.0, 2.0, 2.75])),
    min_size=1,
    max_size=60,
)


def example(name: int, source: int, target: int, weight: float = 1.0) -> Example:
    """An example that is identified by its first source token."""
    return Example(
        (10 + name, *[5] * (source - 1), Vocabulary.end), (Vocabulary.begin, *[6] * target, Vocabulary.end), weight
    )


def counts_of_epoch(batches: Batches, number: int) -> Counter[int]:
    steps = range(number * batches.per_epoch, (number + 1) * batches.per_epoch)
    return Counter(row for step in steps for row in batches.indices(step).tolist())


@given(given=weights_of_examples, limit=st.integers(1, 120), seed=st.integers(0, 2**32))
def test_after_any_number_of_epochs_all_are_seen_equally_often(
    given: list[tuple[int, int, float]], limit: int, seed: int
):
    examples = [example(name, *each) for name, each in enumerate(given)]
    weights = np.array([each[2] for each in given])
    batches = Batches(examples, batch_tokens=limit, seed=seed, weights=weights)
    seen: Counter[int] = Counter()
    for epoch in range(9):
        now = counts_of_epoch(batches, epoch)
        seen += now
        for weight in np.unique(weights):
            members = np.flatnonzero(weights == weight).tolist()
            assert sum(now[row] for row in members) == max(1, round(weight * len(members)))
            counts = [seen[row] for row in members]
            assert max(counts) - min(counts) <= 1


@given(given=weights_of_examples, limit=st.integers(1, 120), seed=st.integers(0, 2**32))
def test_batches_stay_within_their_limit_in_every_epoch(given: list[tuple[int, int, float]], limit: int, seed: int):
    examples = [example(name, *each) for name, each in enumerate(given)]
    batches = Batches(examples, batch_tokens=limit, seed=seed, weights=np.array([each[2] for each in given]))
    for step in range(4 * batches.per_epoch):
        rows, positions = (batch := batches.at(step)).source.shape
        assert rows == 1 or rows * max(positions, batch.inputs.shape[1]) <= limit


def test_a_weight_of_one_half_alternates_between_two_halves_and_two_is_twice():
    examples = [example(name, 3 + name % 7, 4) for name in range(22)]
    weights = np.array([0.5] * 12 + [2.0] * 10)
    batches = Batches(examples, batch_tokens=50, seed=3, weights=weights)
    first, second, third = (counts_of_epoch(batches, epoch) for epoch in range(3))
    halves = [{row for row in epoch if row < 12} for epoch in (first, second, third)]
    assert halves[0] | halves[1] == set(range(12))
    assert halves[0] & halves[1] == set()
    assert halves[0] == halves[2]
    assert {first[row] for row in range(12, 22)} == {second[row] for row in range(12, 22)} == {2}


def test_the_examples_of_a_step_depend_on_the_seed_and_the_step_alone():
    examples = [example(name, 3 + name % 5, 4) for name in range(31)]
    weights = np.where(np.arange(31) < 20, 0.3, 1.0)
    iterated = Batches(examples, batch_tokens=40, seed=3, weights=weights)
    steps = [iterated.indices(step).tolist() for step in range(5 * iterated.per_epoch)]
    for step in (0, 3 * iterated.per_epoch + 1, 1):
        assert Batches(examples, batch_tokens=40, seed=3, weights=weights).indices(step).tolist() == steps[step]
    other = Batches(examples, batch_tokens=40, seed=4, weights=weights)
    assert {row for row in counts_of_epoch(other, 0) if row < 20} != {
        row for row in counts_of_epoch(iterated, 0) if row < 20
    }


def test_padding_is_small_although_each_epoch_has_other_examples():
    lengths = np.random.default_rng(5).integers(2, 60, (2_003, 2))
    examples = [example(name, *each) for name, each in enumerate(lengths.tolist())]
    batches = Batches(examples, batch_tokens=600, seed=1, weights=np.full(2_003, 0.1))
    valid = [batches.at(step).valid.float().mean().item() for step in range(2 * batches.per_epoch)]
    assert np.mean(valid) > 0.85


@pytest.mark.parametrize("epoch", [0, 1, 10**6])
def test_many_examples_do_not_overflow(epoch: int):
    sampler = WeightedSampler(np.ones((3_001, 2), np.int32), np.full(3_001, 0.7), seed=1)
    assert len(set(sampler.examples(epoch).tolist())) == round(0.7 * 3_001)
