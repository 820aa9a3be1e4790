"""Where the progress of a study is shown, and what a notebook shows."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from regard.studies import progress_display
from regard.studies.definition import Study
from regard.studies.jobs import training_jobs
from regard.studies.progress_display import (
    LiveStudyObserver,
    NotebookStudyObserver,
    PlainStudyObserver,
    SilentStudyObserver,
    failure_lines,
    study_observer,
)
from regard.terminal.progress import InterruptHandler
from regard.workers.local import LocalExecutor

NewStudy = Callable[..., Study]


@pytest.mark.parametrize(
    ("notebook", "terminal", "shown", "kind"),
    [
        (False, False, True, PlainStudyObserver),
        (False, True, True, LiveStudyObserver),
        (True, False, True, NotebookStudyObserver),
        (True, True, True, NotebookStudyObserver),
        (True, True, False, SilentStudyObserver),
    ],
)
def test_the_observer_depends_on_where_output_goes(
    new_study: NewStudy,
    monkeypatch: pytest.MonkeyPatch,
    notebook: bool,
    terminal: bool,
    shown: bool,
    kind: type,
):
    monkeypatch.setattr(progress_display, "in_notebook", lambda: notebook)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with study_observer(new_study(seeds=1), 1, InterruptHandler(), shown=shown) as observer:
        assert type(observer) is kind


def test_a_notebook_shows_running_jobs_and_prints_failures_only(
    new_study: NewStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    shown: list[tuple[str, str]] = []
    interrupts = InterruptHandler()
    observer = NotebookStudyObserver(new_study("<b>", seeds=3), LocalExecutor(2), interrupts)
    monkeypatch.setattr(observer, "output", SimpleNamespace(show=lambda *given: shown.append(given)))
    jobs = training_jobs(new_study("<b>", seeds=3), tmp_path)
    jobs[0].state, jobs[0].label = "running", "<i>"
    jobs[0].update('{"phase": "training", "done": 3, "total": 12}')
    observer.job_changed(jobs[0])
    observer.polled(jobs)
    observer.polled(jobs)
    assert len(shown) == 1, "at most one update per second"
    text, html = shown[0]
    assert text == "<b>: 3 runs: 1 running, 2 waiting"
    for part in ("&lt;b&gt;: 3 runs", "&lt;i&gt;", "3/12 steps"):
        assert part in html
    assert not {"<b>", "<i>"} & {html[i : i + 3] for i in range(len(html))}
    jobs[0].state, jobs[0].error = "failed", "the disk is full"
    interrupts.signal = 2
    observer.job_changed(jobs[0])
    observer.polled(jobs)
    assert shown[-1] == (
        "<b>: 3 runs: 2 waiting, 1 failed",
        "<p>&lt;b&gt;: 3 runs: 2 waiting, 1 failed</p>",
    ), "the last change is shown at once"
    assert capsys.readouterr().err == "regard: <i>, seed 1 failed: the disk is full\n"


def test_a_notebook_shows_that_it_is_stopping(new_study: NewStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    shown: list[tuple[str, str]] = []
    interrupts = InterruptHandler()
    observer = NotebookStudyObserver(new_study(seeds=2), LocalExecutor(1), interrupts)
    monkeypatch.setattr(observer, "output", SimpleNamespace(show=lambda *given: shown.append(given)))
    jobs = training_jobs(new_study(seeds=2), tmp_path)
    jobs[0].state, interrupts.signal = "running", 2
    observer.polled(jobs)
    assert shown[0][0] == "brief: 2 runs: 1 running, 1 waiting; stopping"


def test_only_a_failed_job_has_an_error(new_study: NewStudy, tmp_path: Path):
    (job,) = training_jobs(new_study(seeds=1), tmp_path)
    job.error = "first\nsecond"
    assert failure_lines(job) == []
    job.state = "failed"
    assert failure_lines(job) == ["tiny, seed 1 failed: first", "tiny, seed 1 failed: second"]
