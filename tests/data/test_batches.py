"""Batches: every example once per epoch, similar lengths, the same for the same seed and step."""

from __future__ import annotations

import tracemalloc
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data import Batch, Batches, Example, collate
from regard.data.batches import BUCKET
from regard.seeding import seed_for
from regard.text import Vocabulary

lengths = st.lists(st.tuples(st.integers(1, 20), st.integers(0, 20)), min_size=1, max_size=60)
limits = st.integers(1, 120)
seeds = st.integers(0, 2**32)


def examples_of(sizes: list[tuple[int, int]]) -> list[Example]:
    """One example for each (source, target) size, identified by its first source token."""
    return [
        Example((10 + index, *[5] * (source - 1), Vocabulary.end), (Vocabulary.begin, *[6] * target, Vocabulary.end))
        for index, (source, target) in enumerate(sizes)
    ]


def names(batch: Batch) -> list[int]:
    return batch.source[:, 0].tolist()


def epoch(batches: Batches, number: int) -> list[Batch]:
    return [batches.at(number * batches.per_epoch + batch_index) for batch_index in range(batches.per_epoch)]


def assert_same_batch(one: Batch, other: Batch) -> bool:
    return all(torch.equal(mine, theirs) for mine, theirs in zip(vars(one).values(), vars(other).values(), strict=True))


@given(sizes=lengths, limit=limits, seed=seeds)
def test_every_example_comes_once_in_every_epoch(sizes: list[tuple[int, int]], limit: int, seed: int):
    batches = Batches(examples_of(sizes), batch_tokens=limit, seed=seed)
    for number in (0, 1, 5):
        seen = Counter(name for batch in epoch(batches, number) for name in names(batch))
        assert seen == Counter(range(10, 10 + len(sizes)))
    assert Counter(name for batch in batches.once() for name in names(batch)) == seen


@given(sizes=lengths, limit=limits, seed=seeds)
def test_a_batch_stays_within_its_limit_unless_it_is_one_sentence(sizes: list[tuple[int, int]], limit: int, seed: int):
    for batch in Batches(examples_of(sizes), batch_tokens=limit, seed=seed).once():
        rows, positions = batch.source.shape
        assert rows == 1 or rows * max(positions, batch.inputs.shape[1]) <= limit


