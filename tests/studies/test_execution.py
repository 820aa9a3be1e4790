"""`regard.compare`, with real runs in real processes, and with fake workers that take a second."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import regard as package
from regard.config import loading
from regard.config.schema import Experiment
from regard.errors import UserError
from regard.files import lock_folder
from regard.runs import MODEL
from regard.studies.jobs import TrainingJob
from regard.studies.progress_display import PlainStudyObserver
from regard.studies.results import StudyResults
from regard.studies.study_folder import EXPERIMENT, MARK

Start = Callable[[str], None]
Brief = Callable[..., Experiment]
VARY = {"model.attention.kind": ["none", "dot"]}
STOPPABLE = """
print('{"phase": "listening", "done": 0, "total": null}', flush=True)
if sys.stdin.readline() == 'stop\\n':
    sys.exit(STOPPED)"""


def compare(*positional: Any, **named: Any) -> StudyResults:
    """`regard.compare` without a type checker's help, as in a notebook."""
    return package.compare(*positional, **named)


def trained_at(out: Path) -> dict[str, int]:
    """When each run was trained."""
    return {path.parent.name: path.stat().st_mtime_ns for path in out.parent.glob(f"runs/*/{MODEL}")}


def build_fails(*positional: Any, **named: Any) -> str:
    """The message of a call that must change no file."""
    with pytest.raises(UserError) as error:
        compare(*positional, **named)
    assert not list(Path().iterdir())
    return str(error.value)


