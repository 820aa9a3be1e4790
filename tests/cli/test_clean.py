"""`regard clean` removes what killed processes have left, and nothing else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.files import lock_folder

Regard = Callable[..., Any]


@pytest.fixture
def runs(trained: Path, tmp_path: Path) -> Path:
    """A folder with a run, and what killed processes left next to it and in it."""
    runs = tmp_path / "runs"
    shutil.copytree(trained, runs / "a")
    for name in (".a.12345678/run", ".b.abcdef12/new", "a/.scores.json.12345678/new"):
        (runs / name).mkdir(parents=True)
    (runs / "a" / ".state.safetensors.12345678").write_bytes(b"half")
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("kept")
    (runs / "a" / ".model.safetensors.87654321").symlink_to(victim)
    return runs


def hidden(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name.startswith(".") and name != ".lock")


def test_a_folder_of_runs_is_cleaned(runs: Path, regard: Regard):
    done = regard("clean", runs)
    assert done.code == 0
    assert done.out.count(": removed\n") == 5
    assert (hidden(runs), hidden(runs / "a")) == ([], [])
    assert (runs.parent / "victim" / "file").read_text() == "kept"
    assert regard("translate", runs / "a", "abc").out == "abc\n"
    assert regard("clean", runs).out == "nothing to remove\n"


def test_a_single_run_is_cleaned_with_its_own_drafts(runs: Path, regard: Regard):
    assert regard("clean", runs / "a").code == 0
    assert (hidden(runs), hidden(runs / "a")) == ([".b.abcdef12"], [])


def test_a_run_in_use_is_left_alone(runs: Path, regard: Regard):
    with lock_folder(runs / "a"):
        done = regard("clean", runs)
    assert "a: another process is using this run directory" in done.err
    assert hidden(runs) == []
    assert len(hidden(runs / "a")) == 3


def test_the_default_is_the_folder_runs(runs: Path, regard: Regard, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(runs.parent)
    assert regard("clean").code == 0
    assert hidden(runs) == []


def test_a_missing_folder_is_refused(tmp_path: Path, regard: Regard):
    done = regard("clean", tmp_path / "none")
    assert (done.code, done.err) == (2, f"regard: {tmp_path}/none: there is no such folder; give a run directory or a "
                                        "folder of them\n")  # fmt: skip


def test_other_commands_remove_the_drafts_of_their_run(runs: Path, regard: Regard):
    assert regard("translate", runs / "a", "abc").code == 0
    assert hidden(runs) == [".b.abcdef12"]
