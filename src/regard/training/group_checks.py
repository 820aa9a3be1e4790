"""Checks of the processes of a group before they train together: devices, versions, settings, shared folders."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from regard import __version__
from regard.config.loading import dump_experiment
from regard.config.schema import Experiment
from regard.data import Batches, Example
from regard.devices import select_device
from regard.errors import UserError
from regard.files import read_file
from regard.process_group import ProcessGroup
from regard.runs import Run
from regard.tasks import Split

SHARED_FOLDER_DELAY = 60.0  # seconds until a new file is visible on all machines, at most
POLL_INTERVAL = 0.1  # seconds


def training_device(name: str, group: ProcessGroup) -> torch.device:
    """The device of this process. Each process of a machine has a GPU of its own.

    Args:
        name: `training.device`.
        group: The processes.

    Raises:
        UserError: There is no such device, or too few of them.
    """
    device = select_device(name)
    if device.type == "mps" and group.size > 1:
        raise UserError("training.device: several processes cannot train on mps; choose cpu")
    if device.type == "cpu" or group.local_size == 1:
        return device
    if ":" in name:
        raise UserError(f"training.device: {name} is one GPU; with several processes, choose cuda, cpu or auto")
    count = torch.cuda.device_count()
    if group.local_size > count:
        raise UserError(
            f"this machine has {count} GPUs for {group.local_size} processes; start one process per GPU, or choose "
            "training.device=cpu"
        )
    device = torch.device(device.type, group.local_rank)
    torch.cuda.set_device(device)  # otherwise, pinned memory would occupy the first GPU for all processes
    return device


def check_compiler(device: torch.device) -> None:
    """Raise a `UserError` if `torch.compile` does not work on this machine, for example without a C++ compiler.

    Args:
        device: The device of the training.
    """
    try:
        torch.compile(torch.nn.functional.silu)(torch.ones(2, device=device))
    except Exception as error:
        reason = next(filter(None, map(str.strip, str(error).splitlines())), type(error).__name__)
        raise UserError(
            f"training.compile: torch.compile does not work on this machine: {reason}; set training.compile=false"
        ) from None


def check_equal(group: ProcessGroup, experiment: Experiment, path: Path, run: Run | None, device: torch.device) -> None:
    """Raise a `UserError` unless all processes have the same versions, devices, settings and run directory.

    Args:
        group: The processes.
        experiment: The settings.
        path: The run directory.
        run: The run that this process sees in it. A shared folder may show an earlier checkpoint on some machines.
        device: The device of this process.
    """
    state = f"with a run after step {run.progress.step}" if run else "without a run"
    own = {
        "Regard": __version__,
        "PyTorch": torch.__version__,
        "the device": device.type,
        "the settings": hashlib.sha256(dump_experiment(experiment).encode()).hexdigest()[:12],
        "the run directory": f"{path} {state}",
    }
    first, *others = group.gather([platform.node(), own])
    for rank, (machine, values) in enumerate(others, start=1):
        for name, value in values.items():
            if value != first[1][name]:
                raise UserError(
                    f"process {rank} (on {machine}) differs from process 0 (on {first[0]}) in {name}: {value}, not "
                    f"{first[1][name]}; all processes need the same versions, devices, settings and folders"
                )


def check_data(run: Run, digests: Mapping[Split, str]) -> None:
    """Raise a `UserError` unless the data of this machine is that which process 0 has read.

    Args:
        run: The run directory, which has the digests of process 0.
        digests: Those of the splits on this machine.
    """
    for split, digest in digests.items():
        if digest != run.data_digests.get(split):
            raise UserError(
                f"{platform.node()}: data.{split} differs from the {split} split that process 0 has read; all machines "
                "need the same data"
            )


def check_batches(group: ProcessGroup, examples: Sequence[Example], batch_tokens: int) -> None:
    """Raise a `UserError` if batches have, on average, fewer sentences than there are processes.

    Args:
        group: The processes.
        examples: The training split.
        batch_tokens: `training.batch_tokens`.
    """
    if group.size == 1:
        return
    sentences = len(examples) / Batches(examples, batch_tokens=batch_tokens, seed=0).per_epoch
    if sentences < group.size:
        raise UserError(
            f"{group.size} processes are too many: batches of {batch_tokens:,} tokens (training.batch_tokens) have "
            f"{sentences:.1f} sentences on average; choose fewer processes or larger batches"
        )


def settings_stamp(path: Path) -> str:
    """A digest of `run.json` and `config.yaml`, by which other machines see whether they have the same.

    Args:
        path: The run directory.
    """
    contents = [read_file(path / name, bytes) for name in ("run.json", "config.yaml")]
    return hashlib.sha256(b"\0".join(contents)).hexdigest()


def open_shared(path: Path, stamp: str) -> Run:
    """Open the run directory that another process has written, which may take a moment to be visible here.

    Args:
        path: The run directory.
        stamp: The `settings_stamp` there.
    """
    give_up_at = time.monotonic() + SHARED_FOLDER_DELAY
    while not ((path / "run.json").exists() and settings_stamp(path) == stamp):
        if time.monotonic() > give_up_at:
            raise UserError(
                f"{path}: process 0 has written this run directory, which is not visible on {platform.node()}; choose "
                "a folder that all machines share (--out)"
            )
        time.sleep(POLL_INTERVAL)
    return Run(path)
