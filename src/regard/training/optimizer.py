"""The optimizer of an experiment."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import unwrap
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from regard.config.kinds import OPTIMIZERS
from regard.config.training_section import OptimizerSection, ParameterKind
from regard.nn.positions import LearnedPositions

NORMALIZATIONS = nn.LayerNorm, nn.RMSNorm
EMBEDDINGS = nn.Embedding, LearnedPositions


def build_optimizer(model: nn.Module, section: OptimizerSection, rate: float) -> Optimizer:
    """The optimizer that the settings describe.

    Args:
        model: What is optimized.
        section: The section `training.optimizer` of an experiment.
        rate: The initial learning rate.
    """
    excluded = {parameter for kind, parameter in parameter_kinds(model) if kind in section.weight_decay_exclude}
    groups: list[dict[str, Any]] = [{"params": [each for each in model.parameters() if each not in excluded]}]
    if excluded:
        groups.append({"params": [each for each in model.parameters() if each in excluded], "weight_decay": 0.0})
    optimizer: Optimizer = _without_compiler(OPTIMIZERS[section.kind])(
        groups,
        lr=rate,
        betas=(section.beta1, section.beta2),
        eps=section.epsilon,
        weight_decay=section.weight_decay,
        fused=True,
    )
    return optimizer


def parameter_kinds(model: nn.Module) -> Iterator[tuple[ParameterKind, nn.Parameter]]:
    """The parameters that may be excluded from weight decay, each with its kind.

    Args:
        model: The model.
    """
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if isinstance(module, NORMALIZATIONS):
                yield "norms", parameter
            elif isinstance(module, EMBEDDINGS):
                yield "embeddings", parameter
            elif name.startswith("bias"):  # recurrent layers have `bias_ih_l0` and others
                yield "biases", parameter


def _without_compiler(optimizer: type[Optimizer]) -> Any:
    """The same optimizer, without the wrappers of its methods that import torch's compiler.

    They exclude the methods from `torch.compile`, and import the compiler when they are first called, which takes as
    long as importing torch. A method that has no such wrapper is left as it is.
    """
    plain = {name: unwrap(getattr(optimizer, name)) for name in ("add_param_group", "step", "zero_grad")}
    plain["step"] = torch.no_grad()(plain["step"])  # the wrapper of `step` does this, too
    return type(optimizer.__name__, (optimizer,), plain)
