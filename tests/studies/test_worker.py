from __future__ import annotations

import io
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard import files
from regard.errors import UserError
from regard.evaluation.evaluation_data import EvaluationData
from regard.evaluation.evaluator import Evaluator
from regard.inference.translator import Translator
from regard.runs import MODEL, STATE, Run
from regard.search import SearchOptions
from regard.studies import parsing, worker
from regard.studies.definition import Study
from regard.studies.jobs import TrainingJob, training_jobs
from regard.studies.worker import TrainingReporter, WorkerRequest, run_request
from regard.training import TrainingStopped
from regard.workers import reporting
from regard.workers.job import STOPPED
from regard.workers.local import worker_command

COMMAND = worker_command(TrainingJob.module)
CLOCKS = {"seconds", "sentences_per_second"}


@pytest.fixture
def reporter() -> TrainingReporter:
    return TrainingReporter(io.BytesIO())


@pytest.fixture
def request_of(new_study: Callable[..., Study], tmp_path: Path) -> Callable[..., WorkerRequest]:
    """The request of the only run of a study."""

    def make(**given: Any) -> WorkerRequest:
        (job,) = training_jobs(new_study(seeds=1, **given), tmp_path)
        return job.request

    return make


def result_of(request: WorkerRequest, number: int = 0) -> dict[str, Any]:
    return json.loads(request.evaluations[number].file(request.path).read_text(encoding="utf-8"))


def test_a_request_survives_serialization(request_of: Callable[..., WorkerRequest]):
    request = request_of(test=["beam=1,4", "data.max_length=3,5"], set=["description='ä: \"'"])
    assert WorkerRequest.parse(request.dump()) == request
    assert len(request.evaluations) == 4


def test_the_run_directory_is_opened_once(
    request_of: Callable[..., WorkerRequest], reporter: TrainingReporter, monkeypatch: pytest.MonkeyPatch
):
    opened: list[Path] = []
    original = Run.__init__

    def init(run: Run, path: Path) -> None:
        opened.append(path)
        original(run, path)

    monkeypatch.setattr(Run, "__init__", init)
    request = request_of(test=["beam=1,3"])
    run_request(request, reporter)
    assert opened == [request.path]


def test_a_run_is_trained_and_evaluated(request_of: Callable[..., WorkerRequest], reporter: TrainingReporter):
    request = request_of(test=["beam=1,3"])
    assert request.pending() == request.evaluations
    run_request(request, reporter)
    assert request.pending() == []
    run = Run(request.path)
    assert run.experiment == request.experiment
    evaluation_row = Evaluator(Translator(run), EvaluationData.of_split(run.experiment.data, "test"))
    for number, beam in enumerate((1, 3)):
        evaluation, translations = evaluation_row.translate(SearchOptions(beam=beam))
        found = result_of(request, number)
        expected = {key: value for key, value in evaluation.to_dict().items() if key not in CLOCKS}
        assert {key: value for key, value in found["evaluation"].items() if key not in CLOCKS} == expected
        assert found["outputs"] == [translation.text for translation in translations]
        assert found["sources"] == [pair.source for pair in evaluation_row.pairs]
        assert found["targets"] == [[pair.target] for pair in evaluation_row.pairs]
        assert found["lengths"] == [len(source) for source in found["sources"]]


def test_progress_messages(
    request_of: Callable[..., WorkerRequest], reporter: TrainingReporter, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reporting, "REPORT_INTERVAL", 0.0)
    run_request(request_of(test=["beam=1,2"]), reporter)
    assert isinstance(reporter.channel, io.BytesIO)
    messages = [json.loads(line) for line in reporter.channel.getvalue().splitlines()]
    training = [row for row in messages if row["phase"] == "training"]
    assert (training[0]["done"], training[-1]["done"], training[-1]["total"]) == (0, 12, 12)
    assert [row for row in messages if row["phase"] == "evaluating"] == [
        {"phase": "evaluating", "done": 0, "total": 100},
        {"phase": "evaluating", "done": 50, "total": 100},
        {"phase": "evaluating", "done": 50, "total": 100},
        {"phase": "evaluating", "done": 100, "total": 100},
    ]


def test_an_evaluation_may_use_other_texts(request_of: Callable[..., WorkerRequest], reporter: TrainingReporter):
    request = request_of(test=["data.max_length=5,9"])
    run_request(request, reporter)
    ordinary, longer = result_of(request), result_of(request, 1)
    assert max(ordinary["lengths"]) == 5
    assert max(longer["lengths"]) == 9


def test_a_new_evaluation_does_not_train_again(request_of: Callable[..., WorkerRequest], reporter: TrainingReporter):
    request = request_of()
    run_request(request, reporter)
    before = [(request.path / name).stat().st_mtime_ns for name in (MODEL, STATE)]
    first = request.evaluations[0].file(request.path)
    first_before = first.stat().st_mtime_ns
    more = request_of(test=["beam=1,2"])
    assert more.path == request.path
    run_request(more, reporter)
    assert more.pending() == []
    assert [(request.path / name).stat().st_mtime_ns for name in (MODEL, STATE)] == before
    assert first.stat().st_mtime_ns == first_before


def test_an_interrupted_run_is_saved_and_resumed_later(
    request_of: Callable[..., WorkerRequest], reporter: TrainingReporter
):
    request = request_of()
    original, steps = reporter.on_step_end, 0

    def stepped(progress: Any, loss: float) -> None:
        nonlocal steps
        steps += 1
        original(progress, loss)
        if steps == 5:
            reporter.stop()

    reporter.on_step_end = stepped  # type: ignore[method-assign]
    with pytest.raises(TrainingStopped):
        run_request(request, reporter)
    assert steps == 5
    assert request.pending() == request.evaluations
    reporter.stopping = False
    run_request(request, reporter)
    assert steps == 12


