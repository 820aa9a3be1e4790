"""Where a training stands: with the weights and the optimizer, all that is needed to go on."""

from __future__ import annotations

import math

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from torch import Tensor, nn

from regard.errors import UserError
from regard.runs import STATE, Run, copy_weights, named_weights

OPTIMIZER_STATE = ("step", "exp_avg", "exp_avg_sq")  # what Adam remembers of each weight


class TrainingProgress(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    step: int = 0  # steps taken
    seconds: float = 0.0  # spent on them
    loss_sum: float = 0.0  # over the target tokens since the last validation …
    tokens: int = 0  # … and how many these were
    validation_losses: list[float] = []
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


def save_state(run: Run, model: nn.Module, optimizer: torch.optim.Optimizer, progress: TrainingProgress) -> None:
    tensors = {f"model/{name}": tensor for name, tensor in named_weights(model).items()}
    for name, parameter in model.named_parameters():
        tensors |= {f"optimizer/{name}/{key}": value for key, value in optimizer.state[parameter].items()}
    run.write_tensors(STATE, tensors, progress.model_dump())


def read_state(run: Run) -> tuple[dict[str, Tensor], TrainingProgress]:
    """What was saved; a run that has saved nothing yet is at the beginning."""
    if not run.has(STATE):
        return {}, TrainingProgress()
    tensors, about = run.read_tensors(STATE)
    origin = run.path / STATE
    try:
        progress = TrainingProgress.model_validate(about)
    except ValidationError as error:
        raise UserError(f"{origin}: this file is damaged: {error.errors()[0]['msg']}") from None
    if progress.model_fields_set != TrainingProgress.model_fields.keys():
        raise UserError(f"{origin}: this file is damaged: it does not tell all of how far training has come")
    return tensors, progress


def load_state(run: Run, model: nn.Module, optimizer: torch.optim.Optimizer) -> TrainingProgress:
    """Put model and optimizer where they were."""
    tensors, progress = read_state(run)
    if not tensors:
        return progress
    origin = run.path / STATE
    weights = {name.removeprefix("model/"): tensors[name] for name in tensors if name.startswith("model/")}
    copy_weights(weights, model, origin)
    for name, parameter in model.named_parameters():
        known = [key for key in OPTIMIZER_STATE if f"optimizer/{name}/{key}" in tensors]
        if known and len(known) < len(OPTIMIZER_STATE):
            raise UserError(f"{origin}: this file is damaged: it lacks a part of the optimizer's state of {name}")
        if known:  # a weight that no gradient has reached has no state
            optimizer.state[parameter] = {key: tensors[f"optimizer/{name}/{key}"] for key in known}
    return progress
