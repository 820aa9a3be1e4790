"""Stopping and resuming is bit-identical to not stopping, at any step and after any kind of stop."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, BinaryIO

import pytest

from regard import files
from regard.config.schema import Experiment
from regard.runs import Run

Make = Callable[..., Experiment]
Same = Callable[[Path, Path], None]


@pytest.mark.parametrize("steps", [1, 3, 4, 5, 11, 12])
def test_a_stopped_training_resumes_bit_identically(
    brief: Make, trained_brief: Callable[..., Path], train_in: Any, tmp_path: Path, same_training: Same, steps: int
):
    """In the middle of an epoch, at its end, which is a validation, and at the very end."""
    stopped = train_in(brief(), stop_after=steps)
    assert stopped.progress.step == steps
    assert bool(stopped.progress.finished) == (steps == 12)
    resumed = train_in(brief())
    assert resumed.train_begins == ([] if steps == 12 else [(steps, 12)])
    assert len(resumed.losses) == 12 - steps
    same_training(tmp_path / "run", trained_brief())


def test_a_training_may_be_stopped_after_every_step(
    brief: Make, trained_brief: Callable[..., Path], train_in: Any, tmp_path: Path, same_training: Same
):
    while not train_in(brief(), stop_after=1).progress.finished:
        pass
    same_training(tmp_path / "run", trained_brief())


@pytest.mark.parametrize(
    "settings",
    [
        ("training.optimizer={kind: adamw, weight_decay: 0.1}", "training.label_smoothing=0.1"),
        ("training.rate.kind=plateau", "training.rate.patience=1", "training.validate_every=2", "training.patience=4"),
        ("model.decoder.readout=tied", "training.teacher_forcing.kind=linear", "training.teacher_forcing.epochs=2"),
        (
            "model.encoder.kind=self-attention",
            "model.decoder.kind=transformer",
            "model.decoder.embedding=16",
            "model.attention.kind=multi-head",
        ),
        # Here some weights never get a gradient, and the optimizer has no state for them.
        ("model.attention.kind=scaled-dot", "model.attention.normalizer=hard"),
        ("model.attention.kind=none", "model.decoder.start=zeros"),
        ("model.attention.kind=monotonic",),  # its scores get noise in training
        ("model.attention={kind: coverage, normalizer: entmax15}", "model.decoder.wiring=input-feeding"),
    ],
    ids=["adamw", "plateau", "tied", "transformer", "hard", "no-source", "monotonic", "coverage"],
)
def test_every_kind_of_training_resumes(
    brief: Make,
    trained_brief: Callable[..., Path],
    train_in: Any,
    tmp_path: Path,
    same_training: Same,
    settings: tuple[str, ...],
):
    for steps in (2, 3):
        train_in(brief(*settings), stop_after=steps)
    assert train_in(brief(*settings)).progress.finished
    same_training(tmp_path / "run", trained_brief(*settings))


# --- A crash at every write ------------------------------------------------------------------------------


class Crash(BaseException):
    """Simulates the end of the process: only files are left."""


class Crashes:
    """Lets every write succeed except one, which leaves the old or the new file and ends the process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, *, written: bool) -> None:
        self.at, self.written, self.count = at, written, 0
        self.writer, self.append = files.atomic_writer, Run.append_metrics
        monkeypatch.setattr(files, "atomic_writer", self.crashing_writer)
        monkeypatch.setattr(Run, "append_metrics", lambda run, row: self.crashing_append(run, row))

    def due(self) -> bool:
        self.count += 1
        return self.count == self.at

    @contextmanager
    def crashing_writer(self, path: Path) -> Iterator[BinaryIO]:
        due = self.due()
        with self.writer(path) as file:
            yield file
            if due and not self.written:
                raise Crash
        if due:
            raise Crash

    def crashing_append(self, run: Run, row: dict[str, Any]) -> None:
        due = self.due()
        self.append(run, row)
        if due:
            path = run.path / "metrics.jsonl"
            if not self.written:
                path.write_bytes(path.read_bytes()[:-15])
            raise Crash


FEW = ("training.save_every=0", "training.epochs=1", "training.validate_every=2", "training.patience=1")


@pytest.mark.slow
@pytest.mark.parametrize("written", [False, True], ids=["before", "after"])
def test_a_crash_at_any_write_loses_nothing(
    brief: Make,
    trained_brief: Callable[..., Path],
    train_in: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    same_training: Same,
    written: bool,
):
    experiment, expected = brief(*FEW), trained_brief(*FEW)
    crashed = True
    writes = 0
    while crashed:
        writes += 1
        name = f"run{writes}"
        with monkeypatch.context() as patch:
            Crashes(patch, writes, written=written)
            try:
                train_in(experiment, name=name)
                crashed = False
            except Crash:
                pass
        assert train_in(experiment, name=name).progress.finished
        same_training(tmp_path / name, expected)
    assert writes > 12


