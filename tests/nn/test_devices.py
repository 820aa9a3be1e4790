"""Every combination of encoder, decoder and mechanism computes on a device what it computes on the CPU.

The device is a pretend one (`tests/pretend_device.py`), which refuses tensors of different devices, and float64.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import astuple
from itertools import chain
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from pretend_device import CPU, DEVICE, PretendDevice, RefusedError
from regard.config.schema import Experiment
from regard.data import Batch
from regard.evaluation.losses import compute_ensemble_losses, compute_losses
from regard.nn import Seq2Seq, record_self_attention
from regard.nn.recurrent_layers import TorchRecurrentLayers
from regard.search import Beam, Constraints, Ensemble, Sampling, SearchBatch, search
from regard.training.trainer import Trainer

CLOSE = {"rel": 1e-4, "abs": 1e-5}
ROUGH = {"rel": 0.1}  # rounding may decide between two tokens that are equally probable
BRIEF = ("data.max_length=3", "data.train=12", "data.validation=3", "training.batch_tokens=40")
SELECTORS = {
    "greedy": (Beam(1), Constraints()),
    "beam": (Beam(3), Constraints(min_length=2, block_ngrams=2, repetition_penalty=1.2)),
    "sampling": (Sampling(torch.rand(3, 2, 6, generator=torch.Generator().manual_seed(1)), 1.3, 5, 0.9), Constraints()),
}


def train(trainer: Trainer) -> list[float]:
    """The losses and gradient norms of two steps, and the validation losses after them."""
    for _ in range(2):
        trainer.step()
    pending = [losses_and_norm for *_, losses_and_norm in trainer.losses.rows]
    trainer.validate()
    (row,) = trainer.run_directory.metrics()
    return [*(float(each) for pair in pending for each in pair), row["train_loss"], row["validation_loss"]]


@pytest.mark.parametrize("ratio", [1, 0.5])
def test_training(
    any_model: Any, tiny: Callable[..., Experiment], new_trainer: Callable[..., Trainer], ratio: float
) -> None:
    settings = tiny(*BRIEF, f"training.teacher_forcing.ratio={ratio}", "training.label_smoothing=0.1")
    model = any_model.section.model_copy(update={"dropout": 0.0})  # a device draws other numbers
    experiment = settings.model_copy(update={"model": model})
    on_cpu = new_trainer(experiment, name="cpu")
    on_cpu.losses.interval = 50  # as on a GPU
    expected = train(on_cpu)
    with PretendDevice():
        found = train(new_trainer(experiment, device=DEVICE, name="device"))
        assert found == pytest.approx(expected, **(CLOSE if ratio == 1 else ROUGH))


def score(model: Seq2Seq, batch: Batch) -> list[float]:
    """Numbers of every kind that are computed from given targets."""
    losses = [compute_losses(model, [batch], teacher=teacher) for teacher in (True, False)]
    ensemble = Ensemble([model, model])
    top = ensemble.top_tokens(batch, 3, (0, 1))
    maps = record_self_attention(model, batch.source, batch.source_valid, batch.inputs, batch.valid)
    return [
        *(number for each in losses for number in astuple(each)),
        *astuple(compute_ensemble_losses(ensemble, [batch])),
        *(number for row in ensemble.score(batch) for number in row),
        *(number for row in top for tokens in row for _, number in tokens),
        *(float(part.square().sum()) for each in maps for part in astuple(each) if part is not None),
    ]


def test_scoring(any_model: Any, batch: Batch) -> None:
    expected = score(any_model.model, batch)
    with PretendDevice():
        model = copy.deepcopy(any_model.model).to(DEVICE)
        assert score(model, batch.to(DEVICE)) == pytest.approx(expected, **CLOSE)


def run_searches(model: Seq2Seq, batch: Batch, device: torch.device) -> list[float]:
    """The log-probabilities, attention weights and tokens that each search finds."""
    numbers: list[float] = []
    for selector, constraints in SELECTORS.values():
        start, max_lengths = torch.tensor([1, 4, 5]), torch.tensor([4, 2, 5])
        searched = SearchBatch(batch.source, batch.source_valid, start, max_lengths, constraints, 2, 0.6).to(device)
        for hypothesis in chain(*search(Ensemble([model]), searched, selector).hypotheses()):
            assert hypothesis.attention.device == CPU
            numbers += [*hypothesis.tokens, *hypothesis.log_probabilities, float(hypothesis.attention.square().sum())]
    return numbers


def test_search(any_model: Any, batch: Batch) -> None:
    expected = run_searches(any_model.model, batch, CPU)
    with PretendDevice():
        model = copy.deepcopy(any_model.model).to(DEVICE)
        assert run_searches(model, batch, DEVICE) == pytest.approx(expected, **CLOSE)


@pytest.mark.parametrize("sampled", [False, True])
def test_shapes_on_the_meta_device(
    any_model: Any, batch: Batch, monkeypatch: pytest.MonkeyPatch, sampled: bool
) -> None:
    """A training step without numbers, on PyTorch's own second device. It cannot pack rows, so it runs all steps."""
    monkeypatch.setattr(
        TorchRecurrentLayers, "run_packed", lambda self, inputs, state, lengths: self.run(inputs, state)
    )
    model = copy.deepcopy(any_model.model).to("meta").train()
    valid = tuple(index.to("meta") for index in batch.valid.nonzero(as_tuple=True))
    batch = batch.to("meta")
    logits = model(batch.source, batch.source_valid, batch.inputs, valid, batch.valid if sampled else None)
    cross_entropy(logits, batch.outputs[valid], label_smoothing=0.1).backward()
    clip_grad_norm_(model.parameters(), 1.0)
    torch.optim.Adam(model.parameters()).step()
    assert all(each.device.type == "meta" for each in (logits, *model.parameters()))


