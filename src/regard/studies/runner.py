"""Run a study: each run is a process of its own, several at a time. A run that fails does not stop the others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryFile
from threading import Thread
from typing import IO, Any, Literal, Protocol

from regard import files
from regard.errors import UserError
from regard.runs import Run
from regard.studies.definition import Study, run_name
from regard.studies.worker import STOP, STOPPED, WorkerRequest

POLL_INTERVAL = 0.2  # seconds
# -P: a file in the current folder is not imported because of its name.
COMMAND = [sys.executable, "-P", "-m", "regard.studies.worker"]
NEW_PROCESS_GROUP = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)  # on Windows
State = Literal["waiting", "running", "done", "failed", "stopped"]


@dataclass(eq=False)  # no two jobs are equal
class TrainingJob:
    """One run of a study and its progress.

    Args:
        label: The label of its condition, without the options of `test`.
        seed: The seed.
        request: What its process is to do.
        state: Where it is in its life cycle.
        phase: What its process is doing.
        done: Steps, sentences or pairs of this phase that are done.
        total: All steps, sentences or pairs of this phase; None if unknown.
        phase_start: `done` when the phase began: earlier work does not count in the rate.
        phase_began: When the phase began.
        began: When the process began.
        seconds: Duration of the process.
        error: Its error message.
        stop_requested: Whether it has been requested to stop.
        process: Its process.
        stderr: A temporary file with its standard error.
        run: The opened run, if it is of an older version: it was opened to find it by its settings.
    """

    label: str
    seed: int
    request: WorkerRequest
    state: State = "waiting"
    phase: str = ""
    done: int = 0
    total: int | None = None
    phase_start: int = 0
    phase_began: float = 0.0
    began: float = 0.0
    seconds: float = 0.0
    error: str = ""
    stop_requested: bool = False
    process: subprocess.Popen[str] | None = field(default=None, repr=False)
    stderr: IO[bytes] | None = field(default=None, repr=False)
    run: Run | None = field(default=None, repr=False)

    @property
    def path(self) -> Path:
        return self.request.path

    @property
    def run_name(self) -> str:
        """The same for the same settings, whatever the run directory is called."""
        return run_name(self.request.experiment)

    @property
    def log(self) -> Path:
        """The file with the error output of a failed process."""
        return self.path.parent / f"{self.path.name}.log"

    @property
    def rate(self) -> float:
        """Units per second in this phase."""
        return (self.done - self.phase_start) / max(time.monotonic() - self.phase_began, 1e-9)

    @property
    def seconds_left(self) -> float | None:
        """Seconds left in this phase; None: unknown."""
        return (self.total - self.done) / self.rate if self.total is not None and self.rate > 0 else None

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

    def load_failure(self) -> None:
        """Set the state to failed if the run is not done and its last process has left a log."""
        if self.state == "waiting" and self.log.is_file():
            errors = files.read_file(self.log, lambda content: content.decode(errors="replace"))
            self.state, self.error = "failed", _error_summary(errors, 1)


Events = SimpleQueue[tuple[TrainingJob, str | None]]  # a line that a job's process has written; None: it has ended


class StudyObserver(Protocol):
    """Receives the progress of a study, and may stop it."""

    def job_changed(self, job: TrainingJob) -> None:
        """Called when a job has started or ended."""

    def polled(self, jobs: Sequence[TrainingJob]) -> None:
        """Called a few times per second."""

    def should_stop(self) -> bool: ...


def training_jobs(study: Study, runs: Path) -> list[TrainingJob]:
    """One job for each run of a study, those of the first seed first.

    Args:
        study: The study.
        runs: The folder of all run directories. Studies may share it: equal experiments are one run.
    """
    jobs: dict[Path, TrainingJob] = {}
    names = {condition.run_name(seed) for seed in study.seeds for condition in study.conditions}
    old_runs = find_old_runs(runs) if any(not (runs / name).exists() for name in names) else {}
    for seed in study.seeds:
        for condition in study.conditions:
            path = runs / condition.run_name(seed)
            old_run = None if path.exists() else old_runs.get(path.name)
            path = old_run.path if old_run else path
            if path not in jobs:
                request = WorkerRequest(path, condition.with_seed(seed), [])
                jobs[path] = TrainingJob(study.training_label(condition), seed, request, run=old_run)
            if condition.evaluation not in jobs[path].request.evaluations:
                jobs[path].request.evaluations.append(condition.evaluation)
    for job in jobs.values():
        job.state = "waiting" if job.request.pending() else "done"
    return list(jobs.values())


def find_old_runs(runs: Path) -> dict[str, Run]:
    """The runs of older versions by the names that they would have now: a version may have other settings.

    Those with code outside Regard are left out, because it may have changed since.

    Args:
        runs: The folder of all run directories.
    """
    found: dict[str, Run] = {}
    for file in sorted(runs.glob("*/run.json")):
        try:
            run = Run(file.parent)
        except UserError:  # of a later version, or damaged
            continue
        if not run.code:
            found.setdefault(run_name(run.experiment), run)
    return found


def run_jobs(jobs: Sequence[TrainingJob], at_once: int, observer: StudyObserver) -> None:
    """Run all waiting jobs until they have ended or the observer wants to stop.

    Args:
        jobs: Of one study; those that are not waiting are left alone.
        at_once: How many processes run at a time.
        observer: Receives the progress.
    """
    events: Events = SimpleQueue()
    running: list[TrainingJob] = []
    waiting = [job for job in jobs if job.state == "waiting"]
    try:
        while waiting or running:
            if observer.should_stop():
                waiting.clear()
                for job in running:
                    _request_stop(job)
            while waiting and len(running) < at_once:
                running.append(waiting.pop(0))
                _start_job(running[-1], events)
                observer.job_changed(running[-1])
            for job, line in _new_events(events):
                if line is not None:
                    job.update(line)
                else:
                    _finish_job(job)
                    running.remove(job)
                    observer.job_changed(job)
            observer.polled(jobs)
    finally:
        for job in running:  # after an exception here: the processes save their state
            _request_stop(job)


def seconds_left(jobs: Sequence[TrainingJob], at_once: int) -> float | None:
    """An estimate for the whole study; None: nothing is known yet. Unknown runs take as long as the known ones.

    Args:
        jobs: All jobs of the study.
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
    return (sum(under_way) + unknown * sum(known) / len(known)) / min(at_once, max(len(running) + waiting, 1))


