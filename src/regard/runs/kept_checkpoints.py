"""The weights of the latest validations, in `checkpoints/step-N.safetensors`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import torch
from torch import Tensor

from regard.errors import UserError
from regard.runs.directory import CHECKPOINTS, Run
from regard.runs.weights import Shapes

NAME = re.compile(r"step-(0|[1-9][0-9]{0,15})\.safetensors", re.ASCII)


def kept_steps(run: Run) -> list[int]:
    """The steps whose weights are kept, in ascending order. Other files in the folder are ignored.

    Args:
        run: A run directory.

    Raises:
        UserError: The folder is a link or a file, which Regard has not made.
    """
    folder = run.path / CHECKPOINTS
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UserError(f"{folder}: this should be a folder; remove it, which Regard has not made")
    if not folder.exists():
        return []
    return sorted(int(match[1]) for file in folder.iterdir() if (match := NAME.fullmatch(file.name)))


def checkpoint_name(step: int) -> str:
    """The name of the file with the weights of a step, in the run directory.

    Args:
        step: The step.
    """
    return f"{CHECKPOINTS}/step-{step}.safetensors"


def keep_checkpoint(run: Run, weights: Mapping[str, Tensor], step: int) -> None:
    """Write the weights of a step.

    Args:
        run: The run directory.
        weights: The weights by name.
        step: The number of steps that they were trained.
    """
    kept_steps(run)  # checks the folder
    (run.path / CHECKPOINTS).mkdir(exist_ok=True)
    run.write_tensors(checkpoint_name(step), weights, {"step": step})


def prune_checkpoints(run: Run, count: int, last_step: int) -> None:
    """Remove all kept weights but the latest ones.

    Args:
        run: The run directory.
        count: How many remain.
        last_step: That of the run's state; after a crash, there may be weights of later ones.
    """
    steps = [step for step in kept_steps(run) if step <= last_step]
    kept = steps[max(0, len(steps) - count) :]
    for step in kept_steps(run):
        if step not in kept:
            (run.path / checkpoint_name(step)).unlink()


def average_weights(run: Run, steps: Sequence[int], expected: Shapes) -> dict[str, Tensor]:
    """The mean of the kept weights of some steps.

        θ = 1/n Σ_i θ_i, computed in float64

    Args:
        run: The run directory.
        steps: The steps.
        expected: The shapes of the model's parameters.

    Raises:
        UserError: A file is damaged, or belongs to another run or step.
    """
    with ExitStack() as stack:
        files = [stack.enter_context(run.open_tensors(checkpoint_name(step))) for step in steps]
        for step, file in zip(steps, files, strict=True):
            file.check_weights(expected)
            if file.metadata.get("step") != step:
                raise UserError(f"{file.path}: these are the weights of step {file.metadata.get('step')!r}")
        return {
            name: sum(
                (file.tensor(name).double() for file in files), torch.zeros(shape, dtype=torch.float64, device="cpu")
            )
            .div(len(files))
            .float()
            for name, shape in expected.items()
        }
