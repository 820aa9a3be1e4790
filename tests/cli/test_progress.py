"""Progress bars on a terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

OnTerminal = Callable[..., tuple[Any, str]]


@pytest.mark.parametrize("command", ["translate", "score", "evaluate"])
def test_a_progress_bar_on_the_terminal_does_not_change_redirected_output(
    regard_on_terminal: OnTerminal, trained: Path, tmp_path: Path, command: str
):
    lines = tmp_path / "lines"
    lines.write_text("abc\n\nde\n" * 50)
    options = {"translate": [], "score": ["--source", lines, "--target", lines], "evaluate": ["--json"]}[command]
    answer, shown = regard_on_terminal(command, trained, *options, stdin=lines.read_bytes())
    assert answer.code == 0, shown
    assert "sentences/s" in shown
    assert "━" in shown
    if command == "translate":
        assert answer.out == lines.read_text()
    assert answer.out.count("\n") == (1 if command == "evaluate" else 150)


@pytest.mark.slow
def test_on_a_terminal_a_progress_bar_appears_and_disappears(
    regard_on_terminal: OnTerminal, tiny_file: Path, brief_settings: tuple[str, ...], tmp_path: Path
):
    options = [part for setting in brief_settings for part in ("--set", setting)]
    answer, shown = regard_on_terminal("train", tiny_file, *options, "--out", tmp_path / "run")
    assert answer.code == 0, shown
    assert "━" in shown
    assert "12/12" in shown
    assert "steps/s" in shown
    assert "step 8/12  loss " in shown  # validations are printed above the bar
    assert shown.endswith("\x1b[1A\x1b[2K"), "the line of the bar is erased"
    assert answer.out.startswith(f"{tmp_path}/run: done")
    assert "━" not in answer.out
