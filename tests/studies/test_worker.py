from __future__ import annotations

import io
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from regard import experiments
from regard.errors import UserError
from regard.evaluation.scores import Examination, as_json
from regard.runs import MODEL, STATE, Run
from regard.search import Search
from regard.studies import worker
from regard.studies.conducting import jobs_of
from regard.studies.definition import Study
from regard.studies.worker import STOPPED, Reporter, Request, work
from regard.translator import Translator

CLOCKS = {"seconds", "sentences_per_second"}


@pytest.fixture
def reporter() -> Iterator[Reporter]:
    before = signal.getsignal(signal.SIGTERM)
    yield Reporter()
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def request_of(new_study: Callable[..., Study], tmp_path: Path) -> Callable[..., Request]:
    """What is asked of the only run of a study."""

    def make(**given: Any) -> Request:
        (job,) = jobs_of(new_study(seeds=1, **given), tmp_path)
        return job.request

    return make


def result_of(request: Request, number: int = 0) -> dict[str, Any]:
    return json.loads(request.exams[number].file(request.path).read_text(encoding="utf-8"))


def test_a_request_survives_its_journey(request_of: Callable[..., Request]):
    request = request_of(test=["beam=1,4", "data.max_length=3,5"], set=["description='ä: \"'"])
    assert Request.parse(request.dump()) == request
    assert len(request.exams) == 4


def test_a_run_is_trained_and_sits_its_exams(request_of: Callable[..., Request], reporter: Reporter):
    request = request_of(test=["beam=1,3"])
    assert request.left() == request.exams
    assert work(request, reporter)
    assert request.left() == []
    run = Run(request.path)
    assert run.experiment == request.experiment
    examination = Examination(Translator(run), "test")
    for number, beam in enumerate((1, 3)):
        evaluation, translations = examination.translate(Search(beam=beam))
        found = result_of(request, number)
        expected = {key: value for key, value in as_json(evaluation).items() if key not in CLOCKS}
        assert {key: value for key, value in found["evaluation"].items() if key not in CLOCKS} == expected
        assert found["outputs"] == [translation.text for translation in translations]
        assert found["sources"] == [pair.source for pair in examination.pairs]
        assert found["targets"] == [[pair.target] for pair in examination.pairs]
        assert found["lengths"] == [len(source) for source in found["sources"]]


def test_what_is_told_on_the_way(
    request_of: Callable[..., Request],
    reporter: Reporter,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(worker, "TELL_EVERY", 0.0)
    assert work(request_of(), reporter)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    training = [row for row in told if row["doing"] == "training"]
    assert (training[0]["done"], training[-1]["done"], training[-1]["total"]) == (0, 12, 12)
    assert told[-1] == {"doing": "testing", "done": 50, "total": 50}


def test_an_exam_may_be_about_other_texts(request_of: Callable[..., Request], reporter: Reporter):
    request = request_of(test=["data.max_length=5,9"])
    assert work(request, reporter)
    ordinary, longer = result_of(request), result_of(request, 1)
    assert max(ordinary["lengths"]) == 5
    assert max(longer["lengths"]) == 9


def test_a_new_exam_does_not_train_anew(request_of: Callable[..., Request], reporter: Reporter):
    request = request_of()
    assert work(request, reporter)
    before = [(request.path / name).stat().st_mtime_ns for name in (MODEL, STATE)]
    first = request.exams[0].file(request.path)
    first_before = first.stat().st_mtime_ns
    more = request_of(test=["beam=1,2"])
    assert more.path == request.path
    assert work(more, reporter)
    assert more.left() == []
    assert [(request.path / name).stat().st_mtime_ns for name in (MODEL, STATE)] == before
    assert first.stat().st_mtime_ns == first_before


def test_who_is_asked_to_stop_saves_and_goes_on_later(request_of: Callable[..., Request], reporter: Reporter):
    request = request_of()
    original, steps = reporter.stepped, 0

    def stepped(progress: Any, loss: float) -> None:
        nonlocal steps
        steps += 1
        original(progress, loss)
        if steps == 5:
            os.kill(os.getpid(), signal.SIGTERM)

    reporter.stepped = stepped  # type: ignore[method-assign]
    assert not work(request, reporter)
    assert steps == 5
    assert request.left() == request.exams
    reporter.stopping = False
    assert work(request, reporter)
    assert steps == 12


def test_an_exam_can_be_broken_off(request_of: Callable[..., Request], reporter: Reporter):
    request = request_of(set=["decoding.batch_size=10"])
    tell = reporter.tell

    def interrupt(doing: str, done: int, total: int | None, urgent: bool = False) -> None:
        tell(doing, done, total, urgent)
        reporter.stopping = reporter.stopping or (doing == "testing" and done >= 20)

    reporter.tell = interrupt  # type: ignore[method-assign]
    assert not work(request, reporter)
    assert request.left() == request.exams
    assert not list(request.path.glob("exams/*"))


def test_without_the_one_who_started_it_a_worker_stops(
    request_of: Callable[..., Request], reporter: Reporter, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(os, "getppid", lambda: 1)
    assert reporter.wants_to_stop()
    request = request_of()
    assert not work(request, reporter)
    assert Run(request.path).has(STATE)  # after the first step, from which it goes on


def test_as_a_process_it_ends_with_what_was_wrong(
    request_of: Callable[..., Request], monkeypatch: pytest.MonkeyPatch, reporter: Reporter
):
    request = request_of()
    broken = experiments.load(
        "copy", ["model.attention.kind=mean", "data.train=50", "data.validation=5", "data.test=5"]
    )
    request.path.mkdir()
    (request.path / "notes.txt").write_text("mine")
    for asked, message in (
        (request, "this is not a run directory"),
        (Request(request.path, broken, []), "run directory"),
    ):
        monkeypatch.setattr("sys.stdin", io.StringIO(asked.dump()))
        with pytest.raises(SystemExit, match=message):
            worker.main()
    assert (request.path / "notes.txt").read_text() == "mine"


def test_as_a_process_it_tells_that_it_was_stopped(
    request_of: Callable[..., Request], monkeypatch: pytest.MonkeyPatch, reporter: Reporter
):
    monkeypatch.setattr("sys.stdin", io.StringIO(request_of().dump()))
    monkeypatch.setattr(Reporter, "wants_to_stop", lambda self: True)
    with pytest.raises(SystemExit) as end:
        worker.main()
    assert end.value.code == STOPPED


def test_an_exam_that_this_model_cannot_sit_is_a_mistake_of_the_user(
    request_of: Callable[..., Request], reporter: Reporter
):
    request = request_of(
        set=["model.encoder.positions.kind=learned", "model.encoder.positions.longest=6"], test=["data.max_length=5,9"]
    )
    with pytest.raises(UserError, match="positions"):
        work(request, reporter)
    assert request.left() == request.exams[1:]  # the first one counts
