"""Every command of docs/laboratory.md runs; those that need no model print what the page shows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from regard.laboratory import probe_tasks, probes

PAGE = (Path(__file__).parents[2] / "docs" / "laboratory.md").read_text(encoding="utf-8")
LEFT_OUT = "…"
# Recipes, trained on a few sentences.
BRIEF = (
    "data.train=150",
    "data.validation=10",
    "data.test=40",
    "training.epochs=1",
    "training.validate_every=100",
)


def files() -> dict[str, str]:
    """The files that the page shows, by name: an experiment and gold alignments."""
    (experiment,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)
    (alignments,) = re.findall(r"```\n\$ head -2 gold.moses\n(.*?)```", PAGE, re.S)
    return {"one-way.yaml": experiment, "gold.moses": alignments}


def commands() -> list[tuple[list[str], list[str]]]:
    """The arguments of each command, in order, and the lines that the page shows of its output."""
    found = []
    for match in re.finditer(r"^(?:    |```\n\$ )regard (.*)$", PAGE, re.M):
        shown = PAGE[match.end() :].split("\n```", 1)[0].splitlines()[1:] if match[0].startswith("```") else []
        found.append((shlex.split(match[1], comments=True), shown))
    found += [(shlex.split(inline), []) for inline in re.findall(r"`regard (lab \w.*?)`", PAGE)]
    return found


def written(arguments: list[str]) -> list[str]:
    """The files that a command writes."""
    return [name for option, name in pairwise(arguments) if option == "--out" and Path(name).suffix]


def same_word(word: str, other: str) -> bool:
    """Numbers are compared with a tolerance: their last bits depend on the processor."""
    try:
        return float(word.strip(".,;")) == pytest.approx(float(other.strip(".,;")), rel=1e-3, abs=1e-6)
    except ValueError:
        return word == other


def same_line(line: str, other: str) -> bool:
    words, others = line.split(), other.split()
    return len(words) == len(others) and all(map(same_word, words, others))


def test_the_page_shows_every_command_of_the_laboratory() -> None:
    shown = {" ".join(arguments[:2] if arguments[0] == "lab" else arguments[:1]) for arguments, _ in commands()}
    lab = {f"lab {name}" for name in ("qkv", "softmax", "context", "bleu", "copy", "average", "noisy-average")}
    lab |= {f"lab {name}" for name in ("encoder", "decoder", "teacher-forcing", "set", "variance")}
    lab |= {"lab", "lab two-heads", "lab positions"}
    assert any(written(arguments) for arguments, _ in commands())
    assert shown == lab | {"train", "evaluate", "explain", "trace", "gradients", "probe", "align", "faithful"}


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [each for each in commands() if each[0][0] == "lab"],
    ids=lambda each: " ".join(each[:2]) if each and each[0] == "lab" else "",
)
def test_a_lab_command_prints_what_the_page_shows(
    regard: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], shown: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = regard(*arguments)
    assert answer.code == 0, answer.err
    lines = iter(answer.out.splitlines())
    for line in shown:
        assert line == LEFT_OUT or any(same_line(line, other) for other in lines), f"not printed: {line}"
    assert all((tmp_path / name).stat().st_size > 1000 for name in written(arguments))


@pytest.mark.slow
def test_every_command_on_a_run_works(
    regard: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(probes, "ITERATIONS", 2)
    monkeypatch.setattr(probes, "PENALTIES", (0.01,))
    monkeypatch.setattr(probe_tasks, "MAX_TOKEN_INDEX", 2)
    for name, content in files().items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    for arguments, shown in commands():
        if arguments[0] == "lab":
            continue
        if arguments[0] == "train":
            arguments = [*arguments, *(part for setting in BRIEF for part in ("--set", setting))]
            if "clauses" in arguments[1]:
                arguments += ["--set", "data.train=1200"]  # fewer lack words of the test split
        elif arguments[0] == "faithful" and len(arguments) == 2:
            arguments = [*arguments, "--limit", "3"]  # outputs of a hardly trained model are long
        answer = regard(*arguments)
        assert answer.code == 0, (arguments, answer.err)
        heads = [line for line in shown if line.startswith("== ") and "Step" not in line and "Encoder" not in line]
        assert all(head in answer.out for head in heads), "the page shows existing sections"
        assert all((tmp_path / name).stat().st_size > 1000 for name in written(arguments))
