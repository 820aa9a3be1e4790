"""Run directories that were trained with code outside Regard."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.config import loading, plugins
from regard.config.plugins import CodeChangedWarning
from regard.errors import UserError
from regard.runs import Run
from regard.training.train_run import train_run

HALVED = """
from regard.nn import Attention

class Halved(Attention):
    def score(self, query, keys):
        return query @ keys.transpose(-1, -2) / 2
"""


@pytest.fixture(autouse=True)
def _own_state(fresh_plugins: None) -> None:
    """Nothing that other tests have imported counts as known."""


@pytest.fixture
def project(
    tmp_path: Path,
    tiny_file: Path,
    brief_settings: tuple[str, ...],
    new_callback: Any,
    forget_plugins: Callable[[], None],
) -> Path:
    """A folder with a plug-in, halved.py, and a run that was trained with it, runs/halved."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "halved.py").write_text(HALVED)
    kind = f"model.attention.kind={folder / 'halved.py'}:Halved"
    experiment = loading.load_experiment(str(tiny_file), [*brief_settings, kind])
    train_run(experiment, folder / "runs" / "halved", new_callback())
    forget_plugins()
    return folder


def test_a_run_with_code_is_refused_unless_it_is_trusted(project: Path):
    path = project / "runs" / "halved"
    with pytest.raises(UserError) as error:
        regard.load(path)
    message = str(error.value)
    line = (path / "config.yaml").read_text().splitlines().index("  attention:") + 2
    assert message.startswith(f"{path / 'config.yaml'}, line {line}: model.attention.kind: '{project / 'halved.py'}:")
    assert "loading this run executes it. If you trust it, use --trust-code, or trust_code=True in Python" in message
    (translation,) = regard.load(path, trust_code=True).translate(["abc"])
    assert translation.attention.shape[-1] == 4


def test_the_order_of_keys_does_not_hide_code(project: Path):
    """What a run executes is decided by its settings, not by the record in run.json."""
    path = project / "runs" / "halved"
    metadata = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps({key: value for key, value in metadata.items() if key != "code"}))
    with pytest.raises(UserError, match="is code outside Regard"):
        Run(path)


@pytest.mark.parametrize(
    "setting",
    [
        "model: {encoder: {cell: '/tmp/x.py:X'}}",
        "model: {encoder: {positions: {kind: '/tmp/x.py:X'}}}",
        "model: {decoder: {kind: 'a.b:X'}}",
        "data: {task: 'os:system'}",
        "data: {task: files, train: a, validation: b, text: {unit: 'os:path'}}",
        "training: {rate: {kind: 'antigravity:X'}}",
        "training: {teacher_forcing: {kind: 'antigravity:X'}}",
    ],
)
def test_no_setting_of_a_run_imports_code(setting: str, tmp_path: Path, project: Path):
    path = project / "runs" / "halved"
    base = "" if setting.startswith("data") else "data: {task: copy}\n"
    (path / "config.yaml").write_text(f"{base}{setting}\n")
    with pytest.raises(UserError, match="is code outside Regard; loading this run executes it"):
        Run(path)
    assert "antigravity" not in sys.modules


def test_code_that_this_process_uses_already_is_trusted(project: Path):
    plugins.load_object(f"{project / 'halved.py'}:Halved")
    assert regard.load(project / "runs" / "halved").runs[0].code_changes() == []


def test_a_run_records_the_import_path_and_a_digest(project: Path):
    run = Run(project / "runs" / "halved", trust_code=True)
    assert run.code.keys() == {f"{project / 'halved.py'}:Halved"}
    (record,) = run.code.values()
    assert record["import_path"] == f"{project / 'halved.py'}:Halved"
    assert len(record["sha256"]) == 64


def test_changed_code_is_reported_and_does_not_continue(project: Path, new_callback: Any):
    path = project / "runs" / "halved"
    with (project / "halved.py").open("a") as file:
        file.write("\n# another version\n")
    with pytest.warns(CodeChangedWarning, match=r"the code of .*halved\.py:Halved has changed since this run"):
        translator = regard.load(path, trust_code=True)
    with pytest.raises(UserError, match=r"since this run was started; restore it, or choose another run dir"):
        train_run(translator.experiment, path, new_callback())


def test_a_project_can_be_moved_as_a_whole(project: Path, tmp_path: Path, forget_plugins: Callable[[], None]):
    before = [each.text for each in regard.load(project / "runs" / "halved", trust_code=True).translate(["abc", "de"])]
    forget_plugins()
    moved = shutil.move(project, tmp_path / "moved")
    translator = regard.load(Path(moved) / "runs" / "halved", trust_code=True)
    assert translator.runs[0].code_changes() == []
    assert [each.text for each in translator.translate(["abc", "de"])] == before


