"""`regard recipes` and `regard train`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from regard.cli import options
from regard.terminal.output import print_message, print_result


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
    from regard.terminal.progress import InterruptHandler

    path = out or Path("runs") / Path(experiment).stem
    settings = loading.load_experiment(experiment, set_ or [], check_files=not path.exists())
    with InterruptHandler() as interrupts:
        interrupts.waits_for_step = False  # until the first step
        from regard.training import TrainingStopped
        from regard.training.progress_display import training_observer
        from regard.training.trainer import train_run

        with training_observer(interrupts) as observer:
            try:
                run, progress = train_run(settings, path, observer)
            except (TrainingStopped, KeyboardInterrupt):
                stop_early(f"{path}: stopped while reading the data", interrupts.exit_code)
    if not progress.finished:
        stop_early(f"{path}: stopped after step {progress.step:,}", interrupts.exit_code)
    print_result(
        f"{path}: done ({progress.finished}), {progress.step:,} steps in {progress.seconds:.0f} s; "
        f"best validation loss {progress.best_loss:.4f}, after step {progress.best_step:,}"
    )
    from regard.cli.evaluate import print_final_evaluation
    from regard.evaluation.final import needs_final_evaluation

    if not needs_final_evaluation(run):
        return
    if interrupts.signal:
        stop_early(f"{path}: stopped before the evaluation on the test set", interrupts.exit_code)
    print_final_evaluation(run)


def stop_early(message: str, exit_code: int) -> NoReturn:
    """Exit after an interrupt."""
    print_message(f"{message}; run the same command to continue")
    sys.exit(exit_code)
