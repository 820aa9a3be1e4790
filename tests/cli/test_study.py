"""`regard compare` and `regard study`, with real runs in real processes."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.config import loading
from regard.files import lock_folder
from regard.runs import MODEL, Run
from regard.studies.study_folder import MARK

Regard = Callable[..., Any]
FILES = {"index.html", "report.md", "runs.csv", "summary.csv", "results.json", "pictures", "study.yaml", ".lock"}


@pytest.fixture(scope="session")
def brief_file(tiny_file: Path, brief_settings: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The brief experiment as a file."""
    path = tmp_path_factory.mktemp("brief") / "brief.yaml"
    path.write_text(loading.dump_experiment(loading.load_experiment(str(tiny_file), brief_settings)))
    return path


def models(out: Path) -> dict[str, int]:
    """When each run was trained."""
    return {path.parent.name: path.stat().st_mtime_ns for path in out.parent.glob(f"runs/*/{MODEL}")}


@pytest.mark.slow
def test_a_study_is_run_reported_and_extended(
    regard: Regard, regard_on_terminal: Callable[..., tuple[Any, str]], brief_file: Path, tmp_path: Path
):
    out = tmp_path / "study"
    longer = ("--set", "training.epochs=30", "--set", "training.validate_every=60")  # time to show a rate
    answer, shown = regard_on_terminal("compare", brief_file, *longer, "--seeds", 1, "--out", out)
    assert answer.code == 0, shown
    for expected in ("study: 1 runs: 1 running", "training", "steps/s", "/120 steps", "━", "seed 1: done after"):
        assert expected in shown, "a table on the terminal shows what runs"
    assert {path.name for path in out.iterdir()} == FILES
    assert answer.out.endswith(f"{out}/index.html: the whole report\n")
    before = models(out)
    assert len(before) == 1

    grown = regard("compare", "--config", out / "study.yaml", "--seeds", 2, "--json")
    assert grown.code == 0, grown.err
    assert "seed 1" not in grown.err
    assert "seed 2: running" in grown.err
    assert "seed 2: done after 0:" in grown.err
    known = json.loads(grown.out)
    assert known["runs"] == {"wanted": 2, "finished": 2}
    assert [len(condition["runs"]) for condition in known["conditions"]] == [2]
    after = models(out)
    assert len(after) == 2
    assert before.items() <= after.items()  # not trained again
    assert json.loads((out / "results.json").read_text()) == known

    again = regard("compare", "--config", out / "study.yaml", "--report")
    assert again.code == 0
    assert again.err == ""  # nothing was started
    assert models(out) == after


@pytest.mark.slow
def test_a_failed_run_is_printed_and_the_rest_is_reported(regard: Regard, brief_file: Path, tmp_path: Path):
    options = ("--set", "model.encoder.positions.kind=learned", "--vary", "model.encoder.positions.longest=3,64")
    answer = regard("compare", brief_file, *options, "--seeds", 1, "--out", tmp_path / "study")
    assert answer.code == 1
    message = "encoder.positions.longest 3, seed 1 failed: model.encoder.positions.longest: 3 positions are too few"
    assert f"regard: {message}" in answer.err
    assert "Traceback" not in answer.err
    assert "encoder.positions.longest  runs  exact match (%)" in answer.out
    known = json.loads((tmp_path / "study" / "results.json").read_text())
    assert known["runs"] == {"wanted": 2, "finished": 1}
    assert known["failures"][0]["error"].startswith("model.encoder.positions.longest: 3 positions are too few")
    assert "positions are too few" in (tmp_path / "study" / "index.html").read_text()


def alive(pids: list[int]) -> list[int]:
    found = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            continue
        if state != "Z":
            found.append(pid)
    return found


def workers_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_for(what: Callable[[], object], seconds: float = 120) -> Any:
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


