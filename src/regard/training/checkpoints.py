"""Checkpoints: model, optimizer and progress, which together are enough to continue training."""

from __future__ import annotations

import math

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from torch import Tensor, nn

from regard.errors import UserError
from regard.runs import STATE, Run, copy_weights, named_weights

OPTIMIZER_STATE = ("step", "exp_avg", "exp_avg_sq")  # Adam's state of each parameter


class TrainingProgress(BaseModel):
    """How far training has come. It is stored in the header of `state.safetensors`.

    Args:
        step: Steps taken.
        seconds: Time spent on them, validation included.
        loss_sum: Sum of the training loss over the target tokens since the last validation.
        tokens: The number of these tokens.
        validation_losses: The loss of each validation so far.
        best_step: The step with the lowest validation loss.
        finished: The reason why training is over; empty if it is not.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    step: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0
    tokens: int = 0
    validation_losses: list[float] = []
    best_step: int = 0
    finished: str = ""

    @property
    def best_loss(self) -> float:
        """The lowest validation loss so far."""
        return min(self.validation_losses, default=math.inf)

    @property
    def validations_since_best(self) -> int:
        """The number of validations after the best one."""
        losses = self.validation_losses
        return len(losses) - 1 - losses.index(min(losses)) if losses else 0


def save_state(run: Run, model: nn.Module, optimizer: torch.optim.Optimizer, progress: TrainingProgress) -> None:
    """Write a checkpoint to the run directory, in one atomic step.

    Args:
        run: The run directory.
        model: The model, whose parameters are saved.
        optimizer: Its optimizer (Adam or AdamW).
        progress: How far training has come.
    """
    tensors = {f"model/{name}": tensor for name, tensor in named_weights(model).items()}
    for name, parameter in model.named_parameters():
        tensors |= {f"optimizer/{name}/{key}": value for key, value in optimizer.state[parameter].items()}
    run.write_tensors(STATE, tensors, progress.model_dump())


def read_state(run: Run) -> tuple[dict[str, Tensor], TrainingProgress]:
    """The tensors and the progress of the last checkpoint; nothing and step 0 if there is none.

    Args:
        run: The run directory.
    """
    if not run.has_file(STATE):
        return {}, TrainingProgress()
    tensors, metadata = run.read_tensors(STATE)
    origin = run.path / STATE
    try:
        progress = TrainingProgress.model_validate(metadata)
    except ValidationError as error:
        raise UserError(f"{origin}: this file is damaged: {error.errors()[0]['msg']}") from None
    missing = TrainingProgress.model_fields.keys() - progress.model_fields_set
    if missing:
        raise UserError(f"{origin}: this file is damaged: its header lacks {', '.join(sorted(missing))}")
    return tensors, progress


def load_state(run: Run, model: nn.Module, optimizer: torch.optim.Optimizer) -> TrainingProgress:
    """Restore model and optimizer from the last checkpoint, and return its progress.

    Args:
        run: The run directory.
        model: The model whose parameters are overwritten.
        optimizer: The optimizer whose state is overwritten.
    """
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
        if known:  # a parameter that has never had a gradient has no state
            optimizer.state[parameter] = {key: tensors[f"optimizer/{name}/{key}"] for key in known}
    return progress
