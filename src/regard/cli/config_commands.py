"""`regard config` and `regard schema`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli import options
from regard.cli.completion import complete_experiments
from regard.terminal.output import print_result


def config_command(
    experiment: Annotated[
        str,
        typer.Argument(
            metavar="EXPERIMENT|RUN",
            autocompletion=complete_experiments,
            help="A recipe's name, a path to a YAML file, or a run directory.",
        ),
    ],
    set_: options.Set = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object: for each key the value, the default and the meaning.")
    ] = False,
    trust_code: options.TrustCode = False,
) -> None:
    """`regard config`."""
    from regard.config.commented import settings_to_dict
    from regard.config.draft import Override
    from regard.config.loading import load_experiment, resolve_experiment

    if (Path(experiment) / "run.json").is_file():
        from regard.runs import Run

        overrides = [Override.parse(each) for each in set_ or []]
        settings = resolve_experiment(Run(Path(experiment)).experiment, overrides)
    else:
        settings = load_experiment(experiment, set_ or [])
    print_result(
        json.dumps(settings_to_dict(settings), ensure_ascii=False, indent=2)
        if as_json
        else settings.commented_yaml().rstrip("\n")
    )


def schema_command() -> None:
    """`regard schema`."""
    from regard.config.schema import Experiment

    print_result(json.dumps(Experiment.json_schema(), ensure_ascii=False, indent=2))
