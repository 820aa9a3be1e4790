"""The mean of the latest weights, as the model of a finished training."""

from __future__ import annotations

import math
import os
from functools import partial
from typing import TYPE_CHECKING

import torch

from regard.errors import UserError
from regard.evaluation.metrics import validation_metric
from regard.files import damage_as_user_error, parse_path
from regard.nn.build import build_model
from regard.runs import MODEL, Run, expected_shapes, named_weights
from regard.runs.directory import CHECKPOINTS
from regard.runs.kept_checkpoints import average_weights, kept_steps

if TYPE_CHECKING:
    from regard.training.trainer import Trainer


def average(
    run: str | os.PathLike[str] | Run,
    out: str | os.PathLike[str],
    *,
    last: int | None = None,
    best: int | None = None,
    trust_code: bool = False,
) -> Run:
    """A new run directory whose model is the mean of weights that a run has kept (`training.keep_checkpoints`).

        regard.average("runs/mine", "runs/average", last=5)

    Args:
        run: A run directory.
        out: The new run directory. It has no state to continue from.
        last: The number of weights, the latest ones.
        best: The number of weights, those of the best validations by `training.best`; instead of `last`.
        trust_code: Whether the run may execute code outside Regard, if it was trained with some (plug-ins).

    Raises:
        UserError: The run has kept too few weights, or an argument is not valid.
    """
    source = run if isinstance(run, Run) else Run(parse_path(run, "run"), trust_code=trust_code)
    path = parse_path(out, "out")
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UserError(f"{path}: this exists already; choose another run directory (--out)")
    if changes := source.code_changes():
        raise UserError("\n".join(changes))
    steps = select_steps(source, last, best)
    expected = expected_shapes(partial(build_model, source.experiment.model, *source.codec.sizes))
    weights = average_weights(source, steps, expected)
    return Run.create(
        path,
        source.experiment,
        source.codec,
        source.data_digests,
        source.precision,
        metadata={"average": {"path": str(source.path.absolute()), "steps": steps}},
        prepare=lambda draft: draft.write_tensors(MODEL, weights, {"step": steps[-1]}),
    )


def select_steps(run: Run, last: int | None, best: int | None) -> list[int]:
    """The steps whose weights are averaged, in ascending order.

    Args:
        run: The run directory.
        last: The number of latest steps.
        best: The number of steps with the best validations; instead of `last`.
    """
    name, count = ("last", last) if best is None else ("best", best)
    if count is None or (last is not None and best is not None):
        raise UserError("average: give the number of weights as either last (--last 5) or best (--best 5)")
    if count < 2:
        raise UserError(f"average: {name} = {count}: a mean needs at least 2 weights")
    kept = kept_steps(run)
    if len(kept) < count:
        fewer = f", or average fewer (--{name} {len(kept)})" if len(kept) > 1 else ""
        raise UserError(
            f"{run.path}: {count} weights cannot be averaged; {len(kept)} are kept in {CHECKPOINTS}/: train with "
            f"training.keep_checkpoints={count} or more{fewer}"
        )
    return sorted((kept if best is None else _ranked(run, kept))[-count:])


def _ranked(run: Run, steps: list[int]) -> list[int]:
    """Steps in the order of what `training.best` names, the best one at the end; those without a score come first."""
    metric = validation_metric(run.experiment.task, run.experiment.training.best)
    name, sign = f"validation_{metric.name}", 1 if metric.higher_is_better else -1
    scores = {row["step"]: sign * row[name] for row in run.metrics() if name in row}
    return sorted(steps, key=lambda step: scores.get(step, -math.inf))


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
    loss = trainer.validation.losses().loss
    if group.is_first:
        average = {"steps": steps, "validation_loss": loss}
        run.write_tensors(MODEL, weights, {"step": trainer.progress.step, "average": average})
    for name, weight in weights.items():
        weight.copy_(own[name])
