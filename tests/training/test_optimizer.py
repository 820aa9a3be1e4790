"""The optimizer of an experiment."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

from regard.config.schema import ModelSection
from regard.config.training_section import OptimizerSection, ParameterKind
from regard.nn.build import build_model
from regard.training.optimizer import build_optimizer

SECTION = OptimizerSection(kind="adamw", beta1=0.5, beta2=0.75, epsilon=0.25, weight_decay=0.125)


def test_settings_reach_the_optimizer() -> None:
    optimizer = build_optimizer(torch.nn.Linear(3, 1, bias=False), SECTION, 0.0625)
    (group,) = optimizer.param_groups
    assert (group["lr"], *group["betas"], group["eps"], group["weight_decay"]) == (0.0625, 0.5, 0.75, 0.25, 0.125)


LAYERS = {"size": 8, "embedding": 8, "inner_size": 16, "positions": {"kind": "learned"}}
TRANSFORMER = {
    "encoder": {"kind": "self-attention", **LAYERS},
    "decoder": {"kind": "transformer", **LAYERS, "readout": "tied"},
    "attention": {"kind": "multi-head", "heads": 2},
}


@pytest.mark.parametrize("kind", [{}, TRANSFORMER], ids=["recurrent", "transformer"])
@pytest.mark.parametrize("exclude", [[], ["biases"], ["norms"], ["embeddings"], ["biases", "norms", "embeddings"]])
def test_weight_decay_leaves_the_excluded_parameters_as_they_are(kind: dict[str, Any], exclude: list[ParameterKind]):
    """With a gradient of 0, nothing but weight decay changes a parameter."""
    model = build_model(ModelSection.model_validate(kind), 11, 13)
    before = {name: each.detach().clone() for name, each in model.named_parameters()}
    section = OptimizerSection(kind="adamw", weight_decay=0.5, weight_decay_exclude=exclude)
    optimizer = build_optimizer(model, section, 0.1)
    for parameter in model.parameters():
        parameter.data.add_(1.0)  # a bias of 0 would not decay
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    kept = {name for name, each in model.named_parameters() if torch.equal(each, before[name] + 1)}
    norms = {name for name in before if "norm" in name}
    expected = {
        "norms": norms,
        "biases": {name for name in before if name.rpartition(".")[2].startswith("bias")} - norms,
        "embeddings": {name for name in before if name.endswith((".tokens.weight", ".table"))},
    }
    assert kept == set().union(*(expected[each] for each in exclude))
    assert all(expected[each] for each in exclude if kind or each != "norms")


@pytest.mark.parametrize(("kind", "reference"), [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)])
def test_steps_equal_those_of_torch(kind: str, reference: type[torch.optim.Optimizer]) -> None:
    ours, theirs = (torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0])) for _ in range(2))
    optimizers = [
        build_optimizer(torch.nn.ParameterList([ours]), OptimizerSection(kind=kind, weight_decay=0.1), 0.1),
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
    optimizer = build_optimizer(torch.nn.ParameterList([parameter]), OptimizerSection(), 0.1)
    parameter.sum().backward()
    optimizer.step()
    assert modes == [False]
