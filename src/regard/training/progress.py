"""Where a training stands: with the weights and the optimizer, all that is needed to go on."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field

import torch
from torch import nn

from regard.runs import STATE, Run, copy_weights, weights_of


@dataclass
class Progress:
    step: int = 0  # steps taken
    seconds: float = 0.0  # spent on them
    loss_sum: float = 0.0  # over the target tokens since the last validation …
    tokens: int = 0  # … and how many these were
    validation_losses: list[float] = field(default_factory=list)
    best_step: int = 0
    finished: str = ""  # why training is over; empty: it isn't

    @property
    def best_loss(self) -> float:
        return min(self.validation_losses, default=math.inf)

    @property
    def since_best(self) -> int:
        """Validations since the best one."""
        losses = self.validation_losses
        return len(losses) - 1 - losses.index(min(losses)) if losses else 0


def save_state(run: Run, model: nn.Module, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
    tensors = {f"model/{name}": tensor for name, tensor in weights_of(model).items()}
    for name, parameter in model.named_parameters():
        tensors |= {f"optimizer/{name}/{key}": value for key, value in optimizer.state.get(parameter, {}).items()}
    run.write_tensors(STATE, tensors, asdict(progress))


def load_state(run: Run, model: nn.Module, optimizer: torch.optim.Optimizer) -> Progress:
    """Put model and optimizer where they were; a run that has saved nothing yet begins at the beginning."""
    if not run.has(STATE):
        return Progress()
    tensors, about = run.read_tensors(STATE)
    weights = {name.removeprefix("model/"): tensors[name] for name in tensors if name.startswith("model/")}
    copy_weights(weights, model, run.path / STATE)
    for name, parameter in model.named_parameters():
        prefix = f"optimizer/{name}/"
        state = {key.removeprefix(prefix): tensors[key] for key in tensors if key.startswith(prefix)}
        if state:
            optimizer.state[parameter] = state
    return Progress(**about)
