"""`--quiet` and `--verbose`, before and after the name of a command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.cli import app
from regard.terminal import output
from regard.terminal.output import Verbosity, detail, note, print_error, print_message, set_verbosity, verbosity_flags
from regard.terminal.progress import ProgressMeter

Regard = Callable[..., Any]


@pytest.fixture(autouse=True)
def normal_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_verbosity", Verbosity.NORMAL)


@pytest.mark.parametrize(
    ("verbosity", "expected"),
    [
        (Verbosity.QUIET, "error\n"),
        (Verbosity.NORMAL, "error\nmessage\nregard: note: remark\n"),
        (Verbosity.VERBOSE, "error\nmessage\nregard: note: remark\nregard: more\n"),
    ],
)
def test_what_is_printed(capsys: pytest.CaptureFixture[str], verbosity: Verbosity, expected: str):
    set_verbosity(verbosity)
    print_error("error")
    print_message("message")
    note("remark")
    detail("more")
    assert capsys.readouterr() == ("", expected)


def test_the_flags_of_other_processes():
    flags = {}
    for verbosity in Verbosity:
        set_verbosity(verbosity)
        flags[verbosity.name] = verbosity_flags()
    assert flags == {"QUIET": ["--quiet"], "NORMAL": [], "VERBOSE": ["--verbose"]}


def place(flag: str, after: bool, *command: object) -> list[object]:
    return [*command, flag] if after else [flag, *command]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("flag", ["--quiet", "-q"])
def test_quiet_prints_the_results_only(regard: Regard, trained: Path, flag: str, after: bool):
    long = "abcde" * 20
    loud = regard("translate", trained, long)
    assert "note" in loud.err
    assert regard(*place(flag, after, "translate", trained, long)) == type(loud)(0, loud.out, "")


def test_errors_are_never_quiet(regard: Regard, tmp_path: Path):
    done = regard("-q", "translate", tmp_path / "none", "abc")
    assert done.code == 2
    assert done.err.startswith("regard: ")


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("flag", ["--verbose", "-v"])
def test_verbose_prints_files_model_speed_and_time(regard: Regard, trained: Path, flag: str, after: bool):
    done = regard(*place(flag, after, "translate", trained, "abc"))
    assert (done.code, done.out) == (0, "abc\n")
    assert f"regard: reading {trained / 'model.safetensors'}\n" in done.err
    assert f"regard: {trained}: recurrent encoder, dot attention, recurrent decoder; on cpu in float32" in done.err
    assert "sentences/s" in done.err
    assert done.err.endswith(" s\n")


def test_verbose_training_prints_the_settings_and_what_is_written(regard: Regard, tiny_file: Path, tmp_path: Path):
    done = regard("train", tiny_file, "--out", tmp_path / "run", "--set", "training.epochs=1", "-v")
    assert done.code == 0
    assert "\n  epochs: 1\n" in done.err
    assert f"regard: wrote {tmp_path / 'run' / 'state.safetensors'}" in done.err


def test_a_quiet_training_prints_its_result(regard: Regard, tiny_file: Path, tmp_path: Path):
    done = regard("train", tiny_file, "--out", tmp_path / "run", "--set", "training.epochs=1", "-q")
    assert (done.code, done.err) == (0, "")
    assert "done (all epochs done)" in done.out


def test_both_are_refused(regard: Regard):
    for arguments in (["-q", "-v", "recipes"], ["-q", "recipes", "-v"], ["recipes", "-q", "-v"]):
        done = regard(*arguments)
        assert (done.code, done.out, done.err) == (2, "", "regard: give either --quiet or --verbose\n")


def test_every_command_begins_with_the_default(regard: Regard, monkeypatch: pytest.MonkeyPatch):
    regard("-q", "recipes")
    seen = []
    monkeypatch.setattr(app, "app", lambda: seen.append(verbosity_flags()))
    app.run_command()
    assert seen == [[]]


def test_no_bar_is_drawn_if_the_command_is_quiet(regard_on_terminal: Callable[..., Any], trained: Path):
    done, shown = regard_on_terminal("--quiet", "evaluate", trained, "--split", "validation")
    assert (done.code, shown) == (0, "")


def test_the_meter_counts_in_the_singular_and_with_nothing_to_do(capsys: pytest.CaptureFixture[str]):
    set_verbosity(Verbosity.VERBOSE)
    with ProgressMeter(0):
        pass
    assert capsys.readouterr().err.startswith("regard: 0 sentences in 0.0 s")
