"""The mean of the latest weights, as the model of a finished training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from regard.files import damage_as_user_error
from regard.runs import MODEL, Run, named_weights
from regard.runs.kept_checkpoints import average_weights, kept_steps

if TYPE_CHECKING:
    from regard.training.trainer import Trainer


def average_line(run: Run) -> str:
    """How the model of a finished run was averaged, for people; empty if it was not.

    Args:
        run: The run directory.
    """
    if run.experiment.training.average is None:
        return ""
    with run.open_tensors(MODEL) as file, damage_as_user_error(file.path):
        average = file.metadata["average"]
        return f"; the model is the mean of {len(average['steps'])} weights, with loss {average['validation_loss']:.4f}"


@torch.no_grad()
def save_average(trainer: Trainer, count: int) -> None:
    """Make the mean of the latest kept weights the model of a run, and record its validation loss.

    The trainer's own weights, which a longer training continues from, stay as they are.

    Args:
        trainer: The trainer, after its last validation.
        count: The number of weights; fewer if the training had fewer validations.
    """
    run, group, weights = trainer.run_directory, trainer.group, named_weights(trainer.model)
    own = {name: weight.clone() for name, weight in weights.items()}
    steps = kept_steps(run)[-count:] if group.is_first else []
    mean = average_weights(run, steps, {name: tuple(weight.shape) for name, weight in own.items()} if steps else {})
    for name, weight in weights.items():
        weight.copy_(mean[name]) if group.is_first else weight.zero_()
        group.sum(weight)  # the other processes receive it
    loss = trainer.validation_losses(teacher=True).loss
    if group.is_first:
        average = {"steps": steps, "validation_loss": loss}
        run.write_tensors(MODEL, weights, {"step": trainer.progress.step, "average": average})
    for name, weight in weights.items():
        weight.copy_(own[name])
