"""`regard clean`: remove the temporary files of processes that were killed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard import files
from regard.errors import UserError
from regard.terminal.output import note, print_result


def clean_command(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FOLDER", help="Run directories, or folders of them (default: runs)."),
    ] = None,
) -> None:
    """`regard clean`."""
    removed = [path for folder in folders or [Path("runs")] for path in clean_folder(folder)]
    for path in removed:
        print_result(f"{path}: removed")
    if not removed:
        print_result("nothing to remove")


def clean_folder(folder: Path) -> list[Path]:
    """Remove what killed processes have left next to a run directory and in it, or in a folder of run directories.

    Args:
        folder: A run directory, or a folder of several.

    Returns:
        What was removed.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder; give a run directory or a folder of them")
    if (folder / "run.json").is_file():
        return [*files.remove_abandoned(folder), *_clean_run(folder)]
    runs = sorted(path.parent for path in folder.glob("*/run.json"))
    return [*files.remove_abandoned(folder / "*"), *(path for run in runs for path in _clean_run(run))]


def _clean_run(path: Path) -> list[Path]:
    from regard.runs import read_metadata, remove_temporary_files

    read_metadata(path)  # an error if it is not a run directory
    with files.lock_folder(path) as acquired:
        if not acquired:
            note(f"{path}: another process is using this run directory; it is left as it is")
            return []
        return remove_temporary_files(path)
