"""The walk-through of docs/extending.md: every file, program and command on the page, in their order."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from regard.runs import Run

PAGE = Path(__file__).parent.parent / "docs" / "extending.md"
# A fenced block, or a command: an indented line after a blank one or another command.
PARTS = re.compile(r"^```(python|yaml)\n(.*?)^```$|^    (regard [^\n]*)$", re.DOTALL | re.MULTILINE)


def parts_of_the_page() -> Iterator[tuple[str, str]]:
    """What kind of part (a file's name, `python` or `command`) and its content."""
    for language, block, command in PARTS.findall(PAGE.read_text(encoding="utf-8")):
        file = re.match(r"# ([\w.]+)\n", block)
        if command:
            yield "command", command
        elif file:
            yield file[1], block
        else:
            assert language == "python"
            yield "python", block


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_plugins")
def test_the_walk_through_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, regard: Callable[..., Any], capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    names: dict[str, Any] = {"__name__": "docs"}
    commands = []
    for kind, content in parts_of_the_page():
        if kind == "python":
            exec(content, names)
        elif kind != "command":
            (tmp_path / kind).write_text(content, encoding="utf-8")
        elif not content.startswith("regard serve"):  # tests/test_examples.py has a server
            commands.append(shlex.split(content)[1:])
            if commands[-1][0] == "compare":
                commands[-1] += ["--seeds", "1", "--jobs", "2"]
            answer = regard(*commands[-1])
            assert answer.code == 0, f"{content}\n{answer.err}"
    assert {command[0] for command in commands} == {"train", "evaluate", "show", "compare", "translate"}
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    assert Run(Path("runs/sharp")).experiment.model.attention.options() == {"sharpness": 20}
    results = json.loads((tmp_path / "studies" / "cosine" / "results.json").read_text())
    assert [cell["label"] for cell in results["conditions"]] == ["none", "dot", "cosine.py:CosineAttention"]
    assert Run(Path("runs/student")).metrics()[-1]["validation_exact_match"] > 0.8, "the student's class has learned"
    assert (names["attended_val"].shape, names["alpha"].shape) == ((3, 1024), (3, 11))
    report = names["report"]
    assert report.scores.keys() == {"letters in order", "exact_match"}
    assert report.scores["letters in order"] > 0.5
    # What the text says.
    exact = regard("evaluate", "runs/cosine", "--trust-code", "--metric", "./sorting.py:in_order", "--json")
    assert json.loads(exact.out)["exact_match"] > 0.95
    assert 0 < json.loads(exact.out)[f"{tmp_path}/sorting.py:in_order"] < 1
    for module in ("cosine", "sharp", "sorting", "student"):
        sys.modules.pop(module, None)