def test_an_evaluation_can_be_interrupted(request_of: Callable[..., WorkerRequest], reporter: TrainingReporter):
    request = request_of(set=["decoding.batch_size=10"])
    send = reporter.send

    def interrupt(phase: str, done: int, total: int | None, urgent: bool = False) -> None:
        send(phase, done, total, urgent)
        reporter.stopping = reporter.stopping or (phase == "evaluating" and done >= 20)

    reporter.send = interrupt  # type: ignore[method-assign]
    with pytest.raises(TrainingStopped):
        run_request(request, reporter)
    assert request.pending() == request.evaluations
    assert not list(request.path.glob("evaluations/*"))


class BrokenPipe(io.RawIOBase):
    """A channel whose reader is gone."""

    def write(self, content: object) -> int:
        raise BrokenPipeError


def test_a_worker_with_a_closed_channel_saves_and_stops(
    request_of: Callable[..., WorkerRequest], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reporting, "REPORT_INTERVAL", 0.0)  # simulates long steps
    request = request_of()
    broken_reporter = TrainingReporter(io.BytesIO())
    began = broken_reporter.on_train_begin

    def close_channel(*given: Any) -> None:
        began(*given)
        broken_reporter.channel = BrokenPipe()  # type: ignore[assignment]

    broken_reporter.on_train_begin = close_channel  # type: ignore[method-assign]
    with pytest.raises(TrainingStopped):
        run_request(request, broken_reporter)
    progress = Run(request.path).progress
    assert progress.step == 1


def test_a_worker_stops_while_the_data_is_read(
    request_of: Callable[..., WorkerRequest], reporter: TrainingReporter, monkeypatch: pytest.MonkeyPatch
):
    request = request_of()
    phases = []

    def send(phase: str, *_: object, **__: object) -> None:
        phases.append(phase)
        reporter.stop()

    monkeypatch.setattr(reporter, "send", send)
    with pytest.raises(TrainingStopped):
        run_request(request, reporter)
    assert phases == ["reading"]
    assert not request.path.exists()


def test_two_studies_with_the_same_run_wait_for_each_other(
    request_of: Callable[..., WorkerRequest], reporter: TrainingReporter, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(worker, "REPORT_INTERVAL", 0.01)
    request = request_of()
    messages: list[str] = []
    with files.lock_file(request.path.with_name(f".{request.path.name}.lock")) as alone:
        assert alone

        def wait(phase: str, *_: object, **__: object) -> None:
            messages.append(phase)
            reporter.stopping = len(messages) == 3

        monkeypatch.setattr(reporter, "send", wait)
        with pytest.raises(TrainingStopped):
            run_request(request, reporter)
    assert messages == ["waiting"] * 3
    reporter.stopping = False
    run_request(request, reporter)
    assert request.pending() == []


Process = Callable[[WorkerRequest], tuple[int, str, str]]


@pytest.fixture
def process() -> Process:
    """The worker as a process of its own: its exit code, and its output."""

    def run(request: WorkerRequest) -> tuple[int, str, str]:
        done = subprocess.run(COMMAND, input=request.dump(), capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.mark.slow
def test_a_worker_process_exits_with_an_error_message(request_of: Callable[..., WorkerRequest], process: Process):
    request = request_of()
    request.path.mkdir()
    (request.path / "notes.txt").write_text("mine")
    code, _, errors = process(request)
    assert code == 1
    assert "this is not a run directory" in errors
    assert "Traceback" not in errors
    assert (request.path / "notes.txt").read_text() == "mine"


@pytest.mark.slow
def test_a_worker_process_stops_on_a_signal_and_resumes_later(
    request_of: Callable[..., WorkerRequest], process: Process
):
    request = request_of(set=["training.epochs=4000", "training.validate_every=100000"])
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker_process:
        assert worker_process.stdin
        assert worker_process.stdout
        worker_process.stdin.write(request.dump())
        worker_process.stdin.close()
        for line in worker_process.stdout:
            if json.loads(line)["phase"] == "training":
                worker_process.terminate()
                break
        worker_process.stdout.read()
        assert worker_process.wait(60) == STOPPED
    progress = Run(request.path).progress
    assert progress.step > 0


def test_a_changed_test_set_is_refused(
    new_study: Callable[..., Study], corpus: Path, reporter: TrainingReporter, tmp_path: Path
):
    shutil.copytree(corpus, tmp_path / "corpus")
    settings = [
        "data={task: files, source: de, target: en, text: {unit: words}}",
        f"data.train={tmp_path}/corpus/train",
    ]
    settings += [f"data.{split}={tmp_path}/corpus/{split}" for split in ("validation", "test")]
    plan = {"experiment": "clauses", "set": [*settings, "training.epochs=1", "training.batch_tokens=4000"]}
    (job,) = training_jobs(parsing.build_study("s", parsing.from_options(**plan, seeds=1)), tmp_path / "runs")
    run_request(job.request, reporter)
    shutil.rmtree(job.path / "evaluations")
    lines = (tmp_path / "corpus/test.de").read_text().splitlines()
    (tmp_path / "corpus/test.de").write_text("\n".join(reversed(lines)) + "\n")
    with pytest.raises(UserError, match="the test split has changed since training; remove this run"):
        run_request(job.request, reporter)


def test_an_evaluation_that_the_model_cannot_perform_is_a_user_error(
    request_of: Callable[..., WorkerRequest], reporter: TrainingReporter
):
    request = request_of(
        set=["model.encoder.positions.kind=learned", "model.encoder.positions.longest=6"], test=["data.max_length=9,5"]
    )
    with pytest.raises(UserError, match="positions"):
        run_request(request, reporter)
    assert request.pending() == [request.evaluations[0]]  # the possible one is done
