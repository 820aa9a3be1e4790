"""A job: what a process of its own is to do, and its progress."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from regard import files

STOPPED = 75  # the exit code of a worker that has been stopped: its state is saved, to continue from
State = Literal["waiting", "running", "done", "failed", "stopped"]


class JobEnd(NamedTuple):
    """How the process of a job has ended.

    Args:
        code: Its exit code; negative: the number of a signal.
        errors: Its standard error.
    """

    code: int
    errors: str = ""

    def summary(self) -> str:
        """The error output, or the last line of a traceback, or how the process ended."""
        errors = self.errors.strip()
        if self.code < 0:
            return f"ended by {signal.Signals(-self.code).name}"
        if "Traceback (most recent call last)" in errors:
            return errors.splitlines()[-1]
        return errors or (f"ended with code {self.code}" if self.code else "ended without a result")


@dataclass(eq=False)  # no two jobs are equal
class WorkerJob:
    """Base class of jobs. Jobs are idempotent: one that is run again continues from what it has saved.

    Args:
        label: What it is called in messages.
        state: Where it is in its life cycle.
        phase: What its process is doing.
        done: Units of this phase, such as steps or sentences, that are done.
        total: All units of this phase; None if unknown.
        phase_start: `done` when the phase began: earlier work does not count in the rate.
        phase_began: When the phase began.
        began: When the process began.
        seconds: Duration of the process.
        error: Its error message.
    """

    module: ClassVar[str]  # run as `python -m`; it calls `reporting.worker_main`

    label: str
    _: KW_ONLY
    state: State = "waiting"
    phase: str = ""
    done: int = 0
    total: int | None = None
    phase_start: int = 0
    phase_began: float = 0.0
    began: float = 0.0
    seconds: float = 0.0
    error: str = ""

    def request_line(self) -> str:
        """What the process is to do, as one line; the paths in it are absolute."""
        raise NotImplementedError

    def is_done(self) -> bool:
        """True if the results exist."""
        raise NotImplementedError

    @property
    def log(self) -> Path:
        """The file with the error output of a failed process."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Called before the process starts, or waits for its turn on a cluster."""
        self.began = time.monotonic()
        self.log.parent.mkdir(parents=True, exist_ok=True)

    def start(self) -> None:
        """Set the state when a process has started."""
        self.state, self.phase, self.done, self.total, self.began = "running", "", 0, None, time.monotonic()

    def update(self, line: str) -> None:
        """Take over the progress that the process has reported.

        Args:
            line: A JSON object with `phase`, `done` and `total`.
        """
        progress: dict[str, Any] = json.loads(line)
        if progress["phase"] != self.phase:
            self.phase, self.phase_start = progress["phase"], progress["done"]
            self.phase_began = time.monotonic()
        self.done, self.total = progress["done"], progress["total"]

    def finish(self, end: JobEnd) -> None:
        """Set the state when the process has ended, and write its log if it has failed.

        Args:
            end: How it has ended.
        """
        self.seconds = time.monotonic() - self.began
        if end.code == 0 and self.is_done():
            self.state = "done"
        elif end.code == STOPPED:
            self.state = "stopped"
        else:
            self.state, self.error = "failed", end.summary()
        if self.state == "failed":
            with suppress(OSError):  # a full disk must not hide this error
                files.write_atomic(self.log, f"{end.errors.strip() or self.error}\n".encode())
        else:
            self.log.unlink(missing_ok=True)

    def load_failure(self) -> None:
        """Set the state to failed if the job is not done and its last process has left a log."""
        if self.state == "waiting" and self.log.is_file():
            errors = files.read_file(self.log, lambda content: content.decode(errors="replace"))
            self.state, self.error = "failed", JobEnd(1, errors).summary()

    @property
    def rate(self) -> float:
        """Units per second in this phase."""
        return (self.done - self.phase_start) / max(time.monotonic() - self.phase_began, 1e-9)

    @property
    def seconds_left(self) -> float | None:
        """Seconds left in this phase; None: unknown."""
        return (self.total - self.done) / self.rate if self.total is not None and self.rate > 0 else None


def seconds_left(jobs: Sequence[WorkerJob], at_once: int) -> float | None:
    """An estimate for all jobs; None: nothing is known yet. Unknown jobs take as long as the known ones.

    Args:
        jobs: All jobs.
        at_once: How many processes run at a time.
    """
    now = time.monotonic()
    running = [job for job in jobs if job.state == "running"]
    under_way = [job.seconds_left for job in running if job.seconds_left is not None]
    known = [job.seconds for job in jobs if job.state == "done" and job.seconds]
    known += [now - job.began + job.seconds_left for job in running if job.seconds_left is not None]
    if not known:
        return None
    waiting = sum(job.state == "waiting" for job in jobs)
    unknown = waiting + len(running) - len(under_way)
    return (sum(under_way) + unknown * sum(known) / len(known)) / min(max(at_once, 1), max(len(running) + waiting, 1))
