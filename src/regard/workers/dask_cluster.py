"""The processes of jobs on the workers of a Dask cluster.

A task of Dask starts the same process as on this machine, in `cluster_task.py`, and relays its progress. Dask schedules
the tasks of lost workers again, and their jobs continue from what they have saved.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

from regard import files
from regard.errors import UserError
from regard.terminal.output import note
from regard.workers.job import STOPPED, JobEnd, WorkerJob
from regard.workers.runner import Events, Job, JobEvent, Report

try:
    from distributed import Client, Future, KilledWorker, Security, Variable
    from distributed.core import rpc
    from distributed.utils import LoopRunner
except ImportError:
    raise UserError("a cluster needs Dask: pip install 'regard[cluster]'") from None

from regard.workers.cluster_task import Session, installed_versions, regard_version, run_task, unfit_worker

ADDRESS = re.compile(r"((tcp|tls)://)?(\[[0-9a-fA-F:.]+\]|[^\s/:@\[\]]+):\d{1,5}")
CONNECT_TIMEOUT = 10  # seconds until a scheduler must have answered
HEARTBEAT = 2.0  # seconds between two heartbeats of this process
LEASE = 60.0  # seconds without a heartbeat after which jobs stop
SHARED_FOLDER_DELAY = 60.0  # seconds until this machine sees the files of others; the cache of NFS keeps up to a minute


@contextmanager
def open_cluster(address: str, folder: Path) -> Iterator[DaskExecutor]:
    """An executor on a Dask cluster, whose jobs are stopped at the end of the block.

    Args:
        address: The address of the scheduler.
        folder: Where jobs write their results; all workers share it.

    Raises:
        UserError: There is no such scheduler, or a worker is unfit.
    """
    with _quiet_logs(), _open_client(address) as client, _token(folder) as token:
        session = Session(f"regard-{uuid4().hex}", str(token), installed_versions(), LEASE)
        try:
            _check_scheduler(client, address)
            _wait_for_workers(client, address)
            _check_workers(client, session)
        except OSError:
            raise lost_connection(address) from None
        with DaskExecutor(client, address, session) as executor:
            yield executor


@contextmanager
def _quiet_logs() -> Iterator[None]:
    """Keep back the log messages of Dask, such as the traceback of each lost connection; ours report what matters."""
    levels = {handler: handler.level for handler in logging.getLogger("distributed").handlers}
    for handler in levels:
        handler.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for handler, level in levels.items():
            handler.setLevel(level)


@contextmanager
def _open_client(address: str) -> Iterator[Client]:
    if not isinstance(address, str) or not ADDRESS.fullmatch(address):
        raise UserError(f"cluster: {address!r:.80} should be the address of a Dask scheduler, as tcp://HOST:8786")
    _find_scheduler(address)
    try:
        client = Client(address, timeout=CONNECT_TIMEOUT, set_as_default=False)
    except Exception as error:
        raise UserError(f"cluster: no Dask scheduler answers at {address}: {error}") from None
    try:
        yield client
    finally:
        with suppress(Exception):  # the scheduler may be gone
            client.close(timeout=CONNECT_TIMEOUT)


def _find_scheduler(address: str) -> None:
    """Raise a `UserError` if there is no scheduler. (`Client` waits forever for a server that is not one of Dask.)"""
    try:
        found = LoopRunner().run_sync(_identity, address)
    except TimeoutError:
        reason = f"no answer in {CONNECT_TIMEOUT} seconds"
    except Exception as error:
        reason = str(error.__cause__ or error)
    else:
        if "workers" in found:
            return
        reason = f"it is the address of another server of Dask, a {found.get('type')}"
    raise UserError(f"cluster: no Dask scheduler answers at {address}: {reason}")


async def _identity(address: str) -> dict[str, Any]:
    """The description that a server of Dask gives of itself."""
    async with asyncio.timeout(CONNECT_TIMEOUT):
        async with rpc(address, connection_args=Security().get_connection_args("client")) as server:
            return await server.identity()


@contextmanager
def _token(folder: Path) -> Iterator[Path]:
    """A temporary folder that workers see if they share the one that it is in."""
    folder.mkdir(parents=True, exist_ok=True)
    with files.scratch_folder(folder.absolute() / "cluster") as token:
        yield token


def _check_scheduler(client: Client, address: str) -> None:
    """Dask imports the functions of tasks in the scheduler, too."""
    try:
        found = client.run_on_scheduler(regard_version)
    except ImportError as error:
        raise UserError(f"cluster: the scheduler {address} cannot import this version of Regard: {error}") from None
    if found != regard_version():
        raise UserError(
            f"cluster: the scheduler {address} has Regard {found}, and this process has {regard_version()}; "
            "install the same"
        )


def _wait_for_workers(client: Client, address: str) -> None:
    if not client.nthreads():
        note(f"{address}: the scheduler has no workers yet; waiting for the first one")
    while not client.nthreads():
        sleep(HEARTBEAT)


def _check_workers(client: Client, session: Session) -> None:
    answers = client.run(unfit_worker, session, on_error="return")
    errors = [
        f"the worker {worker} cannot import this version of Regard: {answer}"
        if isinstance(answer, BaseException)
        else answer
        for worker, answer in answers.items()
        if not isinstance(answer, OSError)  # it has left in the meantime
    ]
    if found := list(filter(None, errors)):
        raise UserError("\n".join(f"cluster: {error}" for error in found))


class DaskExecutor:
    """Runs jobs on the workers of a Dask cluster, one on each of their threads.

    Args:
        client: The connection to the scheduler.
        address: The address of the scheduler.
        session: What tasks need to know.
    """

    def __init__(self, client: Client, address: str, session: Session) -> None:
        self.client, self.address, self.session = client, address, session
        self.variable = Variable(session.name, client=client)
        self.threads: dict[str, int] = client.nthreads()
        self.jobs: list[tuple[WorkerJob, Events[Any]]] = []  # tasks refer to jobs by their numbers
        self.futures: dict[int, Future[Any]] = {}  # of active jobs
        self.worker_of: dict[int, str] = {}  # of jobs under way
        self.stopping: list[int] = []
        self.beat = 0
        self.publishing = Lock()
        self.closed = Event()

    @property
    def slots(self) -> int:
        """The threads of all workers; later ones may add some.

        Raises:
            UserError: The scheduler is gone. Active jobs report it as well, but there may be none.
        """
        if self.client.status == "closed":
            raise lost_connection(self.address)
        return sum(self.threads.values())

    def __enter__(self) -> DaskExecutor:
        self._publish()
        self.client.subscribe_topic(self.session.name, self._relay)
        Thread(target=self._keep_alive, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the heartbeat. Jobs that are still active have been requested to stop; they read it in the variable."""
        self.closed.set()
        if not self.futures:
            with suppress(Exception):  # the scheduler may be gone
                self.variable.delete()

    def start(self, job: Job, events: Events[Job]) -> None:
        self.jobs.append((job, events))
        number = len(self.jobs) - 1
        arguments = (self.session, number, job.module, job.request_line())
        self.futures[number] = future = self.client.submit(run_task, *arguments, key=f"{self.session.name}-{number}")
        future.add_done_callback(lambda future: Thread(target=self._finish, args=(number, future), daemon=True).start())

    def request_stop(self, job: WorkerJob) -> None:
        number = next(number for number, (each, _) in enumerate(self.jobs) if each is job)
        if number not in self.stopping:
            self.stopping.append(number)
            with suppress(Exception):  # the scheduler may be gone
                self._publish()
                if number not in self.worker_of:  # it is in Dask's queue
                    self.futures[number].cancel()

    def _publish(self) -> None:
        """Set the variable that tasks read: it changes as long as this process lives."""
        with self.publishing:
            if self.client.status != "running":
                return
            self.beat += 1
            self.variable.set([self.beat, self.stopping])

    def _keep_alive(self) -> None:
        while not self.closed.wait(HEARTBEAT):
            with suppress(Exception):  # the connection may be lost: then all futures are cancelled
                self._publish()
                started = list(self.worker_of.items())
                self.threads = self.client.nthreads()
                for number, worker in started:
                    if worker not in self.threads and self.worker_of.get(number) == worker:
                        del self.worker_of[number]
                        self._report(number, JobEvent.LOST)

    def _relay(self, event: tuple[float, dict[str, Any]]) -> None:
        """Take over what a task reports: its worker when it starts, then lines of progress."""
        _, report = event
        number = report["job"]
        if number not in self.futures:
            return  # it has ended
        if "started_at" in report:
            if number in self.worker_of:
                self._report(number, JobEvent.LOST)
            self.worker_of[number] = report["started_at"]
            self._report(number, JobEvent.STARTED)
        else:
            self._report(number, report["line"])

    def _finish(self, number: int, future: Future[Any]) -> None:
        end = self._end_of(future, number)
        job, _ = self.jobs[number]
        waited_until = monotonic() + SHARED_FOLDER_DELAY
        while isinstance(end, JobEnd) and end.code == 0 and not job.is_done() and monotonic() < waited_until:
            sleep(0.5)
        self.worker_of.pop(number, None)
        del self.futures[number]
        self._report(number, end)

    def _report(self, number: int, report: Report) -> None:
        job, events = self.jobs[number]
        events.put((job, report))

    def _end_of(self, future: Future[Any], number: int) -> JobEnd | UserError:
        try:
            end = JobEnd(*future.result())
            unexpected = end.code == STOPPED and number not in self.stopping
            return JobEnd(1, f"stopped, because it saw no heartbeat for {LEASE:.0f} seconds") if unexpected else end
        except KilledWorker as error:
            times, worker = error.allowed_failures + 1, error.last_worker.address
            return JobEnd(1, f"workers lost while they ran it: {times}, the last one {worker}; see their logs")
        except Exception as error:
            if not future.cancelled():
                return JobEnd(1, f"{type(error).__name__}: {error}")
        if number in self.stopping:
            return JobEnd(STOPPED)
        return lost_connection(self.address)


def lost_connection(address: str) -> UserError:
    """The error if the scheduler is gone.

    Args:
        address: Its address.
    """
    return UserError(f"cluster: the connection to {address} is lost; running jobs save their state, to continue later")
