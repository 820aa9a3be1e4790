"""What a Dask worker does: start the process of a job, relay its progress, and stop it when requested.

The process stops as well when the one that has started the study is gone: that one increases a counter in a variable
of Dask as long as it lives. If the Dask worker itself is killed, the pipes of the process are closed, and it saves its
state and stops.
"""

from __future__ import annotations

import signal
import socket
from importlib.metadata import version
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import NamedTuple

from distributed import Reschedule, Status, Variable, Worker, get_client, get_worker

import regard
from regard.workers.job import STOPPED
from regard.workers.local import WorkerProcess

TERMINATED = (STOPPED, -signal.SIGTERM)  # exit codes after SIGTERM
CLOSING = (Status.closing_gracefully, Status.closing, Status.closed)  # a worker at the end of its lifetime, for example
LOOK_INTERVAL = 1.0  # seconds between two looks at the variable


class Session(NamedTuple):
    """What tasks need to know.

    Args:
        name: The name of the variable that they read, and of the topic that they report to.
        token: A folder in the shared folder.
        versions: Those that workers must have, by package.
        lease: Seconds without a heartbeat after which processes stop.
    """

    name: str
    token: str
    versions: dict[str, str]
    lease: float


def regard_version() -> str:
    """The version of Regard, as the scheduler has it."""
    return regard.__version__


def installed_versions() -> dict[str, str]:
    """The versions on which the results depend."""
    return {"Regard": regard_version(), "PyTorch": version("torch")}


def unfit_worker(session: Session, dask_worker: Worker) -> str:
    """Why this worker cannot run jobs of a session; empty if it can.

    Args:
        session: The session.
        dask_worker: The worker; `Client.run` adds an argument of this name.
    """
    here = f"the worker {dask_worker.address} on {socket.gethostname()}"
    for package, found in installed_versions().items():
        if found != session.versions[package]:
            return f"{here} has {package} {found}, and this process has {session.versions[package]}; install the same"
    if not Path(session.token).is_dir():
        folder = Path(session.token).parent
        return f"{here} does not see the folder {folder}; choose one that all machines share under this path"
    return ""


def run_task(session: Session, number: int, module: str, request: str) -> tuple[int, str]:
    """Run the process of a job.

    Args:
        session: The session of the job.
        number: The number of the job in this session.
        module: The module of its process.
        request: Its request.

    Returns:
        The exit code and the standard error of the process.

    Raises:
        Reschedule: The worker closes, or the process was terminated, as all are when a machine is shut down: another
            worker continues.
    """
    worker = get_worker()
    if reason := unfit_worker(session, worker):  # it may have joined after the others were checked
        return 1, reason
    worker.log_event(session.name, {"job": number, "started_at": worker.address})
    watched, ended = Variable(session.name, client=get_client()), Event()
    process = WorkerProcess(module, request)
    Thread(target=_stop_when_requested, args=(session, number, worker, watched, process, ended), daemon=True).start()
    try:
        for line in process.lines():
            worker.log_event(session.name, {"job": number, "line": line})
    finally:
        ended.set()
    end = process.wait()
    if end.code in TERMINATED and (worker.status in CLOSING or not process.stop_requested):
        raise Reschedule
    return end


def _stop_when_requested(
    session: Session, number: int, worker: Worker, watched: Variable, process: WorkerProcess, ended: Event
) -> None:
    """Stop a process when the variable contains its number or does not change any more, or when the worker closes.

    Dask would wait up to half a minute for the threads of a worker that closes.
    """
    latest, changed_at = 0, monotonic()
    while not ended.wait(LOOK_INTERVAL):
        try:
            beat, stopping = watched.get(timeout=LOOK_INTERVAL)
        except Exception:  # there is no such variable any more, or no scheduler
            beat, stopping = latest, ()
        if beat != latest:
            latest, changed_at = beat, monotonic()
        if number in stopping or monotonic() - changed_at > session.lease or worker.status in CLOSING:
            process.request_stop()
