"""The gradient at the weights, compared with one backward pass of the training loss."""

from __future__ import annotations

import math
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from regard.config.schema import ModelSection
from regard.data import Example, collate
from regard.laboratory import weight_gradients as module
from regard.laboratory.weight_gradients import weight_gradients
from regard.nn import Seq2Seq
from regard.nn.build import build_model

EXAMPLES = [
    Example((5, 7, 11, 4, 2), (1, 4, 6, 2)),
    Example((9, 2), (1, 13, 5, 8, 2)),
    Example((6, 10, 2), (1, 2)),
]


def build(**decoder: Any) -> Seq2Seq:
    section = {
        "encoder": {"cell": "gru", "embedding": 3, "size": 5, "bidirectional": True},
        "decoder": {"cell": "gru", "embedding": 7, "size": 11, **decoder},
        "attention": {"kind": "none"} if decoder.get("start") == "zeros" else {"kind": "additive", "key_size": 13},
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return build_model(ModelSection.model_validate(section), 17, 19)


def test_the_gradient_is_that_of_the_mean_loss_per_token(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build().double()
    batch = collate(EXAMPLES)
    logits = model(batch.source, batch.source_valid, batch.inputs, batch.valid)
    cross_entropy(logits, batch.outputs[batch.valid]).backward()  # the loss of a training step
    squares: dict[str, float] = {}
    for name, weight in model.named_parameters():
        part = ".".join(name.split(".")[:2])
        assert weight.grad is not None
        squares[part] = squares.get(part, 0) + float(weight.grad.square().sum())
    monkeypatch.setattr(module, "BATCH_SIZE", 2)
    done: list[int] = []
    found = weight_gradients(build(), build(), EXAMPLES, done.append)
    assert done == [2, 1]
    assert [row.part for row in found] == [
        "encoder.embedding",
        "encoder.cell",
        "decoder.embedding",
        "decoder.attention",
        "decoder.cell",
        "decoder.first_state",
        "decoder.readout",
    ]
    assert {row.part: row.gradient for row in found} == pytest.approx({p: math.sqrt(s) for p, s in squares.items()})


def test_sizes_norms_and_the_change_since_initialization() -> None:
    initial = build()
    model = deepcopy(initial)
    with torch.no_grad():
        for weight in model.decoder.readout.parameters():
            weight.zero_()
            weight.view(-1)[0] = 3.0
        for weight in initial.decoder.readout.parameters():
            weight.zero_()
            weight.view(-1)[1] = 4.0
    found = {row.part: row for row in weight_gradients(model, initial, EXAMPLES)}
    readout = found.pop("decoder.readout")
    assert (readout.tensors, readout.elements) == (2, 19 * (11 + 10) + 19)
    assert (readout.norm, readout.change) == pytest.approx((math.sqrt(2) * 3, math.sqrt(2) * 5))
    assert found["encoder.embedding"].elements == 17 * 3
    assert {row.change for row in found.values()} == {0}
    assert all(weight.grad is None for weight in model.parameters()), "the model itself is not changed"


def test_weights_without_a_path_to_the_loss_have_no_gradient() -> None:
    model = build(start="zeros")
    gradients = {row.part: row.gradient for row in weight_gradients(model, model, EXAMPLES)}
    assert gradients["encoder.embedding"] == gradients["encoder.cell"] == 0
    assert gradients["decoder.cell"] > 0
