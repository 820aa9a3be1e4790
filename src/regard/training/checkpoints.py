"""Checkpoints: model, optimizer and progress, which together are enough to continue training."""

from __future__ import annotations

import math
from typing import Annotated

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import nn

from regard.errors import UserError
from regard.runs import STATE, Run, named_weights
from regard.runs.weights import TensorFile

MAX_COUNT = 2**53  # beyond which a float does not have every number


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

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    step: Annotated[int, Field(ge=0, le=MAX_COUNT)] = 0
    seconds: float = 0.0
    loss_sum: float = 0.0
    tokens: Annotated[int, Field(ge=0, le=MAX_COUNT)] = 0
    validation_losses: list[float] = []
    best_step: Annotated[int, Field(ge=0, le=MAX_COUNT)] = 0
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


def read_progress(run: Run) -> TrainingProgress:
    """The progress of the last checkpoint; step 0 if there is none.

    Args:
        run: The run directory.
    """
    if not run.has_file(STATE):
        return TrainingProgress()
    with run.open_tensors(STATE) as state:
        return _parse_progress(state)


def _parse_progress(state: TensorFile) -> TrainingProgress:
    try:
        progress = TrainingProgress.model_validate(state.metadata)
    except ValidationError as error:
        raise UserError(f"{state.path}: this file is damaged: {error.errors()[0]['msg']}") from None
    missing = TrainingProgress.model_fields.keys() - progress.model_fields_set
    if missing:
        raise UserError(f"{state.path}: this file is damaged: its header lacks {', '.join(sorted(missing))}")
    return progress


def load_state(run: Run, model: nn.Module, optimizer: torch.optim.Optimizer) -> TrainingProgress:
    """Restore model and optimizer from the last checkpoint, and return its progress; step 0 if there is none.

    Args:
        run: The run directory.
        model: The model whose parameters are overwritten.
        optimizer: The optimizer whose state is overwritten.
    """
    if not run.has_file(STATE):
        return TrainingProgress()
    with run.open_tensors(STATE) as state, torch.no_grad():
        progress = _parse_progress(state)
        state.copy_weights(model, "model/")
        for name, parameter in model.named_parameters():
            shapes = {"step": (), "exp_avg": tuple(parameter.shape), "exp_avg_sq": tuple(parameter.shape)}
            found = {key: state.shapes.get(f"optimizer/{name}/{key}") for key in shapes}
            if any(shape is not None for shape in found.values()):  # a parameter without a gradient has no state
                if found != shapes:
                    raise UserError(
                        f"{state.path}: this file is damaged: the optimizer's state of {name} is incomplete"
                    )
                optimizer.state[parameter] = {key: state.tensor(f"optimizer/{name}/{key}") for key in shapes}
    return progress
