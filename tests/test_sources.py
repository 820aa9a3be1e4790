"""docs/sources.md: every name resolves, every `regard lab` command runs and prints the numbers of its row."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from regard.cli.app import RegardCommands
from regard.config import kinds, recipes
from regard.studies import built_in

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "sources.md").read_text(encoding="utf-8")
RESULT_PAGES = ("studies", "commands", "results", "laboratory")
FAMILIES: dict[str, Any] = {
    "attention.kind": kinds.MECHANISMS,
    "cell": kinds.CELLS,
    "wiring": kinds.WIRINGS,
    "positions.kind": kinds.POSITIONS,
    "training.teacher_forcing.kind": kinds.TEACHER_FORCING_SCHEDULES,
}


def table_rows(heading: str) -> Iterator[list[str]]:
    """The rows of the table below a heading, without its header."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [re.split(r"(?<!\\) \| ", line.strip("| ")) for line in section.splitlines() if line.startswith("|")]
    yield from rows[2:]


DOCUMENTS = ("EECS 182", "QTM 447", "Week 4 slides", "CS224n-style homework")
ANSWERS = [(answer, result) for document in DOCUMENTS for _, answer, result in table_rows(document)]
ERRORS = [(command, correct) for _, _, correct, command in table_rows("Errors in the documents")]
LAB_ROWS = [(code, result) for text, result in ANSWERS + ERRORS for code in re.findall(r"`(regard lab [^`]+)`", text)]


def test_every_row_has_an_answer_and_a_result() -> None:
    assert len(ANSWERS) > 40
    assert all(answer.strip() and result.strip() for answer, result in ANSWERS + ERRORS)
    assert "@@" not in PAGE


@pytest.mark.parametrize("noun", ["recipe", "study", "task", "encoder"])
def test_every_named_kind_exists(noun: str) -> None:
    """`recipe `x``, `recipes `x`, `y``, `task and recipe `x``, …"""
    plural = {"study": "study|studies"}.get(noun, f"{noun}s?")
    lists = re.findall(rf"\b(?:{plural})(?: and \w+)? ((?:`[\w-]+`(?:, | and )?)+)", PAGE)
    names = [name for each in lists for name in re.findall(r"`([\w-]+)`", each)]
    known = {
        "recipe": recipes.recipe_names(),
        "study": built_in.study_names(),
        "task": list(kinds.TASKS),
        "encoder": list(kinds.ENCODERS),
    }
    assert names
    assert set(names) <= set(known[noun])


def test_every_setting_names_a_kind_that_exists() -> None:
    settings = [(key, value) for key, value in re.findall(r"`([\w.]+): ([\w-]+)`", PAGE) if key in FAMILIES]
    assert {key for key, _ in settings} == FAMILIES.keys()
    assert [(key, value) for key, value in settings if value not in FAMILIES[key]] == []


def test_every_command_exists() -> None:
    commands = {shlex.split(code)[1] for code in re.findall(r"`(regard [^`]+)`", PAGE)}
    assert commands <= set(RegardCommands().list_commands(None))  # type: ignore[arg-type]


@pytest.mark.parametrize("code", re.findall(r"`python -c \"([^\"]+)\"`", PAGE))
def test_every_line_of_python_prints_the_shape_of_its_row(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(code, {})
    (row,) = (correct for text, correct in ERRORS if code in text)
    (shape,) = re.findall(r"(\d) × (\d)", row)
    assert f"[{', '.join(shape)}]" in capsys.readouterr().out


@pytest.mark.parametrize("command", sorted({code for code, _ in LAB_ROWS}))
def test_every_quick_command_prints_the_numbers_of_its_rows(command: str, regard: Callable[..., Any]) -> None:
    result = regard(*shlex.split(command)[1:])
    assert result.code == 0
    numbers = [number for code, text in LAB_ROWS if code == command for number in decimals(text)]
    printed = set(re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", result.out.replace(",", " ").replace("−", "-")))
    assert [number for number in numbers if not any(same(number, each) for each in printed)] == []


@pytest.mark.parametrize(
    ("answer", "result"), [row for row in ANSWERS if "regard lab" not in row[0]], ids=lambda text: text[:40]
)
def test_the_numbers_of_the_other_rows_are_on_the_pages_with_results(answer: str, result: str) -> None:
    pages = "".join((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in RESULT_PAGES)
    known = set(re.findall(r"\d+\.\d+", pages))
    numbers = [number for number in decimals(result) if "." in number]
    assert [number for number in numbers if not any(same(number, each) for each in known)] == []


def decimals(text: str) -> list[str]:
    """The numbers of a result that are worth checking: those with a decimal point or with three digits or more."""
    plain = re.sub(r"`[^`]*`|\[[^\]]*\]\([^)]*\)", "", text)
    return re.findall(r"(?<![\w.])-?(?:\d+\.\d+(?:e-?\d+)?|\d{3,})(?![\w.]*\d)", plain)


def same(number: str, printed: str) -> bool:
    """Whether a printed number, rounded as the page rounds it, is the number of the page."""
    digits = len(number.partition("e")[0].partition(".")[2])
    return float(number) == float(printed) or ("e" not in number and float(number) == round(float(printed), digits))
