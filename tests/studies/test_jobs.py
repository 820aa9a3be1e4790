"""The jobs of a study, with fake workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from regard.runs import Run
from regard.studies.definition import Study
from regard.studies.jobs import TrainingJob, training_jobs
from regard.studies.progress_display import SilentStudyObserver
from regard.terminal.progress import InterruptHandler
from regard.workers.local import LocalExecutor
from regard.workers.runner import run_jobs

Start = Callable[[str], None]


def run_locally(jobs: Sequence[TrainingJob]) -> None:
    run_jobs(jobs, LocalExecutor(2), SilentStudyObserver(InterruptHandler()))


def states(jobs: Sequence[TrainingJob]) -> list[str]:
    return [job.state for job in jobs]


def test_a_run_with_several_evaluations_is_one_job(new_study: Callable[..., Study], tmp_path: Path):
    study = new_study(vary=["model.attention.kind=none,dot"], test=["beam=1,2,3"], seeds=2)
    jobs = training_jobs(study, tmp_path)
    assert [(job.label, job.seed) for job in jobs] == [("none", 1), ("dot", 1), ("none", 2), ("dot", 2)]
    assert [[evaluation.options.beam for evaluation in job.request.evaluations] for job in jobs] == [[1, 2, 3]] * 4
    assert [job.request.experiment.training.seed for job in jobs] == [1, 1, 2, 2]
    assert len({job.path for job in jobs}) == 4


def test_equal_settings_under_other_names_are_one_run(new_study: Callable[..., Study], tmp_path: Path):
    here = training_jobs(new_study("here", vary=["model.attention.kind=dot,none"], seeds=1), tmp_path)
    there = training_jobs(new_study("there", set=["model.attention.kind=dot"], seeds=1), tmp_path)
    assert there[0].path == here[0].path != here[1].path


def test_completed_jobs_are_not_repeated(new_study: Callable[..., Study], worker: Start, tmp_path: Path):
    worker("write_results()")
    run_locally(training_jobs(new_study(seeds=2), tmp_path))
    worker("sys.exit('started') if seed < 3 else write_results()")
    grown = training_jobs(new_study(seeds=3), tmp_path)
    assert states(grown) == ["done", "done", "waiting"]
    run_locally(grown)
    assert states(grown) == ["done"] * 3
    more_evaluations = training_jobs(new_study(seeds=2, test=["beam=1,2"]), tmp_path)
    assert states(more_evaluations) == ["waiting", "waiting"]


def test_an_opened_run_is_forgotten_when_its_process_starts(
    new_study: Callable[..., Study], worker: Start, tmp_path: Path, trained: Path
):
    worker("write_results()")
    (job,) = training_jobs(new_study(seeds=1), tmp_path)
    job.run = Run(trained)
    run_locally([job])
    assert job.run is None
