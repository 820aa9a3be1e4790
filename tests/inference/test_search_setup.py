"""The batch and the selector of a search."""

from __future__ import annotations

import pytest
import torch

from regard.config.schema import DecodingSection
from regard.data import EncodedSource
from regard.inference.search_setup import make_selector, search_batch
from regard.search import Constraints, Sampling, SearchOptions
from regard.text import Vocabulary

SAMPLE = SearchOptions(sample=True, n_best=2, seed=7)


def encode(text: str) -> EncodedSource:
    ids = (*range(4, 4 + len(text)), Vocabulary.end)
    return EncodedSource(text, ids, (*text, "<end>"), Vocabulary.begin)


def random_numbers(*texts: str, search: SearchOptions = SAMPLE) -> torch.Tensor:
    """[texts, hypotheses, steps]."""
    sources, limits = [encode(text) for text in texts], DecodingSection()
    batch = search_batch(sources, search, Constraints(), length_penalty=0, limits=limits, max_target_length=None)
    selector = make_selector(search, sources, batch)
    assert isinstance(selector, Sampling)
    return selector.random_numbers


def test_every_text_hypothesis_and_seed_has_its_own_random_numbers() -> None:
    one, two = random_numbers("ab", "cd")
    (other_seed,) = random_numbers("ab", search=SAMPLE.model_copy(update={"seed": 8}))
    drawn = [*one, *two, *other_seed]
    assert len({tuple(row.tolist()) for row in drawn}) == len(drawn)


def test_the_random_numbers_of_a_text_do_not_depend_on_the_batch() -> None:
    (alone,) = random_numbers("ab")
    _, longer, same = random_numbers("c", "defgh", "ab")
    assert torch.equal(same[:, : alone.shape[1]], alone)
    assert longer.shape[1] > alone.shape[1]


def test_random_numbers_are_those_of_earlier_versions() -> None:
    """The same seed samples the same outputs as in Regard 0.5.0."""
    assert random_numbers("ab")[0, :, 0].tolist() == pytest.approx([0.574488, 0.992788], rel=1e-5)
