"""Starting, failing and stopping jobs, with fake workers that take a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from regard.runs import Run
from regard.studies import runner
from regard.studies.definition import Study
from regard.studies.runner import TrainingJob, run_jobs, seconds_left, training_jobs
from regard.studies.worker import STOPPED

Start = Callable[[str], None]


class RecordingCallback:
    """Records its calls, and stops once `stop(jobs)` is true."""

    def __init__(self, stop: Callable[[Sequence[TrainingJob]], bool] = lambda jobs: False) -> None:
        self.stop, self.stopping = stop, False
        self.changes: list[tuple[str, int, str]] = []
        self.most_at_once = 0
        self.progress_reports: set[tuple[int, int | None]] = set()

    def job_changed(self, job: TrainingJob) -> None:
        self.changes.append((job.label, job.seed, job.state))

    def polled(self, jobs: Sequence[TrainingJob]) -> None:
        self.most_at_once = max(self.most_at_once, sum(job.state == "running" for job in jobs))
        self.progress_reports |= {(job.done, job.total) for job in jobs}
        self.stopping = self.stopping or self.stop(jobs)

    def should_stop(self) -> bool:
        return self.stopping


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


def test_all_jobs_run_and_never_more_than_allowed_at_once(
    new_study: Callable[..., Study], worker: Start, tmp_path: Path
):
    worker("time.sleep(0.6); write_results()")
    jobs = training_jobs(new_study(seeds=5), tmp_path)
    callback = RecordingCallback()
    run_jobs(jobs, 2, callback)
    assert states(jobs) == ["done"] * 5
    assert callback.most_at_once == 2
    assert [change[1:] for change in callback.changes if change[2] == "running"] == [
        (n, "running") for n in range(1, 6)
    ]
    assert (3, 12) in callback.progress_reports
    assert not list(tmp_path.glob("*.log"))  # no errors


def test_completed_jobs_are_not_repeated(new_study: Callable[..., Study], worker: Start, tmp_path: Path):
    worker("write_results()")
    run_jobs(training_jobs(new_study(seeds=2), tmp_path), 2, RecordingCallback())
    worker("sys.exit('this should not have been started')")
    callback = RecordingCallback()
    grown = training_jobs(new_study(seeds=3), tmp_path)
    assert states(grown) == ["done", "done", "waiting"]
    run_jobs(grown, 2, callback)
    assert [seed for _, seed, _ in callback.changes] == [3, 3]
    more_evaluations = training_jobs(new_study(seeds=2, test=["beam=1,2"]), tmp_path)
    assert states(more_evaluations) == ["waiting", "waiting"]


def test_an_opened_run_is_forgotten_when_its_process_starts(
    new_study: Callable[..., Study], worker: Start, tmp_path: Path, trained: Path
):
    worker("write_results()")
    (job,) = training_jobs(new_study(seeds=1), tmp_path)
    job.run = Run(trained)
    run_jobs([job], 1, RecordingCallback())
    assert job.run is None


@pytest.mark.unix
@pytest.mark.parametrize(
    ("behavior", "error"),
    [
        ("sys.exit('the disk is full')", "the disk is full"),
        ("{}['key']", "KeyError: 'key'"),
        ("import os; os.kill(os.getpid(), signal.SIGKILL)", "ended by SIGKILL"),
        ("sys.exit(3)", "ended with code 3"),
        ("sys.exit(0)", "ended without a result"),
    ],
)
def test_a_failure_is_reported_and_does_not_stop_the_rest(
    new_study: Callable[..., Study], worker: Start, tmp_path: Path, behavior: str, error: str
):
    worker(f"if seed == 1:\n    {behavior}\nwrite_results()")
    jobs = training_jobs(new_study(seeds=3), tmp_path)
    run_jobs(jobs, 1, RecordingCallback())
    assert states(jobs) == ["failed", "done", "done"]
    with pytest.raises(AssertionError, match=f"^{error}$"):
        raise AssertionError(jobs[0].error)
    assert jobs[0].log.is_file()
    (again, *_) = training_jobs(new_study(seeds=3), tmp_path)
    again.load_failure()
    assert again.state == "failed"
    worker("write_results()")
    repaired = training_jobs(new_study(seeds=3), tmp_path)
    run_jobs(repaired, 1, RecordingCallback())
    assert states(repaired) == ["done"] * 3
    assert not jobs[0].log.exists()


def test_stopping_interrupts_running_jobs_and_starts_no_other(
    new_study: Callable[..., Study], worker: Start, tmp_path: Path
):
    reported = '{"phase": "listening", "done": 0, "total": null}'
    worker(f"""