def _start_job(job: TrainingJob, events: Events) -> None:
    job.path.parent.mkdir(parents=True, exist_ok=True)
    job.stderr = TemporaryFile()  # noqa: SIM115 (closed when the process has ended)
    process = subprocess.Popen(
        COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=job.stderr,
        encoding="utf-8",
        errors="replace",
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        # Ctrl-C is for this process alone, which then stops the others.
        start_new_session=True,
        creationflags=NEW_PROCESS_GROUP,
    )
    job.process, job.state, job.began, job.phase = process, "running", time.monotonic(), ""
    job.run = None  # the process changes its files: open it again
    Thread(target=_read_output, args=(job, process, events), daemon=True).start()
    _write_line(process, job.request.dump())


def _write_line(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin
    with suppress(OSError, ValueError):  # the process may have ended
        process.stdin.write(f"{line}\n")
        process.stdin.flush()


def _read_output(job: TrainingJob, process: subprocess.Popen[str], events: Events) -> None:
    assert process.stdout
    try:
        with process.stdout as lines:
            for line in lines:
                events.put((job, line))
        process.wait()
    finally:
        events.put((job, None))


def _new_events(events: Events) -> Iterator[tuple[TrainingJob, str | None]]:
    """All new events, after at most one poll interval."""
    with suppress(Empty):
        yield events.get(timeout=POLL_INTERVAL)
        while True:
            yield events.get_nowait()


def _request_stop(job: TrainingJob) -> None:
    if job.process and not job.stop_requested:
        job.stop_requested = True
        _write_line(job.process, STOP)


def _finish_job(job: TrainingJob) -> None:
    """Set the state of a job whose process has ended."""
    assert job.process
    assert job.process.stdin
    assert job.stderr
    code = job.process.returncode
    with suppress(OSError):
        job.process.stdin.close()
    with job.stderr as file:
        file.seek(0)
        errors = file.read().decode(errors="replace").strip()
    job.seconds, job.process, job.stderr = time.monotonic() - job.began, None, None
    if code == 0 and not job.request.pending():
        job.state = "done"
    elif code == STOPPED:
        job.state = "stopped"
    else:
        job.state, job.error = "failed", _error_summary(errors, code)
    if job.state == "failed":
        files.write_atomic(job.log, f"{errors or job.error}\n".encode())
    else:
        job.log.unlink(missing_ok=True)


def _error_summary(errors: str, code: int) -> str:
    """The error output of a process, or the last line of a traceback, or how the process ended."""
    errors = errors.strip()
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    if "Traceback (most recent call last)" in errors:
        return errors.splitlines()[-1]
    return errors or (f"ended with code {code}" if code else "ended without a result")
