"""`regard recipes` and `regard train`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.cli import options
from regard.errors import UserError


def recipes_command() -> None:
    """`regard recipes`."""
    from regard.config.loading import read_description
    from regard.config.recipes import recipe_names
    from regard.terminal.tables import print_table

    rows = [[name, read_description(name)] for name in recipe_names()]
    print_table(["recipe", "description"], rows, right=[False, False])


def train_command(
    experiment: options.Experiment,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The run directory (default: runs/EXPERIMENT).")
    ] = None,
    set_: options.Set = None,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1024,
            help="Number of processes on this machine that train together; 'torchrun' starts them on several machines.",
        ),
    ] = None,
) -> None:
    """`regard train`."""
    from regard.config import loading
    from regard.process_group import is_launched, join_process_group
    from regard.terminal.output import detail, print_error, verbosity_flags
    from regard.training.api import default_run_path
    from regard.training.callbacks import Callback
    from regard.training.session import TrainingInterrupted, TrainingSession

    path = out or default_run_path(experiment)
    if processes is not None and not is_launched():
        from regard.training.launcher import launch

        overrides = [f"--set={each}" for each in set_ or []]
        sys.exit(launch(processes, path, ["train", *verbosity_flags(), f"--out={path}", *overrides, "--", experiment]))
    try:
        with join_process_group() as group:
            if processes not in (None, group.local_size):
                raise UserError(f"--processes {processes}: torchrun has started {group.local_size}; omit --processes")
            settings = loading.load_experiment(experiment, set_ or [], check_files=not path.exists())
            detail(f"{path}: settings\n{settings}")
            TrainingSession(path, is_command=True, group=group).run(settings, Callback())
    except TrainingInterrupted as interruption:
        print_error(str(interruption))
        sys.exit(interruption.exit_code)
