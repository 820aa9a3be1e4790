"""What a shell offers when the user presses Tab."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard.cli.completion import complete_experiments, complete_runs, complete_settings, complete_studies
from regard.config import recipes
from regard.config.schema import Experiment, flatten_settings
from regard.studies import built_in

PROGRAM = """
import sys
sys.argv = ["regard"]
from regard.cli import main
try:
    main()
except SystemExit as end:
    print("torch" in sys.modules, end.code, file=sys.stderr)
"""


def complete(line: str, folder: Path) -> list[str]:
    """What bash offers for the last word of a line; no command may import torch for it."""
    words = line.split(" ")
    environment = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_REGARD_COMPLETE": "complete_bash"}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True)
    assert done.stderr == "False 0\n"
    return done.stdout.splitlines()


@pytest.mark.slow
def test_commands_options_and_arguments_are_completed_without_torch(tmp_path: Path):
    (tmp_path / "mine.yaml").write_text("extends: case")
    (tmp_path / "runs" / "a").mkdir(parents=True)
    (tmp_path / "runs" / "a" / "run.json").write_text("{}")
    assert complete("regard tra", tmp_path) == ["train", "translate", "trace"]
    assert {"--out", "--set", "--quiet", "--help"} <= set(complete("regard train --", tmp_path))
    assert complete("regard train mi", tmp_path) == ["mine.yaml"]
    assert complete("regard translate r", tmp_path) == [str(Path("runs/a"))]
    assert complete("regard train case --set training.ep", tmp_path) == ["training.epochs="]
    assert complete("regard data g", tmp_path) == ["get"]


def test_recipes_have_their_descriptions():
    found = dict(complete_experiments("multi30k"))
    assert set(found) >= {name for name in recipes.recipe_names() if name.startswith("multi30k")}
    assert found["multi30k"] == Experiment.load("multi30k").description


def test_studies_have_their_questions():
    assert complete_studies("") == [(name, built_in.study_question(name)) for name in built_in.study_names()]
    assert {name for name, _ in complete_studies("be")} == {"beam"}


def test_run_directories_are_found_in_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for run in ("runs/a", "runs/b", "own"):
        Path(run).mkdir(parents=True)
        (Path(run) / "run.json").write_text("{}")
    Path("runs/empty").mkdir()
    assert complete_runs("") == ["own", str(Path("runs/a")), str(Path("runs/b"))]
    assert complete_runs("runs/b") == [str(Path("runs/b"))]
    assert complete_runs("[x") == []


def test_settings_are_completed_with_their_values():
    assert complete_settings("training.epo") == ["training.epochs="]
    assert complete_settings("training.compile=") == ["training.compile=true", "training.compile=false"]
    assert complete_settings("training.precision=f") == ["training.precision=float32", "training.precision=float16"]
    assert complete_settings("model.attention.kind=ad") == ["model.attention.kind=additive"]
    assert complete_settings("training.optimizer.kind=adamw") == ["training.optimizer.kind=adamw"]
    assert complete_settings("training.epochs=") == complete_settings("nothing") == []
    offered = {each.removesuffix("=") for each in complete_settings("")}
    for recipe in ("case", "multi30k"):
        keys = flatten_settings(Experiment.load(recipe).model_dump()).keys()
        assert {key for key in keys if not key.startswith(("model.", "training.consistency."))} <= offered
    assert {"model.encoder.size", "model.decoder.readout", "model.attention.kind", "model.dropout"} <= offered