# Mistakes are noticed


class WithoutDevice(torch.nn.Module):
    """Adds positions that are always on the CPU."""

    def forward(self, vectors: Tensor) -> Tensor:
        return vectors + torch.arange(vectors.shape[1]).unsqueeze(-1)


def test_a_tensor_without_a_device_is_an_error(pretend_device: PretendDevice) -> None:
    with pytest.raises(RefusedError, match=r"aten.add.Tensor on .*'lazy'.*'cpu'"):
        WithoutDevice()(torch.ones(2, 3, 5, device=DEVICE))


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda x: x.double(), "float64"),
        (lambda x: torch.zeros(3, dtype=torch.float64, device=DEVICE), "float64"),
        (lambda x: torch.rand(3, device=DEVICE, generator=torch.Generator()), "generator"),
        (lambda x: torch.randint(-(2**63), 2**63 - 1, (3,), device=DEVICE), "32 bits"),
        (lambda x: x[torch.tensor([1, 0])], "index"),
        (lambda x: torch.where(x > 0, x, torch.zeros(3)), "where"),
        (lambda x: x.sum().backward() or x.grad.add_(torch.ones(3)), "add_"),
    ],
)
def test_what_a_gpu_refuses_is_an_error(
    pretend_device: PretendDevice, mistake: Callable[[Tensor], object], message: str
) -> None:
    with pytest.raises(RefusedError, match=message):
        mistake(torch.ones(3, device=DEVICE, requires_grad=True))


@pytest.mark.parametrize(
    ("operation", "waits"),
    [
        (lambda x: x.sum().item(), 1),
        (lambda x: x.tolist(), 1),
        (lambda x: x.cpu(), 1),
        (lambda x: bool((x > 0).all()), 1),
        (lambda x: x.nonzero(), 1),
        (lambda x: x[x > 0], 1),
        (lambda x: torch.tensor([1, 2]).to(DEVICE), 1),
        (lambda x: torch.tensor([1, 2]).to(DEVICE, non_blocking=True), 0),
        (lambda x: x.masked_fill(x > 0, 1).cumsum(0).softmax(0).sort(), 0),
    ],
)
def test_what_waits_for_a_gpu_is_recorded(
    pretend_device: PretendDevice, operation: Callable[[Tensor], object], waits: int
) -> None:
    operation(torch.ones(3, device=DEVICE))
    assert len(pretend_device.waits) == waits
