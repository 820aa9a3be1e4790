"""Checkpoints: model, optimizer and progress, which together are enough to continue training."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.amp import GradScaler

from regard.errors import UserError
from regard.runs import STATE, Run, TrainingProgress, named_weights
from regard.runs.progress import parse_progress
from regard.training.weight_averages import WeightAverages


def save_state(
    run: Run,
    model: nn.Module,
    averages: WeightAverages,
    optimizer: torch.optim.Optimizer,
    scaler: GradScaler,
    progress: TrainingProgress,
) -> None:
    """Write a checkpoint to the run directory, in one atomic step.

    Args:
        run: The run directory.
        model: The model, whose parameters are saved.
        averages: The moving averages of the parameters.
        optimizer: Its optimizer (Adam or AdamW).
        scaler: The scaler of the gradients in float16; disabled in other precisions.
        progress: How far training has come.
    """
    tensors = {f"model/{name}": tensor for name, tensor in named_weights(model).items()}
    tensors |= {f"ema/{name}": average for name, average in averages.averages.items()}
    for name, parameter in model.named_parameters():
        tensors |= {f"optimizer/{name}/{key}": value for key, value in optimizer.state[parameter].items()}
    tensors |= {f"scaler/{key}": torch.tensor(float(value), device="cpu") for key, value in scaler.state_dict().items()}
    run.write_tensors(STATE, tensors, progress.model_dump())


def save_initial_weights(run: Run, weights: Mapping[str, Tensor]) -> None:
    """Write a checkpoint before the first step, with weights that are not drawn from the seed alone.

    Args:
        run: The run directory.
        weights: All weights of the model.
    """
    run.write_tensors(
        STATE, {f"model/{name}": weight for name, weight in weights.items()}, TrainingProgress().model_dump()
    )


def load_state(
    run: Run,
    model: nn.Module,
    averages: WeightAverages,
    optimizer: torch.optim.Optimizer,
    scaler: GradScaler,
) -> TrainingProgress:
    """Restore all but the run from the last checkpoint, and return its progress; step 0 if there is none.

    Args:
        run: The run directory.
        model: The model whose parameters are overwritten.
        averages: The moving averages of the parameters, which are overwritten.
        optimizer: The optimizer whose state is overwritten.
        scaler: The scaler of the gradients in float16; disabled in other precisions.
    """
    if not run.has_file(STATE):
        return TrainingProgress()
    with run.open_tensors(STATE) as state, torch.no_grad():
        progress = parse_progress(state, run.metadata["format"])
        state.copy_weights(model, "model/")
        if progress.step:
            state.copy_tensors(averages.averages, "ema/")
        else:  # weights to start from
            averages.reset()
        for name, parameter in model.named_parameters():
            shapes = {"step": (), "exp_avg": tuple(parameter.shape), "exp_avg_sq": tuple(parameter.shape)}
            found = {key: state.shapes.get(f"optimizer/{name}/{key}") for key in shapes}
            if any(shape is not None for shape in found.values()):  # a parameter without a gradient has no state
                if found != shapes:
                    raise UserError(
                        f"{state.path}: this file is damaged: the optimizer's state of {name} is incomplete"
                    )
                tensors = {key: state.tensor(f"optimizer/{name}/{key}") for key in shapes}
                optimizer.state[parameter] = {key: tensor.to(parameter.device) for key, tensor in tensors.items()}
        if progress.step and (keys := list(scaler.state_dict())):  # weights to start from have no such state
            if any(state.shapes.get(f"scaler/{key}") != () for key in keys):
                raise UserError(f"{state.path}: this file is damaged: the state of the gradient scaler is incomplete")
            scaler.load_state_dict({key: _number(state.tensor(f"scaler/{key}").item()) for key in keys})
    return progress


def reopen_run(run: Run) -> None:
    """Let the training of a finished run continue: the next session decides anew whether it is finished.

    Args:
        run: The run directory.
    """
    with run.open_tensors(STATE) as state:
        progress = parse_progress(state, run.metadata["format"])
        tensors = {name: state.tensor(name) for name in state.shapes}
    run.write_tensors(STATE, tensors, {**progress.model_dump(), "finished": ""})


def _number(value: float) -> float | int:
    """The scaler counts steps by an integer, and writes all its values as float32."""
    return int(value) if value.is_integer() else value