@pytest.mark.unix
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="the test finds processes in /proc")
def test_an_interrupted_study_resumes_and_a_killed_one_saves_its_runs(
    start_regard: Callable[..., Any], brief_file: Path, tmp_path: Path
):
    out = tmp_path / "study"
    slow = ("training.epochs=4000", "training.patience=3", "training.validate_every=8000", "training.save_every=0")
    options = (*(part for setting in slow for part in ("--set", setting)), "--seeds", 2, "--jobs", 1, "--out", out)

    def run_until_signal(number: int, after: int) -> tuple[int, bytes]:
        """The step at which a signal stops the study, which continues after the step `after`; and what it printed."""
        process = start_regard("compare", brief_file, *options)
        (state,) = wait_for(lambda: list(out.parent.glob("runs/*-1/state.safetensors")))
        run = Run(state.parent)
        (step,) = wait_for(lambda: {run.progress.step} - {after})
        assert step > after, "it did not start again"
        children = workers_of(process.pid)
        assert len(children) == 1
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        wait_for(lambda: not alive(children), 60)  # they have received the signal and saved their state
        assert process.returncode == (128 + number if number == signal.SIGINT else -number)
        assert [path.name for path in out.parent.glob("runs/*-2")] == []
        progress = run.progress
        assert not progress.finished
        return progress.step, err

    first, err = run_until_signal(signal.SIGINT, after=0)
    assert b"stopped with 0 of 2 runs done; run the same command again to continue" in err
    second, _ = run_until_signal(signal.SIGKILL, after=first)
    assert 0 < first < second < 16_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give either an experiment with --vary, or --config FILE"),
        (("copy", "--config", "x.yaml"), "give either an experiment with --vary, or --config FILE"),
        (("g2p", "--set", "data.file=nowhere"), "--set data.file=nowhere: data.file: there is no "),
        (("--config", "nowhere.yaml"), "nowhere.yaml: there is no such file; a study is a YAML file"),
        (("copi",), "'copi' is neither a recipe nor a file; did you mean 'copy'?"),
        (
            ("copy", "--vary", "model.attention.kind=none,dott"),
            "--vary model.attention.kind=none,dott: model.attention.kind: ",
        ),
        (
            ("copy", "--vary", "model.attention.kind"),
            "this should be KEY=VALUE, as in --vary model.attention.kind=none,dot",
        ),
        (("copy", "--measure", "blue"), "'blue' is not a metric; did you mean 'bleu'?"),
        (("copy", "--metric", "loss", "--metric", "loss"), "'loss' is listed twice"),
        (("copy", "--vary", "training.clip=1,1.0"), "copy: 1 and 1.0 have the same settings; only their names differ"),
        (
            ("copy", "--vary", "training.clip=1,2", "--set", "training.clip=3"),
            "--set training.clip=3: training.clip: this is varied already; leave it out",
        ),
        (("copy", "--seeds", "0"), "seeds: 0 is invalid"),
        (("copy", "--report"), "studies/copy: there is no such study yet; run it without --report"),
    ],
)
def test_invalid_arguments_are_reported(
    regard: Regard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
):
    monkeypatch.chdir(tmp_path)
    answer = regard("compare", *arguments)
    assert answer.code == 2
    assert message in answer.err
    assert answer.err.startswith("regard: ")
    assert not list(tmp_path.iterdir())


def test_a_folder_with_other_files_is_not_changed(regard: Regard, brief_file: Path, tmp_path: Path):
    (tmp_path / "index.html").write_text("mine")
    answer = regard("compare", brief_file, "--out", tmp_path)
    assert (answer.code, answer.out) == (2, "")
    assert (
        f"{tmp_path}: this is not the folder of a study: it has no study.yaml of ours; choose another --out"
        in answer.err
    )
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]
    answer = regard("compare", brief_file, "--out", tmp_path / "index.html")
    assert answer.code == 2
    assert "this is a file; choose another --out" in answer.err


