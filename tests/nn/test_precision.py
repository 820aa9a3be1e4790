"""Every kind of model computes in bfloat16 and float16, near what it computes in float32."""

from __future__ import annotations

from copy import deepcopy
from itertools import chain
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from regard import nn
from regard.config.schema import ModelSection
from regard.devices import Precision, autocast
from regard.nn.attention_history import AttentionHistory
from regard.nn.normalizers import NORMALIZERS
from regard.search import Beam, Ensemble, SearchBatch
from regard.search import search as run_search

STEPS, WIDTH = 7, 3


def tolerance(section: ModelSection) -> float:
    """The largest change of a log-probability: bfloat16 has 8 bits.

    Rounding may move a choice of one position to another one, which changes more.
    """
    attention = section.attention
    is_hard = getattr(attention, "normalizer", "") == "hard" or attention.kind in ("local", "monotonic")
    return 0.3 if is_hard else 0.05


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
def test_a_model_of_any_kind_scores_and_searches(any_model: Any, batch: Any, precision: torch.dtype):
    model = deepcopy(any_model.model).to(precision)
    scores = [torch.tensor([*chain.from_iterable(Ensemble([each]).score(batch))]) for each in (any_model.model, model)]
    assert (scores[0] - scores[1]).abs().max() < tolerance(any_model.section)
    attention = any_model.section.attention
    count = len(batch.source)
    limits = torch.full((count,), STEPS)
    searched = SearchBatch(batch.source, batch.source_valid, batch.inputs[:, 0], limits, n_best=WIDTH)
    for hypotheses in run_search(Ensemble([model]), searched, Beam(WIDTH)).hypotheses():
        assert len(hypotheses) == WIDTH
        for each in hypotheses:
            assert torch.tensor(each.log_probabilities).isfinite().all()
            assert each.attention.dtype == torch.float32
            if attention.kind not in ("none", "aligned"):
                assert torch.allclose(each.attention.sum(-1), torch.ones(()), atol=1e-5)


@pytest.mark.parametrize("sampled", [False, True])
def test_a_model_of_any_kind_trains_in_bfloat16(any_model: Any, batch: Any, sampled: bool):
    losses = []
    precisions: tuple[Precision, ...] = ("float32", "bfloat16")
    for precision in precisions:
        model = deepcopy(any_model.model)
        with autocast(torch.device("cpu"), precision):
            mask = batch.valid if sampled else None
            logits = model(batch.source, batch.source_valid, batch.inputs, batch.valid, mask)
        loss = cross_entropy(logits.float(), batch.outputs[batch.valid])
        loss.backward()
        gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
        assert all(each.dtype == torch.float32 and each.isfinite().all() for each in gradients)
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], abs=tolerance(any_model.section))


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_weights_of_many_positions_sum_to_1_in_bfloat16(normalizer: Any):
    generator = torch.Generator().manual_seed(5)
    scores = torch.randn(3, 1, 401, generator=generator).bfloat16()
    memory = nn.Memory(scores, torch.randn(3, 401, 7, generator=generator).bfloat16(), torch.ones(3, 1, 401) > 0)
    context, weights = nn.attend(scores, memory, normalizer)
    assert (context.dtype, weights.dtype) == (torch.bfloat16, torch.float32)
    assert torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-5)


def test_coverage_is_summed_in_float32_and_seen_in_the_type_of_the_query():
    weights = torch.full((1, 1, 5), 1 / 3)
    history = AttentionHistory()
    for _ in range(600):  # in bfloat16, 128 + 1/3 is 128
        history = history.extend(weights)
    seen = history.of_queries(1, 1, torch.bfloat16).coverage
    assert seen is not None
    assert seen.dtype == torch.bfloat16
    assert seen.float().tolist() == [[[200.0] * 5]]


def test_weights_of_all_types_are_summed_in_float32():
    history = AttentionHistory().extend(torch.full((1, 600, 5), 1 / 4, dtype=torch.bfloat16))
    for _ in range(600):  # in bfloat16, 64 + 1/4 is 64
        history = history.extend(torch.full((1, 1, 5), 1 / 4, dtype=torch.bfloat16))
    assert history.coverage is not None
    assert history.coverage.tolist() == [[300.0] * 5]


def test_last_attention_finds_the_last_of_more_positions_than_bfloat16_can_count():
    attention = nn.LastAttention(3, 3).to(torch.bfloat16)
    memory = attention.prepare(torch.zeros(1, 301, 3, dtype=torch.bfloat16), torch.ones(1, 301) > 0)
    _, weights = attention(torch.zeros(1, 1, 3, dtype=torch.bfloat16), memory)
    assert int(weights.argmax()) == 300


@pytest.mark.parametrize("last", [257, 600, 1023])
def test_local_attention_has_the_center_of_more_positions_than_bfloat16_can_count(last: int):
    attention = nn.LocalAttention(3, 3, center="predictive", window=3)
    query, states, valid = torch.zeros(1, 1, 3), torch.zeros(1, last + 1, 3), torch.ones(1, last + 1) > 0
    _, expected = attention(query, attention.prepare(states, valid))  # around (S − 1)/2
    attention, query, states = attention.to(torch.bfloat16), query.bfloat16(), states.bfloat16()
    _, weights = attention(query, attention.prepare(states, valid))
    assert weights.nonzero().tolist() == expected.nonzero().tolist()
    torch.testing.assert_close(weights, expected)


def test_alibi_distinguishes_more_distances_than_bfloat16_can_count():
    scores = nn.AlibiPositions(3).add_bias(torch.zeros(1, 1, 1, 1024, dtype=torch.bfloat16))
    assert scores.flatten().tolist() == [-(1023 - position) / 256 for position in range(1024)]


@pytest.mark.parametrize("converted", [False, True], ids=["autocast", "bfloat16"])
def test_stopping_probabilities_of_many_positions_and_steps_sum_to_1(converted: bool):
    torch.manual_seed(5)
    dtype = torch.bfloat16 if converted else torch.float32
    attention = nn.MonotonicAttention(7, 11, key_size=13).train().to(dtype)
    query, states = torch.randn(3, 20, 7, dtype=dtype), torch.randn(3, 200, 11, dtype=dtype)
    valid = torch.arange(200) < torch.tensor([[200], [150], [7]])
    with torch.autocast("cpu", torch.bfloat16, enabled=not converted):
        context, weights = attention(query, attention.prepare(states, valid))
    assert (context.dtype, weights.dtype) == (torch.bfloat16, torch.float32)
    assert torch.allclose(weights.sum(-1), torch.ones(()), rtol=0, atol=1e-5)


def test_the_state_of_an_ssru_is_summed_in_float32_under_autocast():
    """With f close to 1, an update is smaller than the difference of two neighboring numbers in bfloat16."""
    torch.manual_seed(5)
    layers = nn.SSRU(7, 7)
    with torch.no_grad():
        layers.stack[0].forget_layer.bias.fill_(6.0)
    inputs, start = torch.rand(3, 400, 7) + 1, torch.zeros(1, 3, 7)
    _, (expected,) = layers(inputs, (start,))
    with torch.autocast("cpu", torch.bfloat16):
        _, (state,) = layers(inputs, (start.bfloat16(),))  # as a linear layer returns it
    assert state.dtype == torch.float32
    assert torch.allclose(state, expected, rtol=0, atol=0.03)
