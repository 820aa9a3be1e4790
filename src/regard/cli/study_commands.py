"""`regard compare` and `regard study`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli import options
from regard.cli.completion import complete_experiments, complete_studies
from regard.errors import UserError

Seeds = Annotated[
    int | None,
    typer.Option(help="Number of runs of each condition, with seeds 1, 2, … (default: 3, or as the study defines)."),
]
Method = Annotated[
    str | None,
    typer.Option(
        metavar="randomization|bootstrap",
        help="The test over sentences: approximate randomization or paired bootstrap.",
    ),
]
StudyFolder = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="The folder of the report (default: studies/NAME).")
]
RunFolder = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="The folder of run directories, which studies share (default: runs, next to OUT)."
    ),
]
Jobs = Annotated[
    int | None, typer.Option(min=1, help="Number of runs that are trained at the same time (default: one per core).")
]
ReportOnly = Annotated[bool, typer.Option("--report", help="Train nothing; report on finished runs only.")]


def compare_command(
    experiment: Annotated[
        str | None,
        typer.Argument(
            metavar="EXPERIMENT", autocompletion=complete_experiments, help="A recipe's name, or a path to a YAML file."
        ),
    ] = None,
    vary: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE,…", help="A setting with several values.")
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE,…",
            help="An option of the evaluation with several values: beam, length_penalty, or a key such as data.test.",
        ),
    ] = None,
    set_: options.Set = None,
    seeds: Seeds = None,
    baseline: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="The value that others are compared with (default: the first)."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "--measure",
            metavar="METRIC",
            help="A metric to compare; the first is the main one (default: by the task).",
        ),
    ] = None,
    method: Method = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A study as a YAML file, in place of EXPERIMENT.")
    ] = None,
    out: StudyFolder = None,
    runs: RunFolder = None,
    jobs: Jobs = None,
    cluster: options.Cluster = None,
    report: ReportOnly = False,
    as_json: options.WholeJson = False,
) -> None:
    """`regard compare`."""
    from regard.cli.study import run_and_print
    from regard.studies import parsing
    from regard.studies.study_folder import default_folder

    if (experiment is None) == (config is None):
        raise UserError("give either an experiment with --vary, or --config FILE")
    added = parsing.from_options(
        experiment=experiment,
        vary=vary,
        test=test,
        set=set_,
        seeds=seeds,
        baseline=baseline,
        metrics=metric,
        method=method,
    )
    leaves = parsing.override_leaves(parsing.parse_study_file(config) if config else [], added)
    out = out or default_folder(experiment, config)
    folder = config.parent if config else Path()
    study = parsing.build_study(out.resolve().name, leaves, folder, check_files=not (report or out.exists()))
    run_and_print(study, out, runs or out.parent / "runs", jobs, cluster, report_only=report, as_json=as_json)


def study_command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="STUDY", autocompletion=complete_studies, help="The name of a built-in study; 'list' lists them."
        ),
    ],
    set_: options.Set = None,
    seeds: Seeds = None,
    method: Method = None,
    out: StudyFolder = None,
    runs: RunFolder = None,
    jobs: Jobs = None,
    cluster: options.Cluster = None,
    report: ReportOnly = False,
    as_json: options.WholeJson = False,
) -> None:
    """`regard study`."""
    from regard.studies import built_in, parsing

    if name == "list":
        list_studies()
        return
    leaves = parsing.parse_study(built_in.read_study(name), f"study {name}")
    leaves = parsing.override_leaves(leaves, parsing.from_options(set=set_, seeds=seeds, method=method))
    out = out or Path("studies") / name
    study = parsing.build_study(name, leaves, check_files=not (report or out.exists()))
    from regard.cli.study import run_and_print

    run_and_print(study, out, runs or out.parent / "runs", jobs, cluster, report_only=report, as_json=as_json)


def list_studies() -> None:
    """Print the built-in studies."""
    from regard.studies.built_in import study_names, study_question
    from regard.terminal.tables import print_table

    print_table(["study", "question"], [[name, study_question(name)] for name in study_names()], right=[False, False])
