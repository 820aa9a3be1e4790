"""Progress of jobs, and the time that is left."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from regard.workers.job import WorkerJob, seconds_left

NewJobs = Callable[[int], list[WorkerJob]]


def test_the_remaining_time_is_estimated_from_progress(new_jobs: NewJobs):
    jobs = new_jobs(6)
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


def test_earlier_progress_does_not_count_for_the_rate(new_jobs: NewJobs):
    (job,) = new_jobs(1)
    job.update('{"phase": "training", "done": 80, "total": 100}')  # it resumes after step 80
    assert (job.rate, job.seconds_left) == (0, None)
    job.phase_began -= 10
    job.update('{"phase": "training", "done": 90, "total": 100}')
    assert job.rate == pytest.approx(1, rel=0.01)
    assert job.seconds_left == pytest.approx(10, rel=0.01)


def test_a_process_that_starts_again_has_no_progress_yet(new_jobs: NewJobs):
    (job,) = new_jobs(1)
    job.start()
    job.update('{"phase": "training", "done": 80, "total": 100}')
    job.start()
    assert (job.state, job.phase, job.done, job.total) == ("running", "", 0, None)
    job.update('{"phase": "training", "done": 60, "total": 100}')
    assert job.rate == 0
