"""The optimizer of an experiment."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import unwrap
from typing import Any

import torch
from torch.nn import Parameter
from torch.optim import Optimizer

from regard.config.kinds import OPTIMIZERS
from regard.config.schema import OptimizerSection


def build_optimizer(parameters: Iterable[Parameter], section: OptimizerSection, rate: float) -> Optimizer:
    """The optimizer that the settings describe.

    Args:
        parameters: What is optimized.
        section: The section `training.optimizer` of an experiment.
        rate: The initial learning rate.
    """
    optimizer: Optimizer = _without_compiler(OPTIMIZERS[section.kind])(
        parameters,
        lr=rate,
        betas=(section.beta1, section.beta2),
        eps=section.epsilon,
        weight_decay=section.weight_decay,
        fused=True,
    )
    return optimizer


def _without_compiler(optimizer: type[Optimizer]) -> Any:
    """The same optimizer, without the wrappers of its methods that import torch's compiler.

    They exclude the methods from `torch.compile`, and import the compiler when they are first called, which takes as
    long as importing torch. A method that has no such wrapper is left as it is.
    """
    plain = {name: unwrap(getattr(optimizer, name)) for name in ("add_param_group", "step", "zero_grad")}
    plain["step"] = torch.no_grad()(plain["step"])  # the wrapper of `step` does this, too
    return type(optimizer.__name__, (optimizer,), plain)
