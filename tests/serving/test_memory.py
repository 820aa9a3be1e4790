"""The estimated memory of a request, compared with the sizes of the tensors that exist."""

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
from regard.serving.jobs import ScoreJob, TranslateJob
from regard.serving.memory import FLOAT_BYTES
from regard.serving.registry import ServedRun, open_runs

KINDS = {
    "dot": (),
    "additive": ("model.attention.kind=additive", "model.attention.key_size=11"),
    "heads": ("model.attention.kind=multi-head", "model.attention.heads=4"),
    "values": ("model.attention.kind=scaled-dot", "model.attention.key_size=13", "model.attention.value_size=173"),
    "ssru": ("model.encoder.cell=ssru", "model.decoder.cell=ssru"),
    "plain": ("model.encoder.kind=plain-attention", "model.encoder.size=16"),
    "transformer": (
        *("model.encoder.kind=self-attention", "model.encoder.heads=2"),
        *("model.decoder.kind=transformer", "model.decoder.layers=3", "model.decoder.heads=8"),
        *("model.attention.kind=multi-head", "model.attention.heads=4"),
    ),
}


@pytest.fixture(params=KINDS)
def run(request: pytest.FixtureRequest, trained_brief: Callable[..., Path]) -> ServedRun:
    (run,) = open_runs([trained_brief(*KINDS[request.param])])
    return run


def test_cross_attention_maps_match_the_attention_of_a_translation(run: ServedRun):
    (translation,) = run.translator.translate(["abcde"])
    cells = len(translation.tokens) * len(translation.source_tokens)
    assert translation.attention.numel() == run.memory.cross_attention_maps * cells


def test_a_number_of_the_state_has_at_most_the_estimated_bytes(trained_brief: Callable[..., Path]):
    (run,) = open_runs([trained_brief(*KINDS["transformer"])], device="cpu", precision="bfloat16")
    source, valid = pad([run.translator.encode("abcde").ids])
    with torch.inference_mode():
        start = run.translator.ensemble.start(source, valid)
        log_probs, state = run.translator.ensemble.step(torch.tensor([5]), start)
    (own,) = state.members
    tensors = [log_probs.logits, own.weights, *(part for memory in own.past for part in (memory.keys, memory.values))]
    assert {tensor.element_size() for tensor in tensors} == {2, FLOAT_BYTES}


def test_the_cache_grows_by_the_estimated_size_with_each_step(run: ServedRun):
    source, valid = pad([run.translator.encode("abcde").ids])
    decoder = run.translator.model.decoder
    with torch.inference_mode():
        state = run.translator.model.start(source, valid)
        sizes = []
        for _ in range(4):
            _, state = decoder.step(torch.tensor([5]), state)
            past = getattr(state, "past", ())
            sizes.append(sum(memory.keys.numel() + memory.values.numel() for memory in past))
    assert [later - earlier for earlier, later in pairwise(sizes)] == [run.memory.cache_per_step] * 3


def test_score_sizes_follow_from_the_kind_of_attention(trained_brief: Callable[..., Path]):
    sizes = {}
    for kind, settings in KINDS.items():
        (run,) = open_runs([trained_brief(*settings)])
        memory = run.memory
        sizes[kind] = (memory.cross_score_size, memory.encoder_heads, memory.decoder_heads)
    assert sizes == {
        "dot": (1, 0, 0),
        "additive": (11, 0, 0),
        "heads": (4, 0, 0),
        "values": (1, 0, 0),
        "ssru": (1, 0, 0),
        "plain": (1, 1, 0),
        "transformer": (4, 2, 8),
    }


def test_keys_and_values_of_the_source_have_the_estimated_size(run: ServedRun):
    encoding = run.translator.model.encoder(*pad([run.translator.encode("abcde").ids]))
    sizes = []
    for attention in run.translator.model.decoder.source_attentions:
        memory = attention.prepare(encoding.states, encoding.valid)
        projected = [part for part in (memory.keys, memory.values) if part is not encoding.states]
        sizes += [part.numel() // encoding.states.shape[1] for part in projected]
    assert sum(sizes) == run.memory.projected_size


def test_self_attention_maps_match_those_of_a_translation(run: ServedRun):
    (translation,) = run.translator.translate(["abcde"], self_attention=True)
    recorded = (translation.encoder_attention, translation.decoder_attention)
    sizes = (len(translation.source_tokens), len(translation.tokens))
    for attention, size, maps in zip(recorded, sizes, (run.memory.encoder_maps, run.memory.decoder_maps), strict=True):
        assert (0 if attention is None else attention.weights.numel()) == maps * size**2


def test_self_attention_is_counted_if_it_is_returned(run: ServedRun):
    memory, size = run.memory, RequestSize(items=3, source=100, target=200)
    search = SearchOptions(beam=5, n_best=5)
    added = 1e6 * (
        TranslateJob(run, search, self_attention=True).megabytes(size) - TranslateJob(run, search).megabytes(size)
    )
    json_size = 10 * (3 * 100**2 * memory.encoder_maps + 15 * 200**2 * memory.decoder_maps)
    tensors = 4 * 15 * (100**2 * memory.encoder_maps + 200**2 * memory.decoder_maps)
    assert added + 1 >= json_size + tensors + memory.teacher_forcing_bytes(15, 100, 200)


def test_larger_requests_need_more_memory(run: ServedRun):
    small = RequestSize(items=3, source=10, target=20)
    for job in (TranslateJob(run, SearchOptions(beam=2)), ScoreJob(run)):
        least = job.megabytes(small)
        for more in ({"items": 4}, {"source": 11}, {"target": 21}):
            assert job.megabytes(replace(small, **more)) > least > 0, more
    least = TranslateJob(run, SearchOptions(beam=2)).megabytes(small)
    for more in ({"attention": True}, {"self_attention": True}, {"alternatives": 1}, {"tree": True}):
        assert TranslateJob(run, SearchOptions(beam=2), **more).megabytes(small) > least, more
    assert TranslateJob(run, SearchOptions(beam=3)).megabytes(small) > least
    assert TranslateJob(run, SearchOptions(beam=2, n_best=2)).megabytes(small) > least


def test_search_memory_counts_one_batch_at_a_time(run: ServedRun):
    large = RequestSize(items=1_000, source=10, target=20)
    search = run.memory.search_bytes(run.translator.batch_size(50), 50, 10, 20)
    response = run.memory.response_bytes(1_000, 10, 20, attention=False, alternatives=0)
    assert TranslateJob(run, SearchOptions(beam=50)).megabytes(large) == pytest.approx((search + response) / 1e6)


def test_the_estimate_is_at_least_the_size_of_the_tensors(run: ServedRun):
    memory, texts, width, source, target = run.memory, 3, 5, 700, 1100
    history = texts * width * target * (source * memory.cross_attention_maps + memory.cache_per_step)
    assert memory.search_bytes(texts, width, source, target) >= 4 * history
    assert memory.teacher_forcing_bytes(texts, source, target) >= 4 * texts * target * (
        memory.vocabulary_size + source * memory.cross_score_size
    )
    assert memory.encoder_bytes(texts, source) >= 4 * texts * source**2 * memory.encoder_heads
    response = memory.response_bytes(texts, source, target, attention=True, alternatives=0)
    json_size = 10 * texts * target * source * memory.cross_attention_maps
    assert response >= json_size, "about ten characters of JSON for each weight"
