"""Starts the processes of one machine, as `torchrun` does, and starts them again when one of them was killed."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from torch.distributed.elastic.multiprocessing.api import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from regard.errors import UserError
from regard.process_group import LAUNCHER
from regard.runs import STATE, read_progress
from regard.terminal.output import note

ATTEMPTS = 3  # without a new checkpoint in between
STOPPED = (signal.SIGINT, signal.SIGTERM)  # by a user or a scheduler; other signals are failures
SHUTDOWN = 300  # seconds for a step, a validation and a checkpoint, before processes that should stop are killed
LOOPBACK = ("lo", "lo0")  # on Linux, on macOS


def launch(processes: int, path: Path, arguments: Sequence[str]) -> int:
    """Run a command of Regard in several processes, and again as long as they are killed and make progress.

    Args:
        processes: Their number.
        path: The run directory that they train in.
        arguments: The command and its arguments.

    Returns:
        The exit code.

    Raises:
        UserError: Processes were killed several times without progress.
    """
    logging.disable()  # the agent repeats at length what the processes have printed themselves
    os.environ[LAUNCHER] = str(os.getpid())
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if loopback := [name for _, name in socket.if_nameindex() if name in LOOPBACK]:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback[0])  # the name of a machine may have no address
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(SHUTDOWN))
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id="regard",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="localhost",
        max_restarts=0,
        logs_specs=DefaultLogsSpecs(log_dir=os.devnull),  # otherwise it leaves a temporary folder
    )
    failures, step = 0, read_progress(path / STATE).step
    while True:
        try:
            elastic_launch(config, sys.executable)("-P", "-m", "regard", *arguments)
        except SignalException as stopped:
            return 128 + stopped.sigval
        except ChildFailedError as error:
            rank, failure = error.get_first_failure()
            if failure.exitcode >= 0:
                return failure.exitcode  # the process has printed the reason
            if -failure.exitcode in STOPPED:  # before it could handle signals
                return 128 - failure.exitcode
            before, step = step, read_progress(path / STATE).step
            failures = failures + 1 if step == before else 1
            name = signal.Signals(-failure.exitcode).name
            if failures == ATTEMPTS:
                raise UserError(
                    f"{path}: process {rank} was ended by {name}, {ATTEMPTS} times without progress; SIGKILL is often "
                    "a lack of memory: use fewer processes or a smaller training.batch_tokens"
                ) from None
            note(f"process {rank} was ended by {name}; all start again from the last checkpoint (step {step:,})")
        else:
            return 0
