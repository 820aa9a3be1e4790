"""Loads the models of run directories for a command."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import torch

from regard.cli import options
from regard.config.loading import set_data_paths
from regard.data import EncodedSource
from regard.devices import check_precision, describe_device, select_device
from regard.evaluation.data_files import check_data_files
from regard.files import remove_abandoned
from regard.inference.input_lines import InputLine, encode_input
from regard.inference.translator import Translator, load
from regard.runs import Run
from regard.tasks import Split
from regard.terminal.output import detail, note


def load_translator(*runs: Path) -> Translator:
    """The model of a run directory, or of several as an ensemble, on the device and in the precision of the options.

    Args:
        runs: Run directories.
    """
    device, precision = select_model_options()
    for run in runs:
        remove_abandoned(run)
    translator = load(*runs, device=device, precision=precision)
    set_num_threads(translator.runs[0])
    for opened in translator.runs:
        detail(describe_run(opened, device, precision))
    return translator


def describe_run(run: Run, device: str, precision: str) -> str:
    """What `--verbose` prints about a model.

    Args:
        run: Its run directory.
        device: Where it computes.
        precision: In which precision.
    """
    experiment, model = run.experiment, run.experiment.model
    parts = f"{model.encoder.label} encoder, {model.attention.label} attention, {model.decoder.label} decoder"
    return f"{run.path}: {parts}; on {device} in {precision}, threads: {experiment.training.threads}"


def select_model_options() -> tuple[str, str]:
    """The device and the precision of the command's options. The first call reports a device that `auto` has chosen.

    Raises:
        UserError: If there is no such device, or it cannot compute in this precision.
    """
    chosen = options.MODEL_OPTIONS
    device = select_device(chosen.device)
    if chosen.device == "auto" and device.type != "cpu":
        note(f"the device is {describe_device(device)}; --device selects another")
    chosen.device = str(device)
    return chosen.device, check_precision(chosen.precision, device)


def load_with_data(command: str, run: Path, splits: Sequence[Split], paths: Sequence[str] | None) -> Translator:
    """The model of a run directory, for a command that reads splits of the run's data.

    Args:
        command: The name of the command, for messages.
        run: A run directory.
        splits: The splits that are read.
        paths: New paths of text files, as `data.test=corpus/test`, or another test set.

    Raises:
        UserError: If files are missing. The message has the command with the option that sets their new place.
    """
    translator = load_translator(run)
    if paths:
        translator.experiment = set_data_paths(translator.experiment, paths)
    check_data_files(command, run, translator.experiment, splits)
    return translator


def load_and_encode(run: Path, text: str) -> tuple[Translator, EncodedSource]:
    """The model of a run directory, and a text as token ids.

    Args:
        run: A run directory.
        text: A source text.

    Raises:
        UserError: If the model cannot process the text.
    """
    translator = load_translator(run)
    (source,) = encode_input([InputLine(text, "this text")], translator)
    return translator, source


def set_num_threads(run: Run) -> None:
    """Use as many threads as in training; more make small models slower.

    Args:
        run: An open run directory.
    """
    torch.set_num_threads(run.experiment.training.threads)


def split_runs(arguments: Sequence[str]) -> tuple[list[Path], list[str]]:
    """The run directories and the texts: the first argument is a run, and so is each following one with a run.json.

    Args:
        arguments: Run directories, then texts.
    """
    count = 1
    # Not `Path.is_file`, which raises an error if a text is too long for a file name.
    while count < len(arguments) and os.path.isfile(os.path.join(arguments[count], "run.json")):
        count += 1
    return [Path(argument) for argument in arguments[:count]], list(arguments[count:])
