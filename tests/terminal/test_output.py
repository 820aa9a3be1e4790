"""Characters that control a terminal never reach one; a pipe gets results unchanged."""

from __future__ import annotations

import ast
import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

import regard
from regard.terminal.output import for_stream, note, print_message, print_result
from regard.terminal.tables import print_table

HOSTILE = "a\x1b[31m\u202eb\x9bc"
ESCAPED = "a\\x1b[31m\\u202eb\\x9bc"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_results_are_escaped_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch):
    for stream, expected in ((Terminal(), ESCAPED), (io.StringIO(), HOSTILE)):
        monkeypatch.setattr(sys, "stdout", stream)
        print_result(HOSTILE)
        assert stream.getvalue() == f"{expected}\n"
        assert for_stream(HOSTILE, stream) == expected


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()])
def test_messages_are_always_escaped(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO):
    monkeypatch.setattr(sys, "stderr", stream)
    print_message(f"{HOSTILE}\nnext\tline")
    note(HOSTILE)
    assert stream.getvalue() == f"{ESCAPED}\nnext\tline\nregard: note: {ESCAPED}\n"


def test_tables_are_escaped_on_a_terminal_only():
    for stream, expected in ((Terminal(), ESCAPED), (io.StringIO(), HOSTILE)):
        print_table([HOSTILE, "x"], [[HOSTILE, "1"]], title=HOSTILE, file=stream)
        assert stream.getvalue().count(expected) == 3
        assert ("\x1b[31m" in stream.getvalue()) == (expected == HOSTILE)


def test_only_the_terminal_package_prints():
    """A bare `print` would write control characters to a terminal."""
    for path in Path(regard.__file__).parent.rglob("*.py"):
        calls = [node.func for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
        printed = [call for call in calls if isinstance(call, ast.Name) and call.id == "print"]
        assert path.parent.name == "terminal" or not printed, path


@pytest.mark.parametrize(
    "arguments",
    [
        [HOSTILE],
        ["translate", f"--{HOSTILE}"],
        ["translate", f"no/{HOSTILE}", "text"],
        ["train", HOSTILE],
        ["train", "case", "--set", HOSTILE],
        ["train", "case", "--set", f"training.{HOSTILE}=1"],
        ["train", "case", "--set", f"training.seed={HOSTILE}"],
        ["evaluate", HOSTILE],
        ["data", "check", "--source", HOSTILE, "--target", HOSTILE],
        ["data", "get", HOSTILE],
        ["lab", HOSTILE],
        ["serve", HOSTILE, "--port", "0"],
        ["show", HOSTILE, HOSTILE, "--out", "map.png"],
        ["clean", HOSTILE],
    ],
    ids=lambda arguments: " ".join(arguments)[:20].encode("unicode_escape").decode(),
)
def test_arguments_in_messages_are_escaped(regard: Callable[..., Any], arguments: list[str]):
    done = regard(*arguments)
    assert done.code == 2
    assert "\\x1b" in done.err
    assert not {"\x1b", "\u202e", "\x9b"} & set(done.err)


@pytest.fixture
def hostile_run(trained: Path, tmp_path: Path) -> Path:
    """A run whose vocabulary has a control sequence in place of `a`."""
    path = Path(shutil.copytree(trained, tmp_path / "run"))
    vocabulary = json.loads((path / "vocabulary.json").read_text())
    vocabulary["target"] = ["\x1b[31m" if token == "a" else token for token in vocabulary["target"]]
    (path / "vocabulary.json").write_text(json.dumps(vocabulary))
    save_file(load_file(path / "model.safetensors"), path / "model.safetensors", {"regard": "{}"})
    return path


def test_tokens_of_a_hostile_run_are_escaped_on_a_terminal_only(
    hostile_run: Path, regard: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    assert regard("translate", hostile_run, "abc").out == "\x1b[31mbc\n"
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    assert regard("translate", hostile_run, "abc").code == 0
    assert regard("show", hostile_run, "abc", "--out", hostile_run / "map.png").code == 0
    lines = terminal.getvalue().splitlines()
    assert lines[:2] == ["\\x1b[31mbc"] * 2
    assert "\x1b" not in terminal.getvalue()
