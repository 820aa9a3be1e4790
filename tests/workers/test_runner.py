"""Starting, failing and stopping jobs, with fake workers that take a second."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.workers.job import STOPPED, JobEnd, WorkerJob
from regard.workers.local import LocalExecutor, WorkerProcess, worker_command
from regard.workers.runner import Events, Job, JobEvent, run_jobs

Start = Callable[[str], None]
NewJobs = Callable[[int], list[WorkerJob]]


class RecordingObserver:
    """Records its calls, and stops once `stop(jobs)` is true."""

    def __init__(self, stop: Callable[[Sequence[WorkerJob]], bool] = lambda jobs: False) -> None:
        self.stop, self.stopping = stop, False
        self.changes: list[tuple[str, str]] = []
        self.most_at_once = 0
        self.progress_reports: set[tuple[int, int | None]] = set()

    def job_changed(self, job: WorkerJob) -> None:
        self.changes.append((job.label, job.state))

    def polled(self, jobs: Sequence[WorkerJob]) -> None:
        self.most_at_once = max(self.most_at_once, sum(job.state == "running" for job in jobs))
        self.progress_reports |= {(job.done, job.total) for job in jobs}
        self.stopping = self.stopping or self.stop(jobs)

    def should_stop(self) -> bool:
        return self.stopping


def run_locally(jobs: Sequence[WorkerJob], at_once: int, observer: RecordingObserver | None = None) -> None:
    run_jobs(jobs, LocalExecutor(at_once), observer or RecordingObserver())


def states(jobs: Sequence[WorkerJob]) -> list[str]:
    return [job.state for job in jobs]


def test_all_jobs_run_and_never_more_than_allowed_at_once(new_jobs: NewJobs, worker: Start):
    worker("time.sleep(0.6); write_results()")
    jobs = new_jobs(5)
    observer = RecordingObserver()
    run_locally(jobs, 2, observer)
    assert states(jobs) == ["done"] * 5
    assert observer.most_at_once == 2
    assert [label for label, state in observer.changes if state == "running"] == ["1", "2", "3", "4", "5"]
    assert (3, 12) in observer.progress_reports
    assert not list(jobs[0].log.parent.glob("*.log"))  # no errors


def test_only_waiting_jobs_run(new_jobs: NewJobs, worker: Start):
    worker("write_results()")
    jobs = new_jobs(3)
    jobs[1].state = "done"
    observer = RecordingObserver()
    run_locally(jobs, 1, observer)
    assert observer.changes == [("1", "running"), ("1", "done"), ("3", "running"), ("3", "done")]


def test_a_process_that_cannot_be_started_is_an_error(
    new_jobs: NewJobs, worker: Start, monkeypatch: pytest.MonkeyPatch
):
    started = iter([WorkerProcess, WorkerProcess])

    def start(*arguments: str) -> WorkerProcess:
        for process in started:
            return process(*arguments)
        raise OSError(errno.EMFILE, "Too many open files")

    worker("write_results() if sys.stdin.readline() == 'stop\\n' else None")
    monkeypatch.setattr("regard.workers.local.WorkerProcess", start)
    jobs = new_jobs(3)
    with pytest.raises(UserError, match="cannot start more than 2 processes: Too many open files; choose fewer jobs"):
        run_locally(jobs, 3)
    deadline = time.monotonic() + 60
    while not all(job.is_done() for job in jobs[:2]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [job.is_done() for job in jobs] == [True, True, False], "those that run are stopped"


@pytest.mark.unix
def test_a_full_disk_does_not_hide_a_failure(new_jobs: NewJobs, worker: Start, monkeypatch: pytest.MonkeyPatch):
    def full_disk(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    worker("sys.exit('the disk is full')")
    monkeypatch.setattr("regard.files.write_atomic", full_disk)
    jobs = new_jobs(2)
    run_locally(jobs, 1)
    assert [(job.state, job.error) for job in jobs] == [("failed", "the disk is full")] * 2


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
def test_a_failure_is_reported_and_does_not_stop_the_rest(new_jobs: NewJobs, worker: Start, behavior: str, error: str):
    worker(f"if number == 1:\n    {behavior}\nwrite_results()")
    jobs = new_jobs(3)
    run_locally(jobs, 1)
    assert states(jobs) == ["failed", "done", "done"]
    with pytest.raises(AssertionError, match=f"^{error}$"):
        raise AssertionError(jobs[0].error)
    assert jobs[0].log.is_file()
    (again, *_) = new_jobs(3)
    again.load_failure()
    assert again.state == "failed"
    worker("write_results()")
    repaired = new_jobs(3)
    run_locally(repaired, 1)
    assert states(repaired) == ["done"] * 3
    assert not jobs[0].log.exists()


def test_stopping_interrupts_running_jobs_and_starts_no_other(new_jobs: NewJobs, worker: Start):
    reported = '{"phase": "listening", "done": 0, "total": null}'
    worker(f"""
