"""`regard.train`: from an experiment to a finished run, as `regard train` does it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from regard.config.loading import resolve_experiment
from regard.config.plugins import check_not_importing
from regard.config.schema import Experiment
from regard.errors import UserError
from regard.files import parse_path
from regard.process_group import join_process_group
from regard.runs import Run
from regard.torch_state import private_torch_state
from regard.training.callbacks import Callback, CallbackList
from regard.training.session import TrainingSession


def train(
    experiment: str | os.PathLike[str] | Mapping[str, Any] | Experiment,
    out: str | os.PathLike[str] | None = None,
    *,
    overrides: Mapping[str, Any] | None = None,
    callbacks: Iterable[Callback] = (),
    progress: bool = True,
) -> Run:
    """Train a model; a training that was stopped continues where it was, to bit-identical results.

    After training on real text, the test set is scored and a page of examples is written. Ctrl-C, or interrupting the
    cell of a notebook, finishes the current step and saves a checkpoint. In processes that `torchrun` has started, all
    call this function and train together.

    Args:
        experiment: The name of a recipe, the path of a YAML file, a dictionary of settings (nested, or with keys such
            as `training.epochs`), or an `Experiment`.
        out: The run directory; by default `runs/NAME`, with the name of the recipe or file.
        overrides: Settings that replace those of the experiment, such as `{"training.epochs": 3}`.
        callbacks: Instances of `Callback`, which are called during the training and can stop it.
        progress: Whether to show progress and results: a bar on a terminal or in a notebook, lines of text elsewhere.

    Returns:
        The open run directory. Its `progress.finished` is empty if a callback stopped the training.

    Raises:
        UserError: An argument, a setting, the data or the run directory is not valid.
        KeyboardInterrupt: Training was interrupted; the same call continues it.
        TrainingStopped: Raised by a callback while the data was read.
    """
    check_not_importing("regard.train was called")
    callback = CallbackList(callbacks)
    path = _run_path(experiment, out)
    settings = resolve_experiment(experiment, overrides, check_files=not path.exists())
    with private_torch_state(), join_process_group() as group:
        return TrainingSession(path, shown=progress, group=group).run(settings, callback)


def default_run_path(experiment: str | os.PathLike[str]) -> Path:
    """The run directory of a training for which none is named.

    Args:
        experiment: The name of a recipe, or the path of a YAML file.
    """
    return Path("runs") / Path(experiment).stem


def _run_path(experiment: object, out: object) -> Path:
    if out is not None:
        return parse_path(out, "out")
    if isinstance(experiment, Mapping | Experiment):
        raise UserError("out: give a run directory, such as out='runs/mine'; only recipes and files have a default")
    return default_run_path(str(experiment))
