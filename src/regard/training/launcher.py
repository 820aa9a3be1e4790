"""Starts the processes of one machine, as `torchrun` does, and starts them again when one of them was killed."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from torch.distributed.elastic.multiprocessing.api import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from regard.errors import UserError
from regard.runs import STATE, read_progress
from regard.terminal.output import note
from regard.terminal.progress import SIGNALS, print_stopping

ATTEMPTS = 3  # without a new checkpoint in between
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
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if loopback := [name for _, name in socket.if_nameindex() if name in LOOPBACK]:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback[0])  # the name of a machine may have no address
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(SHUTDOWN))
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # of lost connections, it warns at length, too
    try:
        _raise_on_signals()
        return _run_until_done(_launch_config(processes), path, arguments)
    except SignalException as stopped:
        return 128 + stopped.sigval


def _launch_config(processes: int) -> LaunchConfig:
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
    config.signals_to_handle = ""  # see `_raise_on_signals`; versions of PyTorch without this option handle them
    return config


def _raise_on_signals() -> None:
    """Raise `SignalException` for a signal: the agent then sends one to all processes, and waits for their ends.

    The first one stops them after their step, a second one at once, and a third one ends the launcher. The agent itself
    would also handle SIGHUP, which `nohup` has the launcher ignore, and would wait forever after a third signal.
    """
    received = count(1)

    def handle(number: int, frame: object) -> None:
        match next(received):
            case 1:
                print_stopping()
            case 3:
                os._exit(128 + number)
        raise SignalException(f"signal {number}", signal.Signals(number))

    for number in SIGNALS:
        signal.signal(number, handle)


def _run_until_done(config: LaunchConfig, path: Path, arguments: Sequence[str]) -> int:
    failures, step = 0, _saved_step(path)
    while True:
        try:
            elastic_launch(config, sys.executable)("-P", "-m", "regard", *arguments)
        except ChildFailedError as error:
            rank, failure = error.get_first_failure()
            if failure.exitcode >= 0:
                return failure.exitcode  # the process has printed the reason
            if -failure.exitcode in SIGNALS:  # before it could handle them; others are failures
                return 128 - failure.exitcode
            before, step = step, _saved_step(path)
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


def _saved_step(path: Path) -> int:
    try:
        return read_progress(path / STATE).step
    except UserError:
        return 0  # the first process prints what is wrong
