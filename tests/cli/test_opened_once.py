"""A command opens each run directory once, and tokenizes each text once."""

from __future__ import annotations

import builtins
import io
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from regard.serving.registry import open_runs


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often run.json and config.yaml were opened for reading since the start of the test."""
    counts: Counter[str] = Counter()
    original = io.open

    def counting_open(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if isinstance(file, str | Path) and Path(file).name in ONCE and "r" in mode:
            counts[Path(file).name] += 1
        return original(file, mode, *arguments, **options)

    monkeypatch.setattr(builtins, "open", counting_open)
    monkeypatch.setattr(io, "open", counting_open)  # used by `Path.open` and `Path.read_text`
    return counts


ONCE = {"run.json": 1, "config.yaml": 1}
STUDIES = Path(__file__).parents[1] / "fixtures" / "studies-0.5.0"
COMMANDS = {
    "translate": ("translate", "RUN", "abc", "ba"),
    "evaluate": ("evaluate", "RUN", "--beam", "1,2"),
    "show": ("show", "RUN", "abc", "--out", "FOLDER/map.svg", "--tree", "FOLDER/tree.svg", "--curves", "FOLDER/c.svg"),
    "show curves": ("show", "RUN", "--curves", "FOLDER/curves.svg"),
    "explain": ("explain", "RUN", "abc"),
    "trace": ("trace", "RUN", "abc"),
    "faithful": ("faithful", "RUN", "abc"),
    "faithful on a split": ("faithful", "RUN", "--limit", "2"),
    "gradients": ("gradients", "RUN", "--limit", "2"),
    "align": ("align", "RUN", "--limit", "2"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_opens_its_run_directory_once(
    name: str, regard: Callable[..., Any], trained: Path, tmp_path: Path, reads: Counter[str]
):
    arguments = [part.replace("RUN", str(trained)).replace("FOLDER", str(tmp_path)) for part in COMMANDS[name]]
    result = regard(*arguments)
    assert result.code == 0, result.err
    assert reads == ONCE


def test_every_run_of_an_ensemble_is_opened_once(
    regard: Callable[..., Any], trained: Path, tmp_path: Path, reads: Counter[str]
):
    copytree(trained, tmp_path / "copy")
    reads.clear()
    assert regard("translate", trained, tmp_path / "copy", "abc").code == 0
    assert reads == {"run.json": 2, "config.yaml": 2}


@pytest.mark.slow
def test_train_opens_a_run_directory_once_to_start_and_once_to_resume(
    regard: Callable[..., Any], tiny_file: Path, brief_settings: tuple[str, ...], tmp_path: Path, reads: Counter[str]
):
    settings = [part for setting in brief_settings for part in ("--set", setting)]
    for _ in ("start", "resume"):
        reads.clear()
        assert regard("train", tiny_file, *settings, "--out", tmp_path / "run").code == 0
        assert reads == ONCE


def test_the_server_opens_a_run_directory_once(trained: Path, reads: Counter[str]):
    open_runs([trained])
    assert reads == ONCE


@pytest.mark.slow
def test_a_study_opens_each_run_directory_once(regard: Callable[..., Any], tmp_path: Path, reads: Counter[str]):
    copytree(STUDIES, tmp_path / "studies")  # of 0.5.0: its runs are found by their settings
    answer = regard("compare", "--config", tmp_path / "studies" / "small" / "study.yaml", "--report")
    assert answer.code == 0, answer.err
    assert reads == {"run.json": 4, "config.yaml": 4}
