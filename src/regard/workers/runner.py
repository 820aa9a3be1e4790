"""Run jobs, several at a time. A job that fails does not stop the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from enum import Enum
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVar

from regard.errors import UserError
from regard.workers.job import JobEnd, WorkerJob

POLL_INTERVAL = 0.2  # seconds
Job = TypeVar("Job", bound=WorkerJob)
Observed = TypeVar("Observed", bound=WorkerJob, contravariant=True)


class JobEvent(Enum):
    """What happens to the process of a job before it ends."""

    STARTED = "started"
    LOST = "lost"  # with its machine; it waits for another one


# A line of progress, an event, the end, or an error that ends all jobs.
Report = str | JobEvent | JobEnd | UserError
Events = SimpleQueue[tuple[Job, Report]]


class Executor(Protocol):
    """Runs the processes of jobs, on this machine or elsewhere."""

    @property
    def slots(self) -> int:
        """How many jobs run at a time."""

    def start(self, job: Job, events: Events[Job]) -> None:
        """Start a process, or let it wait until there is a place for it; report what happens to it."""

    def request_stop(self, job: WorkerJob) -> None:
        """Let the process of a job save its state and end. The end is reported."""


class JobObserver(Protocol[Observed]):
    """Receives the progress of jobs, and may stop them."""

    def job_changed(self, job: Observed) -> None:
        """Called when a job has started or ended, or waits again because its machine was lost."""

    def polled(self, jobs: Sequence[Observed]) -> None:
        """Called a few times per second."""

    def should_stop(self) -> bool: ...


def run_jobs(jobs: Sequence[Job], executor: Executor, observer: JobObserver[Job]) -> None:
    """Run all waiting jobs until they have ended or the observer wants to stop.

    Args:
        jobs: All jobs; those that are not waiting are left alone.
        executor: Runs their processes.
        observer: Receives the progress.

    Raises:
        UserError: The executor cannot run jobs any more.
    """
    events: Events[Job] = SimpleQueue()
    active: list[Job] = []
    waiting = [job for job in jobs if job.state == "waiting"]
    try:
        while waiting or active:
            if observer.should_stop():
                waiting.clear()
                for job in active:
                    executor.request_stop(job)
            while waiting and len(active) < executor.slots:
                active.append(waiting.pop(0))
                active[-1].prepare()
                executor.start(active[-1], events)
            for job, report in _new_events(events):
                if job not in active:
                    continue  # its worker was lost just after the end
                if isinstance(report, UserError):
                    raise report
                if isinstance(report, str):
                    job.update(report)
                    continue
                if isinstance(report, JobEnd):
                    job.finish(report)
                    active.remove(job)
                elif report is JobEvent.STARTED:
                    job.start()
                else:
                    job.state = "waiting"
                observer.job_changed(job)
            observer.polled(jobs)
    finally:
        for job in active:  # after an exception here: the processes save their state
            executor.request_stop(job)


def _new_events(events: Events[Job]) -> Iterator[tuple[Job, Report]]:
    """All new events, after at most one poll interval."""
    with suppress(Empty):
        yield events.get(timeout=POLL_INTERVAL)
        while True:
            yield events.get_nowait()
