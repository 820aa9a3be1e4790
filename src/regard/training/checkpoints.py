"""Checkpoints: model, optimizer and progress, which together are enough to continue training."""

from __future__ import annotations

import torch
from torch import nn

from regard.errors import UserError
from regard.runs import STATE, Run, TrainingProgress, named_weights
from regard.runs.progress import parse_progress


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
        progress = parse_progress(state)
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
