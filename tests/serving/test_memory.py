"""How much memory a model is reckoned to take, against what is really there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from regard.data import pad
from regard.search import SearchOptions
from regard.serving.batch_queue import RequestSize
from regard.serving.jobs import Scoring, Translating
from regard.serving.memory import Footprint
from regard.serving.registry import ServedRun, open_runs

KINDS = {
    "dot": (),
    "additive": ("model.attention.kind=additive", "model.attention.key_size=11"),
    "heads": ("model.attention.kind=multi-head", "model.attention.heads=4"),
    "transformer": (
        *("model.encoder.kind=self-attention", "model.encoder.heads=2"),
        *("model.decoder.kind=transformer", "model.decoder.layers=3", "model.decoder.heads=8"),
        *("model.attention.kind=multi-head", "model.attention.heads=4"),
    ),
}


@pytest.fixture(params=KINDS)
def run(request: pytest.FixtureRequest, trained_brief: Callable[..., Path]) -> ServedRun:
    (served,) = open_runs([trained_brief(*KINDS[request.param])])
    return served


def test_maps_are_as_many_as_a_translation_has(run: ServedRun):
    (translation,) = run.translator.translate(["abcde"])
    cells = len(translation.tokens) * len(translation.source_tokens)
    assert translation.attention.numel() == run.memory.maps * cells


def test_a_state_grows_by_so_much_with_each_step(run: ServedRun):
    source, valid = pad([run.translator.check("abcde")])
    decoder = run.translator.model.decoder
    with torch.inference_mode():
        state = run.translator.model.start(source, valid)
        sizes = []
        for _ in range(4):
            _, state = decoder.step(torch.tensor([5]), state)
            past = getattr(state, "past", ())
            sizes.append(sum(memory.keys.numel() + memory.values.numel() for memory in past))
    assert [later - sooner for sooner, later in pairwise(sizes)] == [run.memory.growth] * 3


def test_pairs_are_counted_where_they_are_compared(trained_brief: Callable[..., Path]):
    sizes = {}
    for kind, settings in KINDS.items():
        (run,) = open_runs([trained_brief(*settings)])
        memory = run.memory
        sizes[kind] = (memory.pair_size, memory.encoder_pair_size, memory.decoder_pair_size)
    assert sizes == {"dot": (1, 0, 0), "additive": (11, 0, 0), "heads": (4, 0, 0), "transformer": (4, 2, 8)}


def test_more_of_anything_takes_more(run: ServedRun):
    few = RequestSize(items=3, source=10, target=20)
    for work in (Translating(run, SearchOptions(beam=2)), Scoring(run)):
        least = work.megabytes(few)
        for more in ({"items": 4}, {"source": 11}, {"target": 21}):
            assert work.megabytes(replace(few, **more)) > least > 0, more
    least = Translating(run, SearchOptions(beam=2)).megabytes(few)
    for more in ({"attention": True}, {"alternatives": 1}, {"tree": True}):
        assert Translating(run, SearchOptions(beam=2), **more).megabytes(few) > least, more
    assert Translating(run, SearchOptions(beam=3)).megabytes(few) > least
    assert Translating(run, SearchOptions(beam=2, n_best=2)).megabytes(few) > least


def test_what_is_searched_in_turns_does_not_add_up(run: ServedRun):
    many = RequestSize(items=1_000, source=10, target=20)
    at_once = run.translator.at_once(50)
    searched = run.memory.searching(at_once, 50, 10, 20)
    told = Footprint.telling(run.memory, 1_000, 10, 20, attention=False, alternatives=0)
    assert Translating(run, SearchOptions(beam=50)).megabytes(many) == pytest.approx((searched + told) / 1e6)


def test_what_must_be_held_is_counted(run: ServedRun):
    memory, texts, width, source, target = run.memory, 3, 5, 700, 1100
    looks = texts * width * target * (source * memory.maps + memory.growth)
    assert memory.searching(texts, width, source, target) >= 4 * looks
    assert memory.unrolling(texts, source, target) >= 4 * texts * target * (
        memory.vocabulary + source * memory.pair_size
    )
    assert memory.reading(texts, source) >= 4 * texts * source**2 * memory.encoder_pair_size
    told = memory.telling(texts, source, target, attention=True, alternatives=0)
    assert told >= 10 * texts * target * source * memory.maps, "about ten characters of JSON a weight"