def test_partial_files_of_a_killed_process_are_removed(
    brief: Make, trained_brief: Callable[..., Path], train_in: Any, tmp_path: Path, same_training: Same
):
    train_in(brief(), stop_after=5)
    for name in (".state.safetensors.abc12345", ".model.safetensors.x_y_z", ".metrics.jsonl.q"):
        (tmp_path / "run" / name).write_bytes(b"half")
    (tmp_path / "victim").mkdir()
    (tmp_path / "run" / ".scores.json.abc12345").symlink_to(tmp_path / "victim")
    train_in(brief())
    same_training(tmp_path / "run", trained_brief())
    assert (tmp_path / "victim").is_dir()


@pytest.mark.parametrize("stop_after", [5, None], ids=["unfinished", "finished"])
def test_scratch_folders_of_killed_processes_are_removed_by_the_next_training(
    brief: Make,
    trained_brief: Callable[..., Path],
    train_in: Any,
    tmp_path: Path,
    same_training: Same,
    stop_after: int | None,
):
    train_in(brief(), stop_after=stop_after)
    for name in (".run.abcd1234/new", "run/.state.safetensors.abcd1234/new", "run/.scores.json.abcd1234/new"):
        (tmp_path / name).mkdir(parents=True)
    train_in(brief())
    same_training(tmp_path / "run", trained_brief())
    assert os.listdir(tmp_path) == ["run"]


# --- Signals ---------------------------------------------------------------------------------------------


def read_until(process: subprocess.Popen[bytes], pattern: bytes) -> bytes:
    """The stderr of the process up to a line with `pattern`, or to its end."""
    seen = b""
    assert process.stderr
    for line in process.stderr:
        seen += line
        if re.search(pattern, line):
            break
    return seen


@pytest.mark.unix
@pytest.mark.slow
def test_a_repeatedly_killed_training_ends_bit_identically(
    tiny_file: Path, trained: Path, tmp_path: Path, start_regard: Callable[..., Any], same_training: Same
):
    random = Random(4)
    command = ("train", tiny_file, "--out", tmp_path / "run", "--set", "training.save_every=0")
    kills = 0
    for _ in range(4):
        process = start_regard(*command)
        read_until(process, rb"parameters, .* steps")
        if kills < 2:
            try:
                process.wait(random.uniform(0.1, 0.7))
            except subprocess.TimeoutExpired:
                process.kill()
        _, rest = process.communicate()
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, rest.decode()
        kills += 1
    assert process.returncode == 0
    assert kills == 2
    same_training(tmp_path / "run", trained)


@pytest.mark.unix
@pytest.mark.slow
def test_a_signal_stops_after_the_step_saves_and_prints_how_to_resume(
    tiny: Make,
    tiny_file: Path,
    trained: Path,
    train_in: Any,
    tmp_path: Path,
    start_regard: Callable[..., Any],
    same_training: Same,
):
    out = tmp_path / "run"
    process = start_regard("train", tiny_file, "--out", out)
    read_until(process, rb"step 24/")
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate()
    assert process.returncode == 130, stderr.decode()
    assert stdout == b""
    assert b"stopping after the current step; a second signal stops immediately" in stderr
    output = re.search(rf"{out}: stopped after step (\d+); run the same command to continue", stderr.decode())
    assert output
    assert b"Traceback" not in stderr
    resumed = train_in(tiny())
    assert resumed.train_begins[0][0] == int(output[1])
    same_training(out, trained)


@pytest.mark.unix
@pytest.mark.slow
def test_a_second_signal_stops_immediately(tiny_file: Path, tmp_path: Path, start_regard: Callable[..., Any]):
    process = start_regard("train", tiny_file, "--out", tmp_path / "run", "--set", "training.epochs=1000")
    read_until(process, rb"step 24/")
    process.send_signal(signal.SIGSTOP)  # both arrive before the next step is over
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    read_until(process, rb"a second signal stops immediately")
    process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert process.returncode in (-signal.SIGTERM, 143)


@pytest.mark.unix
@pytest.mark.slow
def test_two_processes_in_one_directory_are_refused(
    tiny_file: Path, tmp_path: Path, start_regard: Callable[..., Any], regard: Any
):
    arguments = ("train", tiny_file, "--out", tmp_path / "run", "--set", "training.epochs=1000")
    process = start_regard(*arguments)
    read_until(process, rb"step 12/")
    answer = regard(*arguments)
    assert answer.code == 2
    assert answer.err == f"regard: {tmp_path}/run: another process is training here\n"
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate()
    assert process.returncode == 143
    assert b"run: stopped after step " in stderr
