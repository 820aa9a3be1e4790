"""`regard compare` and `regard study`: run a study, show its progress, and print its results."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from regard import files
from regard.config import yaml_source
from regard.errors import UserError, escape_controls
from regard.studies.definition import Study
from regard.studies.parsing import extends_study
from regard.studies.runner import StudyObserver, TrainingJob, run_jobs, seconds_left, training_jobs
from regard.terminal.output import print_message, print_result
from regard.terminal.progress import LOG_INTERVAL, InterruptHandler
from regard.terminal.tables import print_table

DEFINITION = "study.yaml"  # what --config reads again
# The first line of a definition that may be overwritten; a file without it is the user's own.
MARK = "# Written by regard, which may write it anew.\n"

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table


def run_study(study: Study, out: Path, runs: Path, at_once: int, *, report_only: bool, as_json: bool) -> None:
    """Run what is left of a study, write its report, and print its results."""
    jobs = training_jobs(study, runs)
    check_study_folder(study, out, must_exist=report_only)
    if report_only:
        for job in jobs:
            job.load_failure()
            print_failure(job)
        report_study(study, jobs, out, as_json)
    else:
        out.mkdir(parents=True, exist_ok=True)
        with files.lock_folder(out) as alone:
            if not alone:
                raise UserError(f"{out}: another process is running this study; --report shows finished runs")
            files.write_atomic(out / DEFINITION, (MARK + study.dump()).encode())
            run_jobs_with_progress(study, jobs, at_once, out)
            report_study(study, jobs, out, as_json)
    if any(job.state == "failed" for job in jobs):
        sys.exit(1)


def check_study_folder(study: Study, out: Path, must_exist: bool) -> None:
    """Refuse the folder of another study, or of something else."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: this is a file; choose another --out")
    known = read_definition(out)
    if known is None and out.is_dir() and any(out.iterdir()):
        raise UserError(
            f"{out}: this is not the folder of a study: it has no {DEFINITION} of ours; choose another --out"
        )
    if known is None and must_exist:
        raise UserError(f"{out}: there is no such study yet; run it without --report")
    if known is not None and not extends_study(study, known, str(out / DEFINITION)):
        raise UserError(f"{out}: this folder has another study, see its {DEFINITION}; choose another --out")


def read_definition(folder: Path) -> str | None:
    """The definition that an earlier `run_study` has written there, if any."""
    known = yaml_source.read_text_file(folder / DEFINITION)
    return known if known is not None and known.startswith(MARK) else None


def run_jobs_with_progress(study: Study, jobs: Sequence[TrainingJob], at_once: int, out: Path) -> None:
    """Train and evaluate what is left; Ctrl-C saves the state and ends the program."""
    with InterruptHandler() as interrupts, study_observer(study, at_once, interrupts) as observer:
        run_jobs(jobs, at_once, observer)
    if interrupts.signal:
        done = sum(job.state == "done" for job in jobs)
        message = f"{out}: stopped with {done} of {len(jobs)} runs done; run the same command again to continue"
        print_message(message)
        sys.exit(interrupts.exit_code)


def report_study(study: Study, jobs: Sequence[TrainingJob], out: Path, as_json: bool) -> None:
    """Write the report and print its tables."""
    from regard.studies.export import dump_json
    from regard.studies.report import PAGE, write_report
    from regard.studies.results import collect_results
    from regard.studies.tables import all_tables

    failed = [job for job in jobs if job.state == "failed"]
    results = collect_results(study, jobs)
    for job in results.failures:
        if job not in failed:
            print_failure(job)
    if not any(cell.results for cell in results.cells):
        print_message(f"regard: {out}: no run is finished, so there is nothing to report")
        sys.exit(1 if results.failures else 2)
    write_report(results, out)
    if as_json:
        print_result(dump_json(results))
        return
    for table in all_tables(results):
        print_table(table.head, table.rows, title=table.caption)
        print_result()
    print_result(f"{out / PAGE}: the whole report")


def print_failure(job: TrainingJob) -> None:
    if job.state == "failed":
        for line in job.error.splitlines():
            print_message(f"regard: {job_name(job)} failed: {line}")


