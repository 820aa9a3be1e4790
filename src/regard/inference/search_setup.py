"""What a search needs: the batch of its sources, the rule that selects extensions, and batches of similar length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch

from regard.config.schema import DecodingSection
from regard.data import EncodedSource, pad
from regard.search import Beam, Constraints, Sampling, SearchBatch, SearchOptions, Selector
from regard.seeding import seed_for


def search_batch(
    sources: Sequence[EncodedSource],
    search: SearchOptions,
    constraints: Constraints,
    *,
    length_penalty: float,
    limits: DecodingSection,
    max_target_length: int | None,
) -> SearchBatch:
    """The sources of one search, on the CPU.

    Args:
        sources: Encoded texts, none of them empty.
        search: How to search.
        constraints: Which tokens may be chosen.
        length_penalty: α, by which hypotheses are ranked.
        limits: The length limits of outputs.
        max_target_length: The longest target that the models can decode; None if there is no limit.
    """
    ids, valid = pad([source.ids for source in sources])
    start = torch.tensor([source.start for source in sources], device=ids.device)
    max_lengths = len(constraints.prefix) + (valid.sum(1) * limits.length_factor).long() + limits.length_extra
    max_lengths = max_lengths.clamp(min=constraints.min_length + 1, max=max_target_length)
    # Several hypotheses may have the same text, so the search returns more than are wanted.
    n_best = 1 if search.n_best == 1 else max(search.n_best, search.beam)
    return SearchBatch(ids, valid, start, max_lengths, constraints, n_best, length_penalty)


def make_selector(search: SearchOptions, sources: Sequence[EncodedSource], batch: SearchBatch) -> Selector:
    """Beam search, or sampling with the random numbers of each text.

    Args:
        search: How to search.
        sources: Encoded texts.
        batch: The batch of these texts.
    """
    if not search.sample:
        return Beam(search.beam)
    max_lengths = batch.max_lengths.tolist()
    random_numbers = torch.zeros(len(sources), search.n_best, max(max_lengths), device="cpu")
    for row, source, length in zip(random_numbers, sources, max_lengths, strict=True):
        # Each text has its own random numbers: its samples do not depend on the rest of the batch.
        generator = torch.Generator(device="cpu").manual_seed(seed_for(search.seed, "sample", source.text))
        row[:, :length] = torch.rand(search.n_best, length, generator=generator, device="cpu")
    return Sampling(random_numbers, search.temperature, search.top_k, search.top_p)


def similar_lengths(lengths: Mapping[int, int], size: int) -> Iterator[list[int]]:
    """The keys of `lengths`, in batches of similar lengths.

    Args:
        lengths: The length of each item.
        size: Items in a batch.
    """
    by_length = sorted(lengths, key=lambda key: lengths[key])
    return (by_length[begin : begin + size] for begin in range(0, len(by_length), size))
