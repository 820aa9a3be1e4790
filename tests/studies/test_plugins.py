"""Studies with code outside Regard: what is executed, and what happens when it changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from regard.config.loading import load_experiment
from regard.config.schema import Experiment
from regard.errors import UserError
from regard.studies import parsing
from regard.studies.definition import run_name
from regard.studies.study_folder import _changed_settings
from regard.studies.worker import WorkerRequest

OWN = "from regard.nn import AdditiveAttention\nclass Own(AdditiveAttention): pass\n"


@pytest.fixture
def folder(tmp_path: Path, fresh_plugins: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("own.py", "a/own.py", "b/own.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(OWN)
    return tmp_path


def experiment() -> Experiment:
    return load_experiment("copy", ["model.attention.kind=own.py:Own"])


def test_the_settings_in_a_study_folder_execute_nothing(folder: Path):
    (folder / "evil.py").write_text("from pathlib import Path\nPath('executed').touch()\n")
    text = str(load_experiment("copy")).replace("kind: dot", f"kind: {folder}/evil.py:X")
    (folder / "experiment.yaml").write_text(text)
    with pytest.raises(UserError, match=r"evil\.py:X' is code outside Regard; the experiment in this folder names it"):
        _changed_settings(folder / "experiment.yaml", load_experiment("copy"))
    assert not (folder / "executed").exists()


def test_changed_code_is_another_run(folder: Path, forget_plugins: Callable[[], None]):
    before = run_name(experiment())
    assert before == run_name(experiment())
    (folder / "own.py").write_text(f"{OWN}# another version\n")
    forget_plugins()
    assert run_name(experiment()) != before


def test_code_that_changes_while_a_study_runs_is_refused(folder: Path, forget_plugins: Callable[[], None]):
    request = WorkerRequest(folder / "run", experiment(), [])
    text = request.dump()
    assert WorkerRequest.parse(text) == request
    (folder / "own.py").write_text(f"{OWN}# another version\n")
    forget_plugins()  # the worker is a new process
    with pytest.raises(UserError, match="has changed while the study was running; run the study again"):
        WorkerRequest.parse(text)


def test_files_of_the_same_name_have_labels_of_their_own(folder: Path):
    leaves = parsing.from_options(
        experiment="copy", vary=["model.attention.kind=none,a/own.py:Own,b/own.py:Own"], seeds=1
    )
    (axis,) = parsing.build_study("s", leaves).axes
    assert axis.labels == ["none", "own.py:Own", f"{folder}/b/own.py:Own"]


def test_texts_for_people_are_not_references(folder: Path):
    question = "Is it better than own.py:Own"
    leaves = parsing.from_options(
        experiment="copy", question=question, vary=["model.attention.kind=dot,./own.py:Own"], seeds=1
    )
    study = parsing.build_study("s", leaves)
    assert study.plan.question == question
    assert f"{folder}/own.py:Own" in study.dump(), "the axis is found from any folder"
    assert question in study.dump()
