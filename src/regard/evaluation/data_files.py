"""The text files of a run's splits: whether they are still there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from regard.config.schema import Experiment
from regard.errors import UserError
from regard.tasks import Split


def check_data_files(command: str, run: Path, experiment: Experiment, splits: Sequence[Split]) -> None:
    """Raise a `UserError` if the files of splits are missing. The message has the command with their new place.

    Args:
        command: The name of the command.
        run: A run directory.
        experiment: The settings of the run.
        splits: The splits that are read.
    """
    missing = experiment.task.missing_files(splits)
    if not missing:
        return
    settings = experiment.data.model_dump()
    paths = [f"data.{key}={_on_one_line(_in_new_place(settings[key]))}" for key in missing]
    parts = [str(run), *(part for path in paths for part in ("--set", path))]
    quoted = [f'"{part}"' if set(" *{[<") & set(part) else part for part in parts]  # for any shell
    line = " ".join(["regard", command, *quoted])
    problems = "\n".join(f"{run}: {text}" for text in missing.values())
    raise UserError(f"{problems}\nif the files have moved, give their new place: {line}")


def _in_new_place(value: Any) -> Any:
    """The value of a setting that names files, with other folders."""
    if isinstance(value, list):
        return [_in_new_place(each) for each in value]
    if isinstance(value, dict):
        return value | {"path": _in_new_place(value["path"])}
    return f"NEW/PLACE/{Path(value).name}"


def _on_one_line(value: Any) -> str:
    return value if isinstance(value, str) else yaml.safe_dump(value, default_flow_style=True, width=math.inf).strip()
