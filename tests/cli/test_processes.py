"""Commands as processes of their own: broken pipes, terminals, exit codes."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

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
def test_a_user_error_exits_with_code_2_and_one_line(start_regard: Start, trained: Path):
    process = start_regard("translate", trained, "xyz")
    out, err = process.communicate()
    assert process.returncode == 2
    assert out == b""
    assert err.startswith(b"regard: text 1: ")
    assert err.count(b"\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(("closed", "out"), [("2>&-", b"abc\n"), (">&-", b""), ("<&-", b"abc\n")])
def test_a_closed_stream_is_accepted(trained: Path, closed: str, out: bytes):
    command = f'"{sys.executable}" -m regard translate "{trained}" abc {closed}'
    done = subprocess.run(["sh", "-c", command], capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, out, b"")


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


def read_terminal(terminal: int) -> str:
    """All that a process writes to a terminal before it ends."""
    seen = b""
    while True:
        try:
            piece = os.read(terminal, 65_536)
        except OSError:  # Linux reports a closed other end like this
            break
        if not piece:
            break
        seen += piece
    os.close(terminal)
    return seen.decode()


@pytest.mark.slow
@pytest.mark.parametrize("command", ["translate", "score", "evaluate"])
def test_a_progress_bar_on_the_terminal_does_not_change_redirected_output(
    start_regard: Start, trained: Path, tmp_path: Path, command: str
):
    terminal, inner = pty.openpty()
    lines = tmp_path / "lines"
    lines.write_text("abc\n\nde\n" * 50)
    options = {"translate": [], "score": ["--source", lines, "--target", lines], "evaluate": ["--json"]}[command]
    with lines.open() as source, (tmp_path / "out").open("wb") as out:
        environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
        process = start_regard(command, trained, *options, stdin=source, stdout=out, stderr=inner, env=environment)
        os.close(inner)
        shown = read_terminal(terminal)
        assert process.wait() == 0, shown
    written = (tmp_path / "out").read_text()
    assert "sentences/s" in shown
    assert "━" in shown
    if command == "translate":
        assert written == lines.read_text()
    assert written.count("\n") == (1 if command == "evaluate" else 150)


@pytest.mark.slow
def test_on_a_terminal_a_progress_bar_appears_and_disappears(
    start_regard: Start, tiny_file: Path, brief_settings: tuple[str, ...], tmp_path: Path
):
    terminal, inner = pty.openpty()
    options = [part for setting in brief_settings for part in ("--set", setting)]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
    process = start_regard("train", tiny_file, *options, "--out", tmp_path / "run", stderr=inner, env=environment)
    os.close(inner)
    shown = read_terminal(terminal)
    out, _ = process.communicate()
    assert process.returncode == 0, shown
    assert "━" in shown
    assert "12/12" in shown
    assert "steps/s" in shown
    assert "step 8/12  loss " in shown  # validations are printed above the bar
    assert out.decode().startswith(f"{tmp_path}/run: done")
    assert "━" not in out.decode()
