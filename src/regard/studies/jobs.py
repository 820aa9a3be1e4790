"""The jobs of a study: one for each of its runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from regard.errors import UserError
from regard.runs import Run
from regard.studies.definition import Study, run_name
from regard.studies.worker import WorkerRequest
from regard.workers.job import WorkerJob


@dataclass(eq=False)
class TrainingJob(WorkerJob):
    """One run of a study and its progress.

    Args:
        label: The label of its condition, without the options of `test`.
        seed: The seed.
        request: What its process is to do.
        run: The opened run, if it is of an older version: it was opened to find it by its settings.
        state: Where it is in its life cycle.
        phase: What its process is doing.
        done: Steps, sentences or pairs of this phase that are done.
        total: All steps, sentences or pairs of this phase; None if unknown.
        phase_start: `done` when the phase began: earlier work does not count in the rate.
        phase_began: When the phase began.
        began: When the process began.
        seconds: Duration of the process.
        error: Its error message.
    """

    module: ClassVar[str] = "regard.studies.worker"

    seed: int
    request: WorkerRequest
    run: Run | None = None

    @property
    def path(self) -> Path:
        return self.request.path

    @property
    def run_name(self) -> str:
        """The same for the same settings, whatever the run directory is called."""
        return run_name(self.request.experiment)

    @property
    def log(self) -> Path:
        return self.path.parent / f"{self.path.name}.log"

    def request_line(self) -> str:
        return self.request.dump()

    def is_done(self) -> bool:
        return not self.request.pending()

    def prepare(self) -> None:
        super().prepare()
        self.run = None  # the process changes its files: open it again


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
        job.state = "done" if job.is_done() else "waiting"
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
