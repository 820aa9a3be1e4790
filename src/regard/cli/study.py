"""`regard compare` and `regard study`: what a person sees while a study is conducted, and of what it found."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from regard import files
from regard.cli.progress import LOG_INTERVAL, InterruptHandler
from regard.cli.tables import print_table
from regard.config import yaml_source
from regard.errors import UserError
from regard.studies.definition import Study
from regard.studies.parsing import continues
from regard.studies.runner import StudyObserver, TrainingJob, run_jobs, seconds_left, training_jobs

DEFINITION = "study.yaml"  # what --config reads again
MARK = "# Written by regard, which may write it anew.\n"  # one without this line is somebody's own, and stays

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table


def run_study(study: Study, out: Path, runs: Path, at_once: int, *, report_only: bool, as_json: bool) -> None:
    """Conduct what is left of a study, write its report, and print what it found."""
    jobs = training_jobs(study, runs)
    check_folder(study, out, is_there=report_only)
    if report_only:
        for job in jobs:
            job.recall_failure()
            tell_failure(job)
        report_study(study, jobs, out, as_json)
    else:
        out.mkdir(parents=True, exist_ok=True)
        with files.lock_folder(out) as alone:
            if not alone:
                raise UserError(f"{out}: another process is at work here; --report tells what is finished")
            files.write_atomic(out / DEFINITION, (MARK + study.dump()).encode())
            run_jobs_with_progress(study, jobs, at_once, out)
            report_study(study, jobs, out, as_json)
    if any(job.state == "failed" for job in jobs):
        sys.exit(1)


def check_folder(study: Study, out: Path, is_there: bool) -> None:
    """The folder of another study, or of something else, is left as it is."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: this is a file; choose another --out")
    known = definition_in(out)
    if known is None and out.is_dir() and any(out.iterdir()):
        raise UserError(f"{out}: this is not a study's folder: it has no {DEFINITION} of its own; choose another --out")
    if known is None and is_there:
        raise UserError(f"{out}: there is no such study yet; without --report it is conducted")
    if known is not None and not continues(study, known, str(out / DEFINITION)):
        raise UserError(f"{out}: this folder holds another study, told in its {DEFINITION}; choose another --out")


def definition_in(folder: Path) -> str | None:
    """What an earlier study has written there."""
    known = yaml_source.read_text_file(folder / DEFINITION)
    return known if known is not None and known.startswith(MARK) else None


def run_jobs_with_progress(study: Study, jobs: Sequence[TrainingJob], at_once: int, out: Path) -> None:
    """Train and test all that is left; Ctrl-C ends the program."""
    with InterruptHandler() as interrupts, watcher(study, at_once, interrupts) as watching:
        run_jobs(jobs, at_once, watching)
    if interrupts.signal:
        done = sum(job.state == "done" for job in jobs)
        print(f"{out}: stopped with {done} of {len(jobs)} runs done; the same command goes on", file=sys.stderr)
        sys.exit(interrupts.exit_code)


def report_study(study: Study, jobs: Sequence[TrainingJob], out: Path, as_json: bool) -> None:
    from regard.studies.report import PAGE, write_report
    from regard.studies.results import collect_results
    from regard.studies.tables import all_tables, dump_json

    failed = [job for job in jobs if job.state == "failed"]
    findings = collect_results(study, jobs)
    for job in findings.failures:
        if job not in failed:
            tell_failure(job)
    if not any(cell.results for cell in findings.cells):
        print(f"regard: {out}: no run is finished, so there is nothing to report", file=sys.stderr)
        sys.exit(1 if findings.failures else 2)
    write_report(findings, out)
    if as_json:
        print(dump_json(findings))
        return
    for table in all_tables(findings):
        print_table(table.head, table.rows, title=table.caption)
        print()
    print(f"{out / PAGE}: the whole report")