def job_name(job: TrainingJob) -> str:
    return f"{job.label}, seed {job.seed}"


def format_duration(seconds: float) -> str:
    """`0:05` or `1:00:05`."""
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


class PlainStudyObserver:
    """Prints a line when a run starts or ends, and the progress from time to time."""

    def __init__(self, study: Study, at_once: int, interrupts: InterruptHandler) -> None:
        self.study, self.at_once, self.interrupts = study, at_once, interrupts
        self.printed_at = time.monotonic()

    def job_changed(self, job: TrainingJob) -> None:
        after = f" after {format_duration(job.seconds)}" if job.state != "running" else ""
        self.print_line(f"{job_name(job)}: {job.state}{after}")
        print_failure(job)

    def polled(self, jobs: Sequence[TrainingJob]) -> None:
        if time.monotonic() - self.printed_at >= LOG_INTERVAL:
            for job in jobs:
                if job.state == "running":
                    self.print_line(f"{job_name(job)}: {'  '.join(job_progress(job))}")
            self.print_line(self.summary(jobs))

    def should_stop(self) -> bool:
        return bool(self.interrupts.signal)

    def summary(self, jobs: Sequence[TrainingJob]) -> str:
        counts = {state: sum(job.state == state for job in jobs) for state in ("done", "running", "waiting", "failed")}
        states = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        left = seconds_left(jobs, self.at_once)
        estimate = f"; about {format_duration(left)} left" if left is not None else ""
        return f"{self.study.name}: {len(jobs)} runs: {states}{estimate}"

    def print_line(self, line: str) -> None:
        self.printed_at = time.monotonic()
        print_message(line)


def job_progress(job: TrainingJob) -> list[str]:
    """The phase, how much is done, the rate and, if it is known, the time left."""
    unit = {"training": "steps", "evaluating": "sentences"}.get(job.phase, "pairs")
    of_total = f"/{job.total:,}" if job.total is not None else ""
    left = [f"{format_duration(job.seconds_left)} left"] if job.seconds_left is not None else []
    return [job.phase or "starting", f"{job.done:,}{of_total} {unit}", f"{job.rate:,.1f} {unit}/s", *left]


class LiveStudyObserver(PlainStudyObserver):
    """Shows a table of the running jobs on the terminal, refreshed a few times per second."""

    def __init__(self, study: Study, at_once: int, interrupts: InterruptHandler) -> None:
        super().__init__(study, at_once, interrupts)
        from rich.console import Console
        from rich.live import Live

        self.live: Live = Live(console=Console(stderr=True), transient=True, auto_refresh=False, redirect_stdout=False)

    def job_changed(self, job: TrainingJob) -> None:
        if job.state != "running":
            super().job_changed(job)

    def polled(self, jobs: Sequence[TrainingJob]) -> None:
        self.live.update(self.table(jobs), refresh=True)

    def table(self, jobs: Sequence[TrainingJob]) -> Table:
        from rich.markup import escape
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        table = Table(title=escape(escape_controls(self.summary(jobs))), title_justify="left", box=None)
        for name in ("run", "seed", "phase", "", "done", "rate", "left"):
            table.add_column(name, justify="right" if name in ("seed", "done", "rate", "left") else "left")
        for job in jobs:
            if job.state == "running":
                phase, done, rate, *left = job_progress(job)
                bar = ProgressBar(total=job.total or 1, completed=job.done if job.total else 0, width=24)
                table.add_row(escape(escape_controls(job.label)), str(job.seed), phase, bar, done, rate, *left)
        return table

    def print_line(self, line: str) -> None:
        self.live.console.print(escape_controls(line), highlight=False, markup=False)


@contextmanager
def study_observer(study: Study, at_once: int, interrupts: InterruptHandler) -> Iterator[StudyObserver]:
    """A live table on a terminal, plain lines elsewhere."""
    if not sys.stderr.isatty():
        yield PlainStudyObserver(study, at_once, interrupts)
        return
    observer = LiveStudyObserver(study, at_once, interrupts)
    with observer.live:
        yield observer
