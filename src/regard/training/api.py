"""`regard.train`: from an experiment to a finished run, as `regard train` does it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from regard.config.plugins import check_not_importing
from regard.config.schema import Experiment
from regard.process_group import join_process_group
from regard.runs import Run
from regard.torch_state import private_torch_state
from regard.training.callbacks import Callback, CallbackList
from regard.training.dry_run import DryRun, measure_training
from regard.training.plan import plan_training
from regard.training.session import TrainingSession


def train(
    experiment: str | os.PathLike[str] | Mapping[str, Any] | Experiment | Run,
    out: str | os.PathLike[str] | None = None,
    *,
    overrides: Mapping[str, Any] | None = None,
    callbacks: Iterable[Callback] = (),
    progress: bool = True,
    from_run: str | os.PathLike[str] | Run | None = None,
    reuse_vocabulary: bool = True,
    trust_code: bool = False,
) -> Run:
    """Train a model; a training that was stopped continues where it was, to bit-identical results.

        regard.train("runs/mine", overrides={"training.epochs": 20})          # more epochs
        regard.train("my.yaml", "runs/tuned", from_run="runs/mine")           # fine-tuning

    After training on real text, the test set is scored and a page of examples is written. Ctrl-C, or interrupting the
    cell of a notebook, finishes the current step and saves a checkpoint. In processes that `torchrun` has started, all
    call this function and train together.

    Args:
        experiment: The name of a recipe, the path of a YAML file, a dictionary of settings (nested, or with keys such
            as `training.epochs`), or an `Experiment`; or a run directory, whose training continues.
        out: The run directory; by default `runs/NAME`, with the name of the recipe or file, or the run directory.
        overrides: Settings that replace those of the experiment, such as `{"training.epochs": 3}`.
        callbacks: Instances of `Callback`, which are called during the training and can stop it.
        progress: Whether to show progress and results: a bar on a terminal or in a notebook, lines of text elsewhere.
        from_run: A run whose best weights a new run starts with (fine-tuning). What the experiment does not set is as
            in that run.
        reuse_vocabulary: Whether the new run has the tokenization and the vocabularies of `from_run`. If not, it learns
            its own ones, and the embeddings of tokens that both have are copied.
        trust_code: Whether run directories may execute the code outside Regard that they were trained with.

    Returns:
        The open run directory. Its `progress.finished` is empty if a callback stopped the training.

    Raises:
        UserError: An argument, a setting, the data or the run directory is not valid.
        KeyboardInterrupt: Training was interrupted; the same call continues it.
        TrainingStopped: Raised by a callback while the data was read.
    """
    check_not_importing("regard.train was called")
    callback = CallbackList(callbacks)
    plan = plan_training(
        experiment, out, overrides, from_run=from_run, reuse_vocabulary=reuse_vocabulary, trust_code=trust_code
    )
    with private_torch_state(), join_process_group() as group:
        return TrainingSession(plan, shown=progress, group=group).run(callback)


def dry_run(
    experiment: str | os.PathLike[str] | Mapping[str, Any] | Experiment | Run,
    out: str | os.PathLike[str] | None = None,
    *,
    overrides: Mapping[str, Any] | None = None,
    from_run: str | os.PathLike[str] | Run | None = None,
    reuse_vocabulary: bool = True,
    trust_code: bool = False,
) -> DryRun:
    """What `train` would need: sizes, parameters, steps, memory and time. Nothing is written to the run directory.

    The data is read and encoded, and a few steps and a validation are computed, in a temporary folder.

        print(regard.dry_run("multi30k"))

    Args:
        experiment: As that of `train`.
        out: The run directory; if it exists, how it would continue.
        overrides: Settings that replace those of the experiment.
        from_run: A run whose best weights a new run would start with.
        reuse_vocabulary: Whether it would have the tokenization and the vocabularies of `from_run`.
        trust_code: Whether run directories may execute the code outside Regard that they were trained with.

    Raises:
        UserError: An argument, a setting, the data or the run directory is not valid.
    """
    check_not_importing("regard.dry_run was called")
    plan = plan_training(
        experiment, out, overrides, from_run=from_run, reuse_vocabulary=reuse_vocabulary, trust_code=trust_code
    )
    with private_torch_state():
        return measure_training(plan, Callback())
