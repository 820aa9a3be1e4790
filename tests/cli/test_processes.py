"""Commands as processes of their own: broken pipes, closed streams, encodings, exit codes."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from regard.cli import training_commands
from regard.tasks.generated import GeneratedDataset

Start = Callable[..., Any]


@pytest.mark.slow
def test_a_closed_pipe_causes_no_traceback(start_regard: Start, trained: Path):
    """`regard translate RUN < lines | head -1`"""
    process = start_regard("translate", trained)
    process.stdin.write(b"abc\n" * 512)
    process.stdin.flush()
    assert process.stdout.readline() == b"abc\n"
    process.stdout.close()
    with suppress(BrokenPipeError):
        process.stdin.write(b"abc\n" * 20_000)
    with suppress(BrokenPipeError):
        process.stdin.close()
    process.wait()
    assert process.stderr.read() == b""
    assert process.returncode in (1, 141)


@pytest.mark.slow
def test_a_user_error_exits_with_code_2_and_one_line(start_regard: Start, tmp_path: Path):
    process = start_regard("data", "check", "--source", tmp_path / "none.de", "--target", tmp_path / "none.en")
    out, err = process.communicate()
    assert process.returncode == 2
    assert out == b""
    assert err.startswith(f"regard: {tmp_path / 'none.de'}: ".encode())
    assert err.count(b"\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "closed", "code"),
    [("translate RUN", "<&-", 0), ("recipes", ">&-", 0), ("data check --source nowhere --target nowhere", "2>&-", 2)],
)
def test_a_closed_stream_is_accepted(trained: Path, arguments: str, closed: str, code: int):
    """Each command uses the stream that is closed: it is empty, or what is written to it is lost."""
    command = shlex.join([sys.executable, "-m", "regard", *arguments.replace("RUN", str(trained)).split()])
    done = subprocess.run(["sh", "-c", f"{command} {closed}"], capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")


@pytest.mark.slow
def test_characters_that_a_stream_cannot_encode_are_escaped(start_regard: Start, tmp_path: Path):
    for name, text in (("caf\udce9.de", "eins\neins\n"), ("x.en", "one\none\n")):
        (tmp_path / name).write_text(text)
    files = ("--source", tmp_path / "caf\udce9.de", "--target", tmp_path / "x.en")
    for encoding in ("utf-8:strict", "ascii:strict"):
        process = start_regard("data", "check", *files, env=os.environ | {"PYTHONIOENCODING": encoding})
        out, err = process.communicate()
        assert (process.returncode, err) == (0, b"")
        assert b"caf\\udce9.de" in out


# --- Interrupts and memory -------------------------------------------------------------------------------

INTERRUPTED_IMPORT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a shell, it is ignored
module = sys.argv.pop(1)
class InterruptAtImport:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, InterruptAtImport())
from regard.cli import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("module", "code"), [("typer", -signal.SIGINT), ("torch._tensor", 130)])
def test_an_interrupt_while_modules_are_imported_causes_no_traceback(trained: Path, module: str, code: int):
    """Of the command line's own modules, and of those that a command needs."""
    command = [sys.executable, "-c", INTERRUPTED_IMPORT, module, "translate", str(trained), "abc"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def test_an_error_that_an_interrupt_has_caused_is_no_error(regard: Start, monkeypatch: pytest.MonkeyPatch):
    def interrupted_import() -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise ImportError("an extension module was not initialized")  # noqa: B904

    monkeypatch.setattr(training_commands, "recipes_command", interrupted_import)
    done = regard("recipes")
    assert (done.code, done.err) == (130, "")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        OSError(12, "Cannot allocate memory"),
    ],
    ids=repr,
)
def test_too_little_memory_is_a_user_error(regard: Start, monkeypatch: pytest.MonkeyPatch, error: Exception):
    def fail() -> None:
        raise error

    monkeypatch.setattr(training_commands, "recipes_command", fail)
    done = regard("recipes")
    assert done.code == 2
    assert done.err.startswith("regard: not enough memory; reduce ")


def test_an_address_space_that_pytorch_does_not_fit_into_is_refused(regard: Start, monkeypatch: pytest.MonkeyPatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (600_000_000, resource.RLIM_INFINITY))
    done = regard("recipes")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("regard: not enough memory: this process may use 600 MB (ulimit -v)")
    assert regard("--help").code == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_data_is_generated_ends_the_training_at_once(
    regard: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
):
    generated = []

    def interrupted(*_: object) -> None:
        generated.append(number)
        signal.raise_signal(number)

    monkeypatch.setattr(GeneratedDataset, "_generate_split", interrupted)
    done = regard("train", "case", "--out", tmp_path / "run")
    message = f"{tmp_path}/run: stopped while reading the data; run the same command to continue\n"
    assert (done.code, done.err, len(generated)) == (128 + number, message, 1)
    assert os.listdir(tmp_path) == []
