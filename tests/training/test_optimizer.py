"""The optimizer of an experiment."""

from __future__ import annotations

import sys

import pytest
import torch

from regard.config.schema import OptimizerSection
from regard.training.optimizer import build_optimizer

SECTION = OptimizerSection(kind="adamw", beta1=0.5, beta2=0.75, epsilon=0.25, weight_decay=0.125)


def test_settings_reach_the_optimizer() -> None:
    optimizer = build_optimizer([torch.nn.Parameter(torch.ones(3))], SECTION, 0.0625)
    (group,) = optimizer.param_groups
    assert (group["lr"], *group["betas"], group["eps"], group["weight_decay"]) == (0.0625, 0.5, 0.75, 0.25, 0.125)


@pytest.mark.parametrize(("kind", "reference"), [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)])
def test_steps_equal_those_of_torch(kind: str, reference: type[torch.optim.Optimizer]) -> None:
    ours, theirs = (torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0])) for _ in range(2))
    optimizers = [
        build_optimizer([ours], OptimizerSection(kind=kind, weight_decay=0.1), 0.1),
        reference([theirs], lr=0.1, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.1, fused=True),  # type: ignore[call-arg]
    ]
    assert isinstance(optimizers[0], reference)
    for step in range(5):
        for optimizer, parameter in zip(optimizers, (ours, theirs), strict=True):
            optimizer.zero_grad()
            (parameter * parameter * (step + 1)).sum().backward()
            optimizer.step()
    assert torch.equal(ours, theirs)
    assert ours.requires_grad
    assert ours.grad_fn is None


def test_a_step_records_no_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[bool] = []
    monkeypatch.setattr(sys.modules["torch.optim.adam"], "adam", lambda *_, **__: modes.append(torch.is_grad_enabled()))
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = build_optimizer([parameter], OptimizerSection(), 0.1)
    parameter.sum().backward()
    optimizer.step()
    assert modes == [False]