@pytest.mark.slow
def test_a_study_of_a_dict_is_run_continued_and_read_again(
    brief: Brief, regard: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "study"
    settings = brief().model_dump()
    study = compare(settings, VARY, test={"beam": (1, 2)}, seeds=1, out=str(out), jobs=2)
    captured = capsys.readouterr()
    assert captured.out == "", "progress is not a result"
    assert "dot, seed 1: done after 0:" in captured.err
    assert [cell.label for cell in study.cells] == ["none · beam 1", "none · beam 2", "dot · beam 1", "dot · beam 2"]
    assert (study.wanted, study.finished, study.failures, study.folder) == (2, 2, (), out)
    assert (out / "index.html").is_file()
    assert loading.load_experiment(str(out / EXPERIMENT)) == brief()
    before = trained_at(out)
    assert len(before) == 2

    grown = regard("compare", "--config", out / "study.yaml", "--seeds", 2, "--json")
    assert grown.code == 0, grown.err
    assert before.items() < trained_at(out).items(), "nothing is trained again"

    read = compare(brief(), VARY, test={"beam": [1, 2]}, seeds=2, out=out, report_only=True)
    assert json.loads(json.dumps(read.to_dict())) == json.loads(grown.out)
    assert capsys.readouterr().err == ""
    assert compare(config=out / "study.yaml", progress=False).to_dict() == read.to_dict()
    printed = regard("compare", "--config", out / "study.yaml", "--report").out
    assert printed.startswith(f"{read.table()}\n")
    with pytest.raises(UserError, match=r"has another experiment, which differs in training.epochs; choose another"):
        compare(brief("training.epochs=5"), VARY, test={"beam": [1, 2]}, out=out)


@pytest.mark.slow
def test_a_failed_run_is_printed_and_the_rest_is_returned(
    tiny_file: Path, brief_settings: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    settings: dict[str, Any] = {key: loading.yaml_source.parse_value(value, "") for key, value in pairs(brief_settings)}
    overrides = settings | {"model.encoder.positions.kind": "learned"}
    axis = "model.encoder.positions.longest"
    arguments = {"overrides": overrides, "seeds": 1, "out": tmp_path / "study"}
    study = compare(tiny_file, {axis: [3, 64]}, **arguments)
    (failure,) = study.failures
    assert failure.error.startswith(f"{axis}: 3 positions are too few")
    message = "regard: encoder.positions.longest 3, seed 1 failed: model.encoder.positions.longest: 3 positions are too"
    assert message in capsys.readouterr().err
    assert [len(cell.results) for cell in study.cells] == [0, 1]
    assert "3 positions are too few" in study._repr_html_()
    again = compare(tiny_file, {axis: [3, 64]}, **arguments, report_only=True, progress=False)
    assert [job.error for job in again.failures] == [failure.error]
    assert capsys.readouterr().err == ""


def pairs(settings: Sequence[str]) -> list[Sequence[str]]:
    return [setting.split("=") for setting in settings]


def test_if_no_run_finishes_the_reasons_are_raised(
    brief: Brief, worker: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    worker("sys.exit('the disk is full')")
    out = tmp_path / "study"
    with pytest.raises(UserError) as error:
        compare(brief(), VARY, seeds=1, out=out, progress=False)
    assert str(error.value).splitlines() == [
        f"{out}: no run is finished, so there is nothing to report",
        "none, seed 1 failed: the disk is full",
        "dot, seed 1 failed: the disk is full",
    ]
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", ""), "nothing is shown without progress"
    assert not (out / "index.html").exists()


@pytest.mark.parametrize("progress", [True, False])
def test_a_run_with_damaged_results_has_failed(
    brief: Brief, worker: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str], progress: bool
):
    worker("write_results()")  # without a run directory around them
    with pytest.raises(
        UserError, match="no run is finished, so there is nothing to report\nexperiment, seed 1 failed: "
    ):
        compare(brief(), seeds=1, out=tmp_path / "study", progress=progress)
    assert ("regard: experiment, seed 1 failed: " in capsys.readouterr().err) is progress


def interrupt_when_all_listen(monkeypatch: pytest.MonkeyPatch) -> list[TrainingJob]:
    """Send SIGINT to this process once all running workers are ready to be stopped. Returns the jobs of the study."""
    seen: list[TrainingJob] = []

    def polled(self: PlainStudyObserver, jobs: Sequence[TrainingJob]) -> None:
        running = [job for job in jobs if job.state == "running"]
        if not seen and running and all(job.phase == "listening" for job in running):
            seen.extend(jobs)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(PlainStudyObserver, "polled", polled)
    return seen


def test_an_interrupt_stops_the_workers_and_the_same_call_continues(
    brief: Brief, worker: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    out = tmp_path / "study"
    handler = signal.getsignal(signal.SIGINT)
    worker(STOPPABLE)
    with monkeypatch.context() as patch:
        jobs = interrupt_when_all_listen(patch)
        with pytest.raises(KeyboardInterrupt, match="stopped with 0 of 3 runs done; run the same code again to contin"):
            compare(brief(), seeds=3, out=out, jobs=2)
    assert [job.state for job in jobs] == ["stopped", "stopped", "waiting"]
    assert signal.getsignal(signal.SIGINT) is handler
    worker("sys.exit('started again')")
    with pytest.raises(UserError, match=r"experiment, seed 3 failed: started again"):
        compare(brief(), seeds=3, out=out, progress=False)


def test_a_study_can_run_in_another_thread(brief: Brief, worker: Start, tmp_path: Path):
    worker("sys.exit('the disk is full')")
    raised: list[Exception] = []

    def run() -> None:
        try:
            compare(brief(), seeds=1, out=tmp_path / "study", progress=False)
        except Exception as error:
            raised.append(error)

    thread = Thread(target=run)
    thread.start()
    thread.join()
    (error,) = raised
    assert isinstance(error, UserError), "signal handlers belong to the main thread"
    assert "the disk is full" in str(error)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give either an experiment with vary, or config, the path of a study file"),
        ({"experiment": "copy", "config": "x.yaml"}, "give either an experiment with vary, or config"),
        (
            {"experiment": 3},
            "3 is not an experiment; give the name of a recipe, the path of a YAML file, a dictionary",
        ),
        ({"experiment": "copi"}, "regard.compare: experiment: 'copi' is neither a recipe nor a file; did you mean 'co"),
        ({"experiment": Path("copy")}, "copy' is neither a recipe nor a file; choices: "),
        ({"experiment": {}, "out": "x"}, "the dictionary: data.task: missing; choices: "),
        (
            {"experiment": {"data": {"task": "copy"}, "modell": 1}, "out": "x"},
            "the dictionary: modell: unknown key; did yo",
        ),
        ({"experiment": {"data": {"task": "g2p", "file": "no"}}, "out": "x"}, "experiment: data.file: there is no "),
        (
            {"experiment": {"data": {"task": "copy"}}},
            "out: choose the folder of the study; this experiment has no name",
        ),
        ({"config": "nowhere.yaml"}, "nowhere.yaml: there is no such file; a study is a YAML file"),
        ({"experiment": "copy", "report_only": True}, "studies/copy: there is no such study yet; run it without repor"),
        ({"experiment": "copy", "jobs": 0}, "jobs: 0 should be a positive number"),
        (
            {"experiment": "copy", "jobs": 2, "cluster": "tcp://a:1"},
            "give either jobs, to train on this machine, or clus",
        ),
        ({"experiment": "copy", "cluster": 3}, "cluster: 3 should be the address of a Dask scheduler, as tcp://HOST:8"),
        ({"experiment": "copy", "jobs": "2"}, "jobs: '2' should be a positive number"),
        ({"experiment": "copy", "out": 3}, "out: 3 should be a path, as a text or a pathlib.Path"),
        ({"experiment": "copy", "runs": 3}, "runs: 3 should be a path, as a text or a pathlib.Path"),
        ({"config": 3}, "config: 3 should be a path, as a text or a pathlib.Path"),
    ],
)
def test_invalid_arguments_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], message: str
):
    monkeypatch.chdir(tmp_path)
    assert message in build_fails(**arguments)


def test_the_folder_of_something_else_is_not_changed(brief: Brief, tmp_path: Path):
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(UserError, match=r"this is not the folder of a study: it has no study.yaml of ours"):
        compare(brief(), out=tmp_path)
    with pytest.raises(UserError, match="this is a file; choose another out"):
        compare(brief(), out=tmp_path / "mine")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_the_folder_of_another_study_is_not_changed(brief: Brief, tmp_path: Path):
    (tmp_path / "study.yaml").write_text(f"{MARK}experiment: copy\n")
    with pytest.raises(UserError, match=r"this folder has another study, see its study.yaml; choose another out"):
        compare(brief(), out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["study.yaml"]


def test_a_study_is_locked_while_it_runs(tmp_path: Path):
    (tmp_path / "study.yaml").write_text(f"{MARK}experiment: copy\n")
    with lock_folder(tmp_path), pytest.raises(UserError, match="another process is running this study; report_only=Tr"):
        compare("copy", out=tmp_path)
