"""The processes of jobs on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from tempfile import TemporaryFile
from threading import Thread

from regard.errors import UserError
from regard.workers.job import JobEnd, WorkerJob
from regard.workers.reporting import STOP
from regard.workers.runner import Events, Job, JobEvent

NEW_PROCESS_GROUP = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)  # on Windows


def worker_command(module: str) -> list[str]:
    """The command of a worker.

    Args:
        module: It is run as `python -m`.
    """
    # -P: a file in the current folder is not imported because of its name.
    return [sys.executable, "-P", "-m", module]


class WorkerProcess:
    """A worker, which receives its request on standard input and writes its progress to standard output.

    Args:
        module: It is run as `python -m`.
        request: Its request, one line.
    """

    def __init__(self, module: str, request: str) -> None:
        self.stderr = TemporaryFile()  # noqa: SIM115 (closed when the process has ended)
        self.process = subprocess.Popen(
            worker_command(module),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            encoding="utf-8",
            errors="replace",
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            # Ctrl-C is for this process alone, which then stops the others.
            start_new_session=True,
            creationflags=NEW_PROCESS_GROUP,
        )
        self.stop_requested = False
        self._write_line(request)  # before a request to stop

    def lines(self) -> Iterator[str]:
        """Iterate over the lines of progress, until the process closes its standard output."""
        assert self.process.stdout
        with self.process.stdout as lines:
            yield from lines

    def request_stop(self) -> None:
        """Let the process save its state and end."""
        if not self.stop_requested:
            self.stop_requested = True
            self._write_line(STOP)

    def wait(self) -> JobEnd:
        """Wait until the process has ended."""
        code = self.process.wait()
        assert self.process.stdin
        with suppress(OSError):
            self.process.stdin.close()
        with self.stderr as file:
            file.seek(0)
            return JobEnd(code, file.read().decode(errors="replace"))

    def _write_line(self, line: str) -> None:
        assert self.process.stdin
        with suppress(OSError, ValueError):  # the process may have ended
            self.process.stdin.write(f"{line}\n")
            self.process.stdin.flush()


class LocalExecutor:
    """Runs jobs as processes of this machine.

    Args:
        slots: How many run at a time.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.processes: dict[WorkerJob, WorkerProcess] = {}

    def start(self, job: Job, events: Events[Job]) -> None:
        try:
            self.processes[job] = process = WorkerProcess(job.module, job.request_line())
        except OSError as error:
            problem = f"cannot start more than {len(self.processes)} processes: {error.strerror or error}"
            raise UserError(f"{problem}; choose fewer jobs") from error
        events.put((job, JobEvent.STARTED))
        Thread(target=self._relay, args=(job, process, events), daemon=True).start()

    def request_stop(self, job: WorkerJob) -> None:
        if process := self.processes.get(job):
            process.request_stop()

    def _relay(self, job: Job, process: WorkerProcess, events: Events[Job]) -> None:
        try:
            for line in process.lines():
                events.put((job, line))
        finally:
            end = process.wait()
            del self.processes[job]
            events.put((job, end))