@pytest.mark.parametrize(
    "known",
    [
        "experiment: copy",
        "experiment: {}\nvary: {{model.attention.kind: [none, dot]}}",
        "experiment: {}\nvary: {{model.dropout: [0.1]}}",
        "experiment: {}\nset: {{training.epochs: 1}}",
        "x: y",
    ],
)
def test_the_folder_of_another_study_is_not_changed(regard: Regard, brief_file: Path, tmp_path: Path, known: str):
    (tmp_path / "study.yaml").write_text(MARK + known.format(brief_file))
    answer = regard("compare", brief_file, "--vary", "model.dropout=0,0.5", "--out", tmp_path)
    assert answer.code == 2
    assert "this folder has another study, see its study.yaml; choose another --out" in answer.err
    assert (tmp_path / "study.yaml").read_text() == MARK + known.format(brief_file)


def test_a_handwritten_study_file_is_read_and_not_changed(
    regard: Regard, brief_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    own = f"# mine\nexperiment: {brief_file}\n"
    Path("study.yaml").write_text(own)
    executed: list[Any] = []
    monkeypatch.setattr("regard.studies.execution.run_jobs", lambda *given: executed.append(given))
    assert regard("compare", "--config", "study.yaml", "--out", ".").code == 2
    assert "this is not the folder of a study" in regard("compare", "--config", "study.yaml", "--out", ".").err
    assert not executed
    regard("compare", "--config", "study.yaml")
    assert len(executed) == 1
    assert Path("study.yaml").read_text() == own
    assert Path("studies/study/study.yaml").read_text().startswith(MARK)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["studies", "study.yaml"]


def test_a_study_is_locked_while_it_runs(regard: Regard, brief_file: Path, tmp_path: Path):
    (tmp_path / "study.yaml").write_text(f"{MARK}experiment: {brief_file}")
    with lock_folder(tmp_path):
        answer = regard("compare", brief_file, "--out", tmp_path)
    assert answer.code == 2
    assert "another process is running this study" in answer.err


def test_the_list_of_studies(regard: Regard):
    answer = regard("study", "list")
    assert answer.code == 0
    header, *lines = answer.out.splitlines()
    assert header.split() == ["study", "question"]
    assert [line.split()[0] for line in lines] == sorted(line.split()[0] for line in lines)
    assert any(line.startswith("prompt-placement ") and line.endswith("?") for line in lines)


@pytest.mark.parametrize("spelling", ["randomization", "randomisation"])
def test_the_method_is_accepted_in_the_spelling_of_older_versions(
    regard: Regard, spelling: str, monkeypatch: pytest.MonkeyPatch
):
    built = []
    monkeypatch.setattr("regard.cli.study.run_and_print", lambda study, *_, **__: built.append(study))
    assert regard("study", "blank", "--method", spelling).code == 0
    assert regard("compare", "copy", "--vary", "training.epochs=1,2", "--method", spelling).code == 0
    assert [study.plan.method for study in built] == ["randomization"] * 2


def test_an_unknown_method_is_refused(regard: Regard):
    answer = regard("study", "blank", "--method", "bootstrp")
    assert answer.code == 2
    assert "the command line: method: 'bootstrp' is not a valid choice; did you mean 'bootstrap'?" in answer.err


def test_an_unknown_study_is_reported(regard: Regard):
    answer = regard("study", "positons")
    assert answer.code == 2
    assert "there is no study 'positons'; did you mean 'positions'?" in answer.err


def test_built_in_studies_share_a_folder_of_runs(regard: Regard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    executed = []
    monkeypatch.setattr("regard.cli.study.run_and_print", lambda *given, **named: executed.append((given, named)))
    assert regard("study", "blank", "--seeds", 5, "--set", "training.epochs=1", "--jobs", 3).code == 0
    ((study, out, runs, jobs, cluster), _) = executed[0]
    assert (out, runs, jobs, cluster) == (Path("studies/blank"), Path("studies/runs"), 3, None)
    assert study.plan.seeds == 5
    assert {condition.experiment.training.epochs for condition in study.conditions} == {1}


def test_the_help_shows_defaults(regard: Regard):
    answer = regard("compare", "--help")
    assert answer.code == 0
    assert " ".join(answer.out.replace("│", " ").split()).count("(default: ") == 6
