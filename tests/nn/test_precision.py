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


def test_last_attention_finds_the_last_of_more_positions_than_bfloat16_can_count():
    attention = nn.LastAttention(3, 3).to(torch.bfloat16)
    memory = attention.prepare(torch.zeros(1, 301, 3, dtype=torch.bfloat16), torch.ones(1, 301) > 0)
    _, weights = attention(torch.zeros(1, 1, 3, dtype=torch.bfloat16), memory)
    assert int(weights.argmax()) == 300
