"""Loading runs for a command."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import torch

from regard.cli.input_lines import InputLine, encode_input
from regard.inference.translator import Translator, load
from regard.runs import Run


def load_translator(*runs: Path) -> Translator:
    """The model in a run directory, or those of several that vote, ready for work."""
    translator = load(*runs)
    set_num_threads(translator.runs[0])
    return translator


def load_translator_for(run: Path, text: str) -> Translator:
    """The model in a run directory, for a text that it can read."""
    translator = load_translator(run)
    encode_input([InputLine(text, "this text")], translator)
    return translator


def set_num_threads(run: Run) -> None:
    """As many as it was trained with: for small models more are only in the way."""
    torch.set_num_threads(run.experiment.training.threads)


def split_runs(arguments: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Runs, then texts. The first argument is a run, and so is each one behind it that has a run.json."""
    count = 1
    # Not `Path.is_file`, which raises if a text is too long to be a name.
    while count < len(arguments) and os.path.isfile(os.path.join(arguments[count], "run.json")):
        count += 1
    return [Path(argument) for argument in arguments[:count]], list(arguments[count:])