def test_code_inside_a_run_directory_is_not_used(project: Path):
    path = project / "runs" / "halved"
    (project / "halved.py").rename(path / "halved.py")
    metadata = json.loads((path / "run.json").read_text())
    (record,) = metadata["code"].values()
    record["relative_path"] = "halved.py"
    (path / "run.json").write_text(json.dumps(metadata))
    with pytest.raises(UserError, match=r"there is no file .*halved\.py"):
        regard.load(path, trust_code=True)


def test_a_refusal_names_the_file_that_would_be_executed(project: Path, tmp_path: Path):
    moved = Path(shutil.move(project, tmp_path / "moved"))
    with pytest.raises(UserError) as error:
        regard.load(moved / "runs" / "halved")
    assert f"; {project / 'halved.py'}:Halved is now {moved / 'halved.py'}:Halved" in str(error.value)
    assert plugins._moved == {}, "a run that is not trusted has no influence on others"


def test_changed_base_classes_are_reported(
    project: Path, tiny_file: Path, brief_settings: Any, new_callback: Any, forget_plugins: Any
):
    (project / "base_of_own.py").write_text(HALVED)
    (project / "own.py").write_text("from base_of_own import Halved\nclass Own(Halved): pass\n")
    experiment = loading.load_experiment(
        str(tiny_file), [*brief_settings, f"model.attention.kind={project / 'own.py'}:Own"]
    )
    run = train_run(experiment, project / "runs" / "own", new_callback())
    assert run.code_changes() == []
    forget_plugins()
    sys.modules.pop("base_of_own")
    (project / "base_of_own.py").write_text(HALVED.replace("/ 2", "/ 3"))
    assert len(Run(run.path, trust_code=True).code_changes()) == 1
    sys.modules.pop("base_of_own")


def test_the_record_is_that_of_the_code_that_was_executed(project: Path):
    """A file that is edited while a program runs is not imported again."""
    run = Run(project / "runs" / "halved", trust_code=True)
    (project / "halved.py").write_text(HALVED.replace("/ 2", "/ 3"))
    assert run.code_changes() == [], "this program still uses what the run was trained with"


def test_a_missing_file_is_reported(project: Path):
    (project / "halved.py").unlink()
    with pytest.raises(UserError, match=r"model\.attention\.kind: there is no file .*halved\.py"):
        regard.load(project / "runs" / "halved", trust_code=True)


def test_a_run_without_code_needs_no_trust(trained: Path):
    run = Run(trained)
    assert "code" not in run.metadata
    assert run.code_changes() == []


PROGRAM = """
import sys, regard, torch
torch.set_num_threads(1)
translator = regard.load(sys.argv[1], trust_code=True)
(translation,) = translator.translate(["abcde"])
print(translation.text, repr(translation.score), translation.attention.double().sum().item())
"""


def test_a_new_process_translates_to_the_same_bits(project: Path):
    path = project / "runs" / "halved"
    (translation,) = regard.load(path, trust_code=True).translate(["abcde"])
    command = [sys.executable, "-c", PROGRAM, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    total = torch.as_tensor(translation.attention, device="cpu").double().sum().item()
    assert done.stdout.split() == [translation.text, repr(translation.score), repr(total)]


# The command line


@pytest.mark.parametrize(
    "arguments",
    [
        ("translate", "RUN", "abc"),
        ("evaluate", "RUN"),
        ("show", "RUN", "abc", "--out", "map.png"),
        ("explain", "RUN", "abc"),
        ("trace", "RUN", "abc"),
        ("gradients", "RUN", "--limit", "5"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_commands_need_the_option(
    arguments: tuple[str, ...], project: Path, regard: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(project)
    command = [str(Path("runs", "halved")) if each == "RUN" else each for each in arguments]
    refused = regard(*command)
    assert refused.code == 2
    assert "is code outside Regard; loading this run executes it" in refused.err
    assert "Traceback" not in refused.err
    allowed = regard(*command, "--trust-code")
    assert allowed.code == 0, allowed.err


def test_the_command_line_reports_changed_code(
    project: Path, regard: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    import warnings

    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # which the option replaces
    with (project / "halved.py").open("a") as file:
        file.write("\n# another version\n")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        answer = regard("translate", project / "runs" / "halved", "abc", "--trust-code")
    assert answer.code == 0
    assert "regard: note: " in answer.err
    assert "has changed since this run was started" in answer.err


def test_cleaning_a_run_needs_no_trust(project: Path, regard: Callable[..., Any]):
    assert regard("clean", project / "runs").code == 0
