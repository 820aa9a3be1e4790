"""`regard recipes` and `regard train`."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli import options
from regard.cli.completion import complete_experiments
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.training.plan import TrainingPlan


class YesNo(StrEnum):
    """The values of `--reuse-vocabulary`."""

    yes = "yes"
    no = "no"


def recipes_command() -> None:
    """`regard recipes`."""
    from regard.config.loading import read_description
    from regard.config.recipes import recipe_names
    from regard.terminal.tables import print_table

    rows = [[name, read_description(name)] for name in recipe_names()]
    print_table(["recipe", "description"], rows, right=[False, False])


def train_command(
    experiment: Annotated[
        str,
        typer.Argument(
            metavar="EXPERIMENT",
            autocompletion=complete_experiments,
            help="A recipe's name, a path to a YAML file, or a run directory, to continue it.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="The run directory (default: runs/EXPERIMENT, or the continued one)."),
    ] = None,
    set_: options.Set = None,
    epochs: Annotated[
        int | None, typer.Option(help="Short for --set training.epochs=…: also of a run that has ended.")
    ] = None,
    max_steps: Annotated[int | None, typer.Option(help="Short for --set training.max_steps=….")] = None,
    from_run: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RUN",
            help="Fine-tune: a new run starts with the weights of this one; what EXPERIMENT does not set is as in it.",
        ),
    ] = None,
    reuse_vocabulary: Annotated[
        YesNo,
        typer.Option(help="With --from: keep the tokenization and the vocabularies of that run, or learn new ones."),
    ] = YesNo.yes,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print sizes, memory and estimated time of the training; write nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --dry-run: print JSON.")] = False,
    trust_code: options.TrustCode = False,
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
    from regard.config.draft import Override
    from regard.process_group import is_launched, join_process_group
    from regard.terminal.output import detail, print_error, verbosity_flags
    from regard.training.callbacks import Callback
    from regard.training.plan import default_run_path, plan_training
    from regard.training.session import TrainingInterrupted, TrainingSession

    path = out or default_run_path(experiment)
    lengths = {"epochs": epochs, "max_steps": max_steps}
    settings = [*(set_ or []), *(f"training.{key}={value}" for key, value in lengths.items() if value is not None)]
    if as_json and not dry_run:
        raise UserError("--json: this is for --dry-run, which prints a result")
    if dry_run and processes is not None:
        raise UserError(f"--processes {processes}: --dry-run measures one process; omit one of them")
    if processes is not None and not is_launched():
        from regard.training.launcher import launch

        arguments = [f"--set={each}" for each in settings] + ["--trust-code"] * trust_code
        if from_run is not None:
            arguments += [f"--from={from_run}", f"--reuse-vocabulary={reuse_vocabulary}"]
        sys.exit(launch(processes, path, ["train", *verbosity_flags(), f"--out={path}", *arguments, "--", experiment]))
    try:
        with join_process_group() as group:
            if processes not in (None, group.local_size):
                raise UserError(f"--processes {processes}: torchrun has started {group.local_size}; omit --processes")
            plan = plan_training(
                experiment,
                path,
                [Override.parse(each) for each in settings],
                from_run=from_run,
                reuse_vocabulary=reuse_vocabulary is YesNo.yes,
            )
            detail(f"{path}: settings\n{plan.experiment}")
            if dry_run:
                return print_dry_run(plan, as_json)
            TrainingSession(plan, is_command=True, group=group).run(Callback())
    except TrainingInterrupted as interruption:
        print_error(str(interruption))
        sys.exit(interruption.exit_code)


def print_dry_run(plan: TrainingPlan, as_json: bool) -> None:
    """Print what a training would need. A signal ends the dry run, which then removes its temporary folder."""
    from regard.terminal.output import print_result
    from regard.terminal.progress import InterruptHandler
    from regard.training.callbacks import CallbackList, TrainingStopped
    from regard.training.dry_run import measure_training
    from regard.training.progress_display import progress_display
    from regard.training.session import StopOnSignal

    with InterruptHandler() as interrupts:
        try:
            result = measure_training(plan, CallbackList([StopOnSignal(interrupts), progress_display()]))
        except (KeyboardInterrupt, TrainingStopped):
            sys.exit(interrupts.exit_code)
    print_result(json.dumps(result.to_dict()) if as_json else str(result))


def average_command(
    run: options.Run,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="The new run directory.")],
    last: Annotated[int | None, typer.Option(help="Average the latest N weights.", metavar="N")] = None,
    best: Annotated[
        int | None, typer.Option(help="Average the N weights of the best validations (training.best).", metavar="N")
    ] = None,
    trust_code: options.TrustCode = False,
) -> None:
    """`regard average`."""
    from regard.terminal.output import print_result
    from regard.training.averaging import average

    made = average(run, out, last=last, best=best)
    steps = ", ".join(f"{step:,}" for step in made.metadata["average"]["steps"])
    print_result(f"{out}: the mean of the weights after steps {steps}")
