"""Conducting a study: each run is a process of its own, some at a time; one that fails does not stop the rest."""

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
from regard.studies.definition import Study
from regard.studies.worker import STOPPED, Request

LOOK_EVERY = 0.2  # seconds
# -P: a file in the folder where we are is not taken for a module because of its name.
COMMAND = [sys.executable, "-P", "-m", "regard.studies.worker"]
State = Literal["waiting", "running", "done", "failed", "stopped"]


@dataclass(eq=False)  # two are never the same
class TrainingJob:
    """One run: what is asked of it, and how far it has come."""

    label: str  # of its condition, without what is only about exams
    seed: int
    request: Request
    state: State = "waiting"
    doing: str = ""
    done: int = 0
    total: int | None = None
    first: int = 0  # `done` when this work began: what was done before tells nothing of the rate
    phase_began: float = 0.0
    began: float = 0.0
    seconds: float = 0.0  # from its start to its end, this time
    error: str = ""
    asked: bool = False  # to stop
    process: subprocess.Popen[str] | None = field(default=None, repr=False)
    words: IO[bytes] | None = field(default=None, repr=False)  # what the process has to say besides

    @property
    def path(self) -> Path:
        return self.request.path

    @property
    def log(self) -> Path:
        """What the process had to say, if it failed."""
        return self.path.parent / f"{self.path.name}.log"

    @property
    def rate(self) -> float:
        """Of the present work, a second."""
        return (self.done - self.first) / max(time.monotonic() - self.phase_began, 1e-9)

    @property
    def left(self) -> float | None:
        """Seconds of the present work; None: not known."""
        return (self.total - self.done) / self.rate if self.total is not None and self.rate > 0 else None

    def hear(self, line: str) -> None:
        told: dict[str, Any] = json.loads(line)
        if told["doing"] != self.doing:
            self.doing, self.first, self.phase_began = told["doing"], told["done"], time.monotonic()
        self.done, self.total = told["done"], told["total"]

    def recall_failure(self) -> None:
        """What is not done, and has left a log, failed the last time."""
        if self.state == "waiting" and self.log.is_file():
            self.state, self.error = "failed", _last_words(self.log.read_text(encoding="utf-8", errors="replace"), 1)


News = SimpleQueue[tuple[TrainingJob, str | None]]  # a line that a job's process has written; None: it has ended


class StudyObserver(Protocol):
    """Whoever wants to know how a study goes, and may ask it to stop."""

    def changed(self, job: TrainingJob) -> None:
        """A job has begun, or has ended."""

    def looked(self, jobs: Sequence[TrainingJob]) -> None:
        """A moment has passed."""

    def should_stop(self) -> bool: ...


def training_jobs(study: Study, runs: Path) -> list[TrainingJob]:
    """One for each run of the study, those of the first seed first.

    `runs` is the folder of all run directories. It may serve several studies: equal experiments are one run.
    """
    jobs: dict[Path, TrainingJob] = {}
    for seed in study.seeds:
        for condition in study.conditions:
            path = runs / condition.run_name(seed)
            if path not in jobs:
                request = Request(path, condition.with_seed(seed), [])
                jobs[path] = TrainingJob(study.training_label(condition), seed, request)
            if condition.exam not in jobs[path].request.exams:
                jobs[path].request.exams.append(condition.exam)
    for job in jobs.values():
        job.state = "waiting" if job.request.left() else "done"
    return list(jobs.values())


def run_jobs(jobs: Sequence[TrainingJob], at_once: int, watcher: StudyObserver) -> None:
    """Run all jobs that are waiting, `at_once` at a time, until they have ended or the watcher wants to stop."""
    news: News = SimpleQueue()
    running: list[TrainingJob] = []
    waiting = [job for job in jobs if job.state == "waiting"]
    try:
        while waiting or running:
            if watcher.should_stop():
                waiting.clear()
                for job in running:
                    _ask_to_stop(job)
            while waiting and len(running) < at_once:
                running.append(waiting.pop(0))
                _start(running[-1], news)
                watcher.changed(running[-1])
            for job, line in _heard(news):
                if line is not None:
                    job.hear(line)
                else:
                    _end(job)
                    running.remove(job)
                    watcher.changed(job)
            watcher.looked(jobs)
    finally:
        for job in running:  # something went wrong here: they save what they have
            _ask_to_stop(job)


def seconds_left(jobs: Sequence[TrainingJob], at_once: int) -> float | None:
    """A guess: a run of which nothing is known takes as long as the others, on average. None: none is known yet."""
    now = time.monotonic()
    running = [job for job in jobs if job.state == "running"]
    under_way = [job.left for job in running if job.left is not None]
    known = [job.seconds for job in jobs if job.state == "done" and job.seconds]
    known += [now - job.began + job.left for job in running if job.left is not None]
    if not known:
        return None
    waiting = sum(job.state == "waiting" for job in jobs)
    unknown = waiting + len(running) - len(under_way)
    return (sum(under_way) + unknown * sum(known) / len(known)) / min(at_once, max(len(running) + waiting, 1))


def _start(job: TrainingJob, news: News) -> None:
    job.path.parent.mkdir(parents=True, exist_ok=True)
    job.words = TemporaryFile()  # noqa: SIM115 (closed when the process has ended)
    process = subprocess.Popen(
        COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=job.words,
        encoding="utf-8",
        errors="replace",
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        start_new_session=True,  # Ctrl-C is for this process, which then asks the others
    )
    job.process, job.state, job.began, job.doing = process, "running", time.monotonic(), ""
    Thread(target=_listen, args=(job, process, news), daemon=True).start()
    assert process.stdin
    with suppress(BrokenPipeError), process.stdin as stdin:
        stdin.write(job.request.dump())


def _listen(job: TrainingJob, process: subprocess.Popen[str], news: News) -> None:
    assert process.stdout
    try:
        with process.stdout as lines:
            for line in lines:
                news.put((job, line))
        process.wait()
    finally:
        news.put((job, None))


def _heard(news: News) -> Iterator[tuple[TrainingJob, str | None]]:
    """All that is new, after at most a moment."""
    with suppress(Empty):
        yield news.get(timeout=LOOK_EVERY)
        while True:
            yield news.get_nowait()


def _ask_to_stop(job: TrainingJob) -> None:
    if job.process and not job.asked:
        job.asked = True
        job.process.terminate()


def _end(job: TrainingJob) -> None:
    """Its process is gone: how did it end?"""
    assert job.process
    assert job.words
    code = job.process.returncode
    with job.words as words:
        words.seek(0)
        said = words.read().decode(errors="replace").strip()
    job.seconds, job.process, job.words = time.monotonic() - job.began, None, None
    if code == 0 and not job.request.left():
        job.state = "done"
    elif code == STOPPED or (job.asked and code == -signal.SIGTERM):  # which may come before it can listen
        job.state = "stopped"
    else:
        job.state, job.error = "failed", _last_words(said, code)
    if job.state == "failed":
        files.write_atomic(job.log, f"{said or job.error}\n".encode())
    else:
        job.log.unlink(missing_ok=True)


def _last_words(said: str, code: int) -> str:
    """What a process said was wrong: all of it, or the last line of a traceback."""
    said = said.strip()
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    if "Traceback (most recent call last)" in said:
        return said.splitlines()[-1]
    return said or (f"ended with code {code}" if code else "ended without a result")
