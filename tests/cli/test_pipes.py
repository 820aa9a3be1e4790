"""`… | regard translate RUN | …`: each line is answered as it arrives."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Start = Callable[..., subprocess.Popen[bytes]]
pytestmark = pytest.mark.slow


def ask(process: Any, line: str) -> str:
    """Send one line, keep the pipe open, and wait for the answer."""
    process.stdin.write(f"{line}\n".encode())
    process.stdin.flush()
    return process.stdout.readline().decode().removesuffix("\n")


def test_a_line_is_answered_before_the_next_one_is_sent(start_regard: Start, trained: Path):
    process = start_regard("translate", trained, "--quiet")
    assert [ask(process, line) for line in ("abc", "", "eda")] == ["abc", "", "eda"]
    out, err = process.communicate(b"bb\ncc")
    assert (process.returncode, out, err) == (0, b"bb\ncc\n", b"")


def test_json_is_one_object_for_each_line(start_regard: Start, trained: Path):
    process = start_regard("translate", trained, "--json", "--beam", 2, "--n-best", 2)
    for line in ("abc", "ed"):
        answer = json.loads(ask(process, line))
        assert (answer["text"], len(answer["n_best"])) == (line, 2)
    assert process.communicate()[0] == b""


def test_many_lines_are_translated_in_batches(start_regard: Start, trained: Path):
    lines = [f"{'abcde'[number % 5]}{'edcba'[number // 5 % 5]}" for number in range(10_000)]
    process = start_regard("translate", trained, "--verbose")
    out, err = process.communicate("\n".join(lines).encode())
    assert out.decode().splitlines() == lines
    assert b"10,000 sentences in " in err


def test_a_bad_line_ends_with_its_number_after_the_answers_before_it(start_regard: Start, trained: Path):
    process = start_regard("translate", trained)
    assert ask(process, "abc") == "abc"
    out, err = process.communicate(b"\xff\n")
    assert (process.returncode, out) == (2, b"")
    assert err.startswith(b"regard: standard input, line 2: ")


@pytest.mark.unix
def test_ctrl_c_while_it_waits_ends_with_130_and_without_a_word(start_regard: Start, trained: Path):
    process = start_regard("translate", trained)
    assert ask(process, "abc") == "abc"
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert (process.stdout.read(), process.stderr.read()) == (b"", b"")


@pytest.mark.unix
def test_the_end_of_the_reader_ends_it_quietly(start_regard: Start, trained: Path):
    process = start_regard("translate", trained)
    assert ask(process, "abc") == "abc"
    process.stdout.close()
    process.stdin.write(b"abc\n")
    process.stdin.close()
    assert process.wait(timeout=60) in (1, 141)
    assert process.stderr.read() == b""


@pytest.mark.unix
def test_a_terminal_is_answered_line_by_line(trained: Path):
    import pty

    keyboard, inner = pty.openpty()
    command = [sys.executable, "-m", "regard", "translate", trained]
    with subprocess.Popen(command, stdin=inner, stdout=subprocess.PIPE) as process, open(keyboard, "wb", 0) as typed:
        for line in (b"abc\n", b"de\n"):
            typed.write(line)
            assert process.stdout is not None
            assert process.stdout.readline() == line
        typed.write(b"\x04")  # Ctrl-D
        assert process.wait(timeout=60) == 0