def tell_failure(job: TrainingJob) -> None:
    if job.state == "failed":
        for line in job.error.splitlines():
            print(f"regard: {name_of(job)} failed: {line}", file=sys.stderr)


def name_of(job: TrainingJob) -> str:
    return f"{job.label}, seed {job.seed}"


def clock(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


class PlainWatcher:
    """A line when a run begins or ends, and one now and then in between."""

    def __init__(self, study: Study, at_once: int, interrupts: InterruptHandler) -> None:
        self.study, self.at_once, self.interrupts = study, at_once, interrupts
        self.told_at = time.monotonic()

    def changed(self, job: TrainingJob) -> None:
        self.tell(f"{name_of(job)}: {job.state}{f' after {clock(job.seconds)}' if job.state != 'running' else ''}")
        tell_failure(job)

    def looked(self, jobs: Sequence[TrainingJob]) -> None:
        if time.monotonic() - self.told_at >= LOG_INTERVAL:
            for job in jobs:
                if job.state == "running":
                    self.tell(f"{name_of(job)}: {'  '.join(progress_of(job))}")
            self.tell(self.summary(jobs))

    def should_stop(self) -> bool:
        return bool(self.interrupts.signal)

    def summary(self, jobs: Sequence[TrainingJob]) -> str:
        counts = {state: sum(job.state == state for job in jobs) for state in ("done", "running", "waiting", "failed")}
        told = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        left = seconds_left(jobs, self.at_once)
        return f"{self.study.name}: {len(jobs)} runs: {told}{f'; about {clock(left)} left' if left is not None else ''}"

    def tell(self, line: str) -> None:
        self.told_at = time.monotonic()
        print(line, file=sys.stderr, flush=True)


def progress_of(job: TrainingJob) -> list[str]:
    """What it does, how much is done, the rate and, where it is known, the time left."""
    unit = {"training": "steps", "testing": "sentences"}.get(job.doing, "pairs")
    of_total = f"/{job.total:,}" if job.total is not None else ""
    left = [f"{clock(job.left)} left"] if job.left is not None else []
    return [job.doing or "starting", f"{job.done:,}{of_total} {unit}", f"{job.rate:,.1f} {unit}/s", *left]


class LiveWatcher(PlainWatcher):
    """A table of the runs under way, drawn anew a few times a second."""

    def __init__(self, study: Study, at_once: int, interrupts: InterruptHandler) -> None:
        super().__init__(study, at_once, interrupts)
        from rich.console import Console
        from rich.live import Live

        self.live: Live = Live(console=Console(stderr=True), transient=True, auto_refresh=False, redirect_stdout=False)

    def changed(self, job: TrainingJob) -> None:
        if job.state != "running":
            super().changed(job)

    def looked(self, jobs: Sequence[TrainingJob]) -> None:
        self.live.update(self.table(jobs), refresh=True)

    def table(self, jobs: Sequence[TrainingJob]) -> Table:
        from rich.markup import escape
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        table = Table(title=escape(self.summary(jobs)), title_justify="left", box=None)
        for name in ("run", "seed", "doing", "", "done", "rate", "left"):
            table.add_column(name, justify="right" if name in ("seed", "done", "rate", "left") else "left")
        for job in jobs:
            if job.state == "running":
                doing, done, rate, *left = progress_of(job)
                bar = ProgressBar(total=job.total or 1, completed=job.done if job.total else 0, width=24)
                table.add_row(escape(job.label), str(job.seed), doing, bar, done, rate, *left)
        return table

    def tell(self, line: str) -> None:
        self.live.console.print(line, highlight=False, markup=False)


@contextmanager
def watcher(study: Study, at_once: int, interrupts: InterruptHandler) -> Iterator[StudyObserver]:
    if not sys.stderr.isatty():
        yield PlainWatcher(study, at_once, interrupts)
        return
    watching = LiveWatcher(study, at_once, interrupts)
    with watching.live:
        yield watching
