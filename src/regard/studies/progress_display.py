"""Progress of a study: a table on a terminal or in a notebook, lines of text elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING

from regard.errors import escape_controls
from regard.studies.definition import Study
from regard.studies.jobs import TrainingJob
from regard.terminal.notebook import NotebookOutput, in_notebook
from regard.terminal.output import print_error, print_message
from regard.terminal.progress import LOG_INTERVAL, InterruptHandler, new_console
from regard.workers.job import seconds_left
from regard.workers.runner import Executor, JobObserver

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

NOTEBOOK_INTERVAL = 1.0  # seconds between two updates of a notebook
COLUMNS = ("run", "seed", "phase", "done", "rate", "left")


def job_name(job: TrainingJob) -> str:
    """What a job is called in messages.

    Args:
        job: One of a study's.
    """
    return f"{job.label}, seed {job.seed}"


def failure_lines(job: TrainingJob) -> list[str]:
    """The error of a failed job, in one line or several; none of other jobs.

    Args:
        job: One of a study's.
    """
    return [f"{job_name(job)} failed: {line}" for line in job.error.splitlines()] if job.state == "failed" else []


def print_failure(job: TrainingJob) -> None:
    """Print the error of a failed job.

    Args:
        job: One of a study's.
    """
    for line in failure_lines(job):
        print_error(f"regard: {line}")


def format_duration(seconds: float) -> str:
    """`0:05` or `1:00:05`.

    Args:
        seconds: The duration.
    """
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


def job_progress(job: TrainingJob) -> list[str]:
    """The phase, how much is done, the rate and, if it is known, the time left.

    Args:
        job: A running job.
    """
    unit = {"training": "steps", "evaluating": "sentences"}.get(job.phase, "pairs")
    of_total = f"/{job.total:,}" if job.total is not None else ""
    left = [f"{format_duration(job.seconds_left)} left"] if job.seconds_left is not None else []
    return [job.phase or "starting", f"{job.done:,}{of_total} {unit}", f"{job.rate:,.1f} {unit}/s", *left]


class SilentStudyObserver:
    """Shows nothing, and stops the study after a signal.

    Args:
        interrupts: Whether a signal wants the study to stop.
    """

    def __init__(self, interrupts: InterruptHandler) -> None:
        self.interrupts = interrupts

    def job_changed(self, job: TrainingJob) -> None:
        pass

    def polled(self, jobs: Sequence[TrainingJob]) -> None:
        pass

    def should_stop(self) -> bool:
        return bool(self.interrupts.signal)


class PlainStudyObserver(SilentStudyObserver):
    """Prints a line when a run starts or ends, and the progress from time to time.

    Args:
        study: The study.
        executor: What runs the jobs.
        interrupts: Whether a signal wants the study to stop.
    """

    def __init__(self, study: Study, executor: Executor, interrupts: InterruptHandler) -> None:
        super().__init__(interrupts)
        self.study, self.executor = study, executor
        self.printed_at = time.monotonic()

    def job_changed(self, job: TrainingJob) -> None:
        after = f" after {format_duration(job.seconds)}" if job.state not in ("running", "waiting") else ""
        after = " again, because its worker was lost" if job.state == "waiting" else after
        self.print_line(f"{job_name(job)}: {job.state}{after}")
        print_failure(job)

    def polled(self, jobs: Sequence[TrainingJob]) -> None:
        if time.monotonic() - self.printed_at >= LOG_INTERVAL:
            for job in jobs:
                if job.state == "running":
                    self.print_line(f"{job_name(job)}: {'  '.join(job_progress(job))}")
            self.print_line(self.summary(jobs))

    def summary(self, jobs: Sequence[TrainingJob]) -> str:
        known = ("done", "running", "waiting", "failed", "stopped")
        counts = {state: sum(job.state == state for job in jobs) for state in known}
        states = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        left = seconds_left(jobs, self.executor.slots)
        estimate = f"; about {format_duration(left)} left" if left else ""
        return f"{self.study.name}: {len(jobs)} runs: {states}{estimate}"

    def print_line(self, line: str) -> None:
        self.printed_at = time.monotonic()
        print_message(line)


class LiveStudyObserver(PlainStudyObserver):
    """Shows a table of the running jobs on the terminal, refreshed a few times per second.

    Args:
        study: The study.
        executor: What runs the jobs.
        interrupts: Whether a signal wants the study to stop.
    """

    def __init__(self, study: Study, executor: Executor, interrupts: InterruptHandler) -> None:
        super().__init__(study, executor, interrupts)
        from rich.live import Live

        self.live: Live = Live(console=new_console(), transient=True, auto_refresh=False, redirect_stdout=False)

    def job_changed(self, job: TrainingJob) -> None:
        if job.state != "running":
            super().job_changed(job)

    def polled(self, jobs: Sequence[TrainingJob]) -> None:
        self.live.update(self.table(jobs), refresh=True)

    def table(self, jobs: Sequence[TrainingJob]) -> Table:
        from rich.markup import escape as escape_markup
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        table = Table(title=escape_markup(escape_controls(self.summary(jobs))), title_justify="left", box=None)
        for name in (*COLUMNS[:3], "", *COLUMNS[3:]):
            table.add_column(name, justify="right" if name in ("seed", "done", "rate", "left") else "left")
        for job in jobs:
            if job.state == "running":
                phase, done, rate, *left = job_progress(job)
                bar = ProgressBar(total=job.total or 1, completed=job.done if job.total else 0, width=24)
                table.add_row(escape_markup(escape_controls(job.label)), str(job.seed), phase, bar, done, rate, *left)
        return table

    def print_line(self, line: str) -> None:
        self.live.console.print(escape_controls(line), highlight=False, markup=False)


class NotebookStudyObserver(PlainStudyObserver):
    """Shows a table of the running jobs below the cell of a notebook. Only failures are printed.

    Args:
        study: The study.
        executor: What runs the jobs.
        interrupts: Whether a signal wants the study to stop.
    """

    def __init__(self, study: Study, executor: Executor, interrupts: InterruptHandler) -> None:
        super().__init__(study, executor, interrupts)
        self.output = NotebookOutput()
        self.shown_at = 0.0

    def job_changed(self, job: TrainingJob) -> None:
        self.shown_at = 0.0  # the next update is due, so that the last change is shown, too
        print_failure(job)

    def polled(self, jobs: Sequence[TrainingJob]) -> None:
        if time.monotonic() - self.shown_at >= NOTEBOOK_INTERVAL:
            self.shown_at = time.monotonic()
            running = [job for job in jobs if job.state == "running"]
            summary = self.summary(jobs) + ("; stopping" if running and self.interrupts.signal else "")
            self.output.show(summary, self.running_html(running, summary))

    def running_html(self, running: Sequence[TrainingJob], summary: str) -> str:
        from regard.reports.report_page import Table

        if not running:
            return f"<p>{escape(summary)}</p>"
        rows = [(job.label, str(job.seed), *job_progress(job), "")[: len(COLUMNS)] for job in running]
        return Table(COLUMNS, tuple(rows), summary)._repr_html_()


@contextmanager
def study_observer(
    study: Study, executor: Executor, interrupts: InterruptHandler, *, shown: bool = True
) -> Iterator[JobObserver[TrainingJob]]:
    """An observer that shows a table in a notebook or on a terminal, and prints plain lines elsewhere.

    Args:
        study: The study.
        executor: What runs the jobs.
        interrupts: Whether a signal wants the study to stop.
        shown: False to show nothing.
    """
    if not shown:
        yield SilentStudyObserver(interrupts)
    elif in_notebook():
        yield NotebookStudyObserver(study, executor, interrupts)
    elif not sys.stderr.isatty():
        yield PlainStudyObserver(study, executor, interrupts)
    else:
        observer = LiveStudyObserver(study, executor, interrupts)
        with observer.live:
            yield observer