print('{reported}', flush=True)
if sys.stdin.readline() == 'stop\\n':
    sys.exit(STOPPED)""")
    jobs = new_jobs(4)
    run_locally(jobs, 2, RecordingObserver(lambda jobs: sum(job.phase == "listening" for job in jobs) == 2))
    assert states(jobs) == ["stopped", "stopped", "waiting", "waiting"]
    assert [job.error for job in jobs] == [""] * 4


def test_a_worker_without_signal_handlers_is_stopped_as_well(new_jobs: NewJobs, worker: Start):
    worker("time.sleep(1)\nif sys.stdin.readline() == 'stop\\n':\n    sys.exit(STOPPED)")
    jobs = new_jobs(1)
    began = time.monotonic()
    run_locally(jobs, 1, RecordingObserver(lambda jobs: True))
    assert states(jobs) == ["stopped"]
    assert time.monotonic() - began < 30


def test_a_request_to_stop_comes_after_the_request(worker: Start):
    worker("print(request['number'], sys.stdin.readline())")
    process = WorkerProcess("fake", '{"number": 7}')
    process.request_stop()
    assert list(process.lines())[1:] == ["7 stop\n", "\n"]
    assert process.wait() == JobEnd(0)


class ExecutorOfLateEvents:
    """Reports for each job that its worker was lost, after its end."""

    slots = 1

    def start(self, job: Job, events: Events[Job]) -> None:
        job.log.with_suffix("").touch()
        for report in (JobEvent.STARTED, JobEnd(0), JobEvent.LOST):
            events.put((job, report))

    def request_stop(self, job: WorkerJob) -> None:
        raise AssertionError


def test_a_job_that_has_ended_does_not_change(new_jobs: NewJobs):
    jobs = new_jobs(2)
    observer = RecordingObserver()
    run_jobs(jobs, ExecutorOfLateEvents(), observer)
    assert observer.changes == [("1", "running"), ("1", "done"), ("2", "running"), ("2", "done")]


def test_an_error_in_the_runner_stops_the_processes(new_jobs: NewJobs, worker: Start):
    worker("if sys.stdin.readline() == 'stop\\n':\n    sys.exit(STOPPED)")
    jobs = new_jobs(1)
    executor = LocalExecutor(1)

    def fail(jobs: Sequence[WorkerJob]) -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_jobs(jobs, executor, RecordingObserver(fail))
    (process,) = executor.processes.values()
    assert process.process.wait(30) == STOPPED
    for _ in range(100):  # until its pipes are closed
        time.sleep(0.05 if executor.processes else 0)
    assert not executor.processes


def test_a_file_named_like_a_module_is_not_imported(
    new_jobs: NewJobs, worker: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "json.py").write_text("raise SystemExit('a stranger was let in')")
    monkeypatch.chdir(tmp_path)
    assert worker_command("regard.studies.worker")[1:] == ["-P", "-m", "regard.studies.worker"]
    worker("write_results()")
    jobs = new_jobs(1)
    run_locally(jobs, 1)
    assert states(jobs) == ["done"]
