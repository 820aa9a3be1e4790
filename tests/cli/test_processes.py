"""Commands as processes of their own: broken pipes, closed streams, encodings, exit codes."""

from __future__ import annotations

import os
import shlex
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