@given(sizes=lengths, limit=limits, seed=seeds)
def test_a_batch_is_filled_as_long_as_the_next_sentence_fits(sizes: list[tuple[int, int]], limit: int, seed: int):
    """All sentences in one bucket: then every batch but the last is full."""
    equal_lengths = [(BUCKET - 1, BUCKET - 2)] * len(sizes)
    rows = max(1, limit // BUCKET)
    counts = [len(batch.source) for batch in Batches(examples_of(equal_lengths), batch_tokens=limit, seed=seed).once()]
    assert sorted(counts, reverse=True)[:-1] == [rows] * (len(counts) - 1)
    assert len(counts) == -(-len(sizes) // rows)


@given(sizes=lengths, limit=limits, seed=seeds, step=st.integers(0, 300))
def test_the_batch_of_a_step_depends_only_on_the_seed_and_the_step(
    sizes: list[tuple[int, int]], limit: int, seed: int, step: int
):
    examples = examples_of(sizes)
    iterated = Batches(examples, batch_tokens=limit, seed=seed)
    for earlier in (*range(0, step, 7), step + 3 * iterated.per_epoch):
        iterated.at(earlier)
    state = torch.get_rng_state()
    torch.rand(3)
    fresh = Batches(examples, batch_tokens=limit, seed=seed)
    assert assert_same_batch(fresh.at(step), iterated.at(step))
    assert fresh.per_epoch == iterated.per_epoch
    torch.set_rng_state(state)


@given(sizes=lengths, limit=limits, seed=seeds)
def test_batches_do_not_change_the_global_random_state(sizes: list[tuple[int, int]], limit: int, seed: int):
    state = torch.get_rng_state()
    list(Batches(examples_of(sizes), batch_tokens=limit, seed=seed).once())
    assert torch.equal(torch.get_rng_state(), state)


@given(sizes=lengths, limit=limits, seed=seeds)
def test_padding_and_shifted_targets_agree(sizes: list[tuple[int, int]], limit: int, seed: int):
    examples = examples_of(sizes)
    for batch in Batches(examples, batch_tokens=limit, seed=seed).once():
        assert batch.inputs.shape == batch.outputs.shape == batch.valid.shape
        assert batch.source.shape == batch.source_valid.shape
        assert batch.source_valid.any(0).all()  # no column is only padding
        assert batch.valid.any(0).all()
        for row, name in enumerate(names(batch)):
            example = examples[name - 10]
            assert batch.source[row][batch.source_valid[row]].tolist() == list(example.source)
            assert batch.inputs[row][batch.valid[row]].tolist() == list(example.target[:-1])
            assert batch.outputs[row][batch.valid[row]].tolist() == list(example.target[1:])
            assert (batch.source[row][~batch.source_valid[row]] == Vocabulary.pad).all()
            assert (batch.outputs[row][~batch.valid[row]] == Vocabulary.pad).all()
            assert batch.valid[row].tolist() == sorted(batch.valid[row].tolist(), reverse=True)


def various(count: int = 100) -> list[Example]:
    return examples_of([(1 + index % 13, index % 7) for index in range(count)])


def test_epochs_and_seeds_differ_in_order_and_in_composition():
    batches = Batches(various(), batch_tokens=60, seed=1)
    first, second = ([names(batch) for batch in epoch(batches, number)] for number in (0, 1))
    other_seed = [names(batch) for batch in Batches(various(), batch_tokens=60, seed=2).once()]
    for other in (second, other_seed):
        assert first != other
        assert {frozenset(batch) for batch in first} != {frozenset(batch) for batch in other}
        # both the batches and the order of their lengths differ
        assert [len(batch) for batch in first] != [len(batch) for batch in other]


def test_short_and_long_batches_are_mixed():
    widths = [batch.source.shape[1] for batch in Batches(various(), batch_tokens=60, seed=1).once()]
    assert widths != sorted(widths)


def test_batches_have_sentences_of_similar_length():
    examples = examples_of([(index % 40 + 1, index % 40) for index in range(400)])
    for batch in Batches(examples, batch_tokens=200, seed=1).once():
        sizes = batch.source_valid.sum(1)
        assert int(sizes.max() - sizes.min()) <= 2 * BUCKET
    real = sum(len(example.source) for example in examples)
    padded = sum(batch.source.numel() for batch in Batches(examples, batch_tokens=200, seed=1).once())
    assert real > 0.85 * padded


def test_one_example_is_a_batch():
    batch = collate([Example((7, 2), (1, 8, 2))])
    assert batch.source.tolist() == [[7, 2]]
    assert batch.inputs.tolist() == [[1, 8]]
    assert batch.outputs.tolist() == [[8, 2]]
    assert batch.valid.tolist() == [[True, True]]


@pytest.mark.parametrize("limit", [1, 7])
def test_a_sentence_longer_than_the_limit_is_a_batch_of_its_own(limit: int):
    batches = Batches(examples_of([(20, 20), (19, 3), (2, 1)]), batch_tokens=limit, seed=1)
    assert [len(batch.source) for batch in batches.once()] == [1, 1, 1]


def test_patches_become_a_tensor_of_pixels_with_empty_patches_as_padding():
    examples = [Example((b"\x01\x02", b"\xff\x00", b"\x00\x00"), (1, 7, 2)), Example((b"\x05\x06",), (1, 2))]
    batch = collate(examples)
    assert batch.source.dtype == torch.uint8
    assert batch.source.tolist() == [[[1, 2], [255, 0], [0, 0]], [[5, 6], [0, 0], [0, 0]]]
    assert batch.source_valid.tolist() == [[True, True, True], [True, False, False]]
    assert batch.inputs.tolist() == [[1, 7], [1, 2]]


def reference_cuts(sizes: list[tuple[int, int]], batch_tokens: int) -> list[int]:
    """Where batches begin and end, one sentence after the other."""
    buckets = [(-(-target // BUCKET), -(-source // BUCKET)) for source, target in sizes]
    cuts, longest = [0], 0
    for index, length in enumerate(max(each) * BUCKET for each in sorted(buckets)):
        longest = max(longest, length)
        if index > cuts[-1] and longest * (index - cuts[-1] + 1) > batch_tokens:
            cuts.append(index)
            longest = length
    return [*cuts, len(sizes)]


def reference_indices(sizes: list[tuple[int, int]], batch_tokens: int, seed: int, step: int) -> list[int]:
    """The examples of a step as the first version of Regard computed them: a run that was started then continues."""
    cuts = reference_cuts(sizes, batch_tokens)
    epoch, turn = divmod(step, len(cuts) - 1)
    lengths = torch.tensor(sizes)
    keys = -(-lengths // BUCKET)
    keys = keys[:, 1] * (keys.max() + 1) + keys[:, 0]
    generator = torch.Generator().manual_seed(seed_for(seed, "order", epoch))
    shuffled = torch.randperm(len(sizes), generator=generator)
    order = shuffled[keys[shuffled].argsort(stable=True)]
    batch = int(torch.randperm(len(cuts) - 1, generator=generator)[turn])
    indices: list[int] = order[cuts[batch] : cuts[batch + 1]].tolist()
    return indices


@given(
    sizes=lengths | st.lists(st.tuples(st.integers(1, 3_000), st.integers(0, 3_000)), min_size=1, max_size=9),
    limit=st.integers(1, 5_000),
    seed=seeds,
    step=st.integers(0, 300),
)
def test_batches_are_those_of_the_reference(sizes: list[tuple[int, int]], limit: int, seed: int, step: int):
    """Cuts are computed for all sentences of a length at once; longer texts have larger sort keys."""
    examples = examples_of(sizes)
    sizes = [(len(example.source), len(example.target)) for example in examples]
    batches = Batches(examples, batch_tokens=limit, seed=seed)
    assert batches.per_epoch == len(reference_cuts(sizes, limit)) - 1
    assert batches.indices(step).tolist() == reference_indices(sizes, limit, seed, step)


@pytest.mark.parametrize("longest", [1_016, 1_020, 1_024, 262_000, 270_000])
def test_sort_keys_have_enough_bits(monkeypatch: pytest.MonkeyPatch, longest: int):
    """Of 2 bytes each for texts of up to 1,019 tokens."""
    sizes = [(longest, 3), (3, longest), (longest, longest), (2, 2), (3, longest // 2)]
    monkeypatch.setattr("regard.data.batches.example_lengths", lambda examples: np.array(sizes, np.int32))
    batches = Batches(range(len(sizes)), batch_tokens=1, seed=7)  # type: ignore[arg-type]
    for step in range(len(sizes)):
        assert batches.indices(step).tolist() == reference_indices(sizes, 1, 7, step)


def test_memory_for_each_example_is_bounded(monkeypatch: pytest.MonkeyPatch):
    """Without it, and for shuffling, in bytes; PyTorch's own memory (4 bytes for each example) is not traced."""
    count = 100_003
    lengths = np.random.default_rng(1).integers(2, 100, (count, 2), dtype=np.int32)
    monkeypatch.setattr("regard.data.batches.example_lengths", lambda examples: lengths)
    tracemalloc.start()
    try:
        batches = Batches(range(count), batch_tokens=4_000, seed=1)  # type: ignore[arg-type]
        kept, most = (each / count for each in tracemalloc.get_traced_memory())
        assert kept < 3
        assert most < 30
        tracemalloc.reset_peak()
        batches.indices(0)
        batches.indices(batches.per_epoch)
        kept, most = (each / count for each in tracemalloc.get_traced_memory())
        assert kept < 7
        assert most < 40
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("device", "pinned", "options"),
    [("cuda:1", True, {"non_blocking": True}), ("mps", False, {}), ("cpu", False, {})],
)
def test_a_batch_is_copied_from_pinned_memory_to_cuda_without_waiting(
    monkeypatch: pytest.MonkeyPatch, device: str, pinned: bool, options: dict[str, bool]
):
    calls: list[object] = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: calls.append("pin") or tensor)
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, *where, **how: calls.append((where, how)) or tensor)
    collate([Example((4,), (1, 3))]).to(device)
    copied: list[object] = [*(["pin"] if pinned else []), ((device,), options)]
    assert calls == copied * 5  # the tensors of a batch
