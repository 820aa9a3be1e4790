"""`regard recipes` and `regard train`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.cli import options


def recipes_command() -> None:
    """`regard recipes`."""
    from regard.config.loading import read_description
    from regard.config.recipes import recipe_names
    from regard.terminal.tables import print_table

    rows = [[name, read_description(name)] for name in recipe_names()]
    print_table(["recipe", "description"], rows, right=[False, False])


def train_command(
    experiment: options.Experiment,
    out: Annotated[Path | None, typer.Option(help="The run directory (default: runs/EXPERIMENT).")] = None,
    set_: options.Set = None,
) -> None:
    """`regard train`."""
    from regard.config import loading
    from regard.training.api import default_run_path
    from regard.training.callbacks import Callback
    from regard.training.session import TrainingInterrupted, TrainingSession

    path = out or default_run_path(experiment)
    settings = loading.load_experiment(experiment, set_ or [], check_files=not path.exists())
    try:
        TrainingSession(path, is_command=True).run(settings, Callback())
    except TrainingInterrupted as interruption:
        sys.exit(interruption.exit_code)