print('{reported}', flush=True)
if sys.stdin.readline() == 'stop\\n':
    sys.exit(STOPPED)""")
    jobs = training_jobs(new_study(seeds=4), tmp_path)
    run_jobs(jobs, 2, RecordingCallback(lambda jobs: sum(job.phase == "listening" for job in jobs) == 2))
    assert states(jobs) == ["stopped", "stopped", "waiting", "waiting"]
    assert [job.error for job in jobs] == [""] * 4


def test_a_worker_without_signal_handlers_is_stopped_as_well(
    new_study: Callable[..., Study], worker: Start, tmp_path: Path
):
    worker("time.sleep(1)\nif sys.stdin.readline() == 'stop\\n':\n    sys.exit(STOPPED)")
    jobs = training_jobs(new_study(seeds=1), tmp_path)
    began = time.monotonic()
    run_jobs(jobs, 1, RecordingCallback(lambda jobs: True))
    assert states(jobs) == ["stopped"]
    assert time.monotonic() - began < 30


def test_an_error_in_the_runner_stops_the_processes(new_study: Callable[..., Study], worker: Start, tmp_path: Path):
    worker("if sys.stdin.readline() == 'stop\\n':\n    sys.exit(STOPPED)")
    jobs = training_jobs(new_study(seeds=1), tmp_path)

    def fail(jobs: Sequence[TrainingJob]) -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_jobs(jobs, 1, RecordingCallback(fail))
    assert jobs[0].process
    assert jobs[0].process.wait(30) == STOPPED
    assert jobs[0].stderr
    jobs[0].stderr.close()
    assert jobs[0].process.stdin
    jobs[0].process.stdin.close()


def test_a_file_named_like_a_module_is_not_imported(
    new_study: Callable[..., Study], worker: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "json.py").write_text("raise SystemExit('a stranger was let in')")
    monkeypatch.chdir(tmp_path)
    worker("write_results()")
    jobs = training_jobs(new_study(seeds=1), tmp_path / "runs")
    run_jobs(jobs, 1, RecordingCallback())
    assert states(jobs) == ["done"]
    assert "-P" in runner.COMMAND


def test_the_remaining_time_is_estimated_from_progress(new_study: Callable[..., Study], tmp_path: Path):
    jobs = training_jobs(new_study(seeds=6), tmp_path)
    assert seconds_left(jobs, 2) is None
    now = time.monotonic()
    jobs[0].state, jobs[0].seconds = "done", 100.0
    assert seconds_left(jobs, 2) == pytest.approx(5 * 100 / 2)
    jobs[1].state, jobs[1].began = "running", now - 50
    jobs[1].update('{"phase": "training", "done": 0, "total": 100}')
    jobs[1].phase_began = now - 50
    jobs[1].update('{"phase": "training", "done": 50, "total": 100}')
    assert seconds_left(jobs, 2) == pytest.approx((50 + 4 * 100) / 2, rel=0.01)
    assert seconds_left(jobs[:2], 2) == pytest.approx(50, rel=0.01)
    jobs[1].update('{"phase": "waiting", "done": 0, "total": null}')  # another study is working on the same run
    assert seconds_left(jobs[:2], 2) == pytest.approx(100)


def test_earlier_progress_does_not_count_for_the_rate(new_study: Callable[..., Study], tmp_path: Path):
    (job,) = training_jobs(new_study(seeds=1), tmp_path)
    job.update('{"phase": "training", "done": 80, "total": 100}')  # it resumes after step 80
    assert (job.rate, job.seconds_left) == (0, None)
    job.phase_began -= 10
    job.update('{"phase": "training", "done": 90, "total": 100}')
    assert job.rate == pytest.approx(1, rel=0.01)
    assert job.seconds_left == pytest.approx(10, rel=0.01)
