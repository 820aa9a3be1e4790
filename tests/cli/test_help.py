"""Help pages: one plain sentence for each option, on narrow and wide terminals."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
import typer

from regard.cli.app import RegardCommands, app
from regard.cli.help import CommandTable, add_remarks, placeholder

Regard = Callable[..., Any]
PLACEHOLDER = re.compile(r"<(?!begin>|end>)|\[default|x<|\bINTEGER\b|\bBOOLEAN\b|\bNone\b")


class Color(StrEnum):
    red = "red"
    blue = "blue"


def command_names() -> Iterator[tuple[str, ...]]:
    """Every command and every group, such as () for `regard` itself, and ("data", "get")."""
    yield ()
    for name in RegardCommands.lazy_commands:
        yield (name,)
        yield from ((name, inner) for inner in getattr(RegardCommands().load_command(name), "commands", {}))


COMMANDS = [*command_names()]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("columns", [80, 120])
def test_every_help_page_fits_the_terminal(
    regard: Regard, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], columns: int
):
    monkeypatch.setenv("COLUMNS", str(columns))
    page = regard(*command, "-h")
    assert (page.code, page.err) == (0, "")
    assert page.out == regard(*command, "--help").out
    lines = page.out.splitlines()
    assert max(map(len, lines)) <= columns
    assert [line for line in lines if PLACEHOLDER.search(line)] == []


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_parameter_has_one_plain_sentence(command: tuple[str, ...]):
    loaded: Any = typer.main.get_command(app)
    for name in command:
        loaded = loaded.load_command(name) if hasattr(loaded, "load_command") else loaded.commands[name]
    for parameter in loaded.params:
        assert parameter.help, parameter.name
        assert parameter.help[0].isupper() or parameter.help[0] in "αβεds", parameter.help
        assert parameter.help.endswith("."), parameter.help


def test_a_page_has_placeholders_ranges_and_defaults():
    table = CommandTable()

    @table.command("paint")
    def paint(
        wall: Path,
        colors: list[str] | None = None,
        color: Color = typer.Option(Color.blue, help="The color."),  # noqa: B008
        coats: int = typer.Option(2, min=1, max=5, help="How often (at night)."),
        thickness: float = typer.Option(0.0, min=0, help="In mm."),
        layers: int | None = typer.Option(None, max=3, help="Layers."),
        matte: bool = typer.Option(False, "--matte", "-m", help="No gloss."),
    ) -> None: ...

    formatter = typer.main.get_command(table)
    text = formatter.get_help(formatter.make_context("paint", ["wall"], resilient_parsing=True))
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert rows[0] == "Usage: paint [OPTIONS] WALL"
    assert "--color red|blue The color (default: blue)." in rows
    assert "--coats N How often (at night; 1 to 5; default: 2)." in rows
    assert "--thickness NUMBER In mm (at least 0; default: 0)." in rows
    assert "--layers N Layers (at most 3)." in rows
    assert "-m, --matte No gloss." in rows
    assert "-h, --help Show this message and exit." in rows


def test_remarks_share_the_parentheses_at_the_end():
    assert add_remarks("A sentence.") == "A sentence."
    assert add_remarks("A sentence.", "one", "two") == "A sentence (one; two)."
    assert add_remarks("A sentence (zero).", "one") == "A sentence (zero; one)."


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [(int, "N"), (float | None, "NUMBER"), (list[Path] | None, "PATH"), (str, "TEXT"), (None, "TEXT")],
    ids=str,
)
def test_the_placeholder_of_a_type(annotation: Any, expected: str):
    assert placeholder(annotation) == expected


def test_version_has_no_placeholder(regard: Regard):
    (line,) = [line for line in regard("--help").out.splitlines() if "--version" in line]
    assert line.split() == ["--version", "Print", "the", "version", "and", "exit."]


def test_a_usage_error_names_the_help(regard: Regard):
    done = regard("train", "--epoch")
    assert (done.code, done.out) == (2, "")
    assert "Usage: regard train [OPTIONS] EXPERIMENT" in done.err
    assert "Try 'regard train --help' for help." in done.err
    assert "No such option: --epoch" in done.err
