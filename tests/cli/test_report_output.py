"""A report on the terminal, as files and as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from regard.cli.report_output import check_output_path, print_report, report_lines
from regard.errors import UserError
from regard.laboratory.formatting import format_number
from regard.laboratory.lab_report import LabReport
from regard.reports.report_page import Picture, ReportPage, ReportSection, Table

PAGE = ReportPage(
    title="A title\x1b[2J",
    lead="What it is about.",
    facts={"run": "runs/a"},
    sections=(
        ReportSection(
            "First",
            ("Text\x07 before.",),
            (Table(("name", "kind", "value"), (("a", "x", "10.5"), ("b\n", "long", "7"))),),
        ),
        ReportSection("Seen", (), (Picture(Figure(), "a picture"),)),
        ReportSection("Two", (), (Table(("x",), (("1",),), "one"), Table(("y",), (("2",),)))),
    ),
)


def test_the_text_has_everything_but_figures_and_no_control_characters() -> None:
    assert "\n".join(report_lines(PAGE)).splitlines() == [
        "A title\\x1b[2J",
        "What it is about.",
        "run: runs/a",
        "",
        "== First",
        "Text\\x07 before.",
        "name  kind  value",
        "a     x      10.5",
        "b\\n   long      7",
        "",
        "== Two",
        "one",
        "x",
        "1",
        "",
        "y",
        "2",
    ]


def test_figures_and_pages_are_written_and_their_paths_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = [tmp_path / "new" / "a.PNG", tmp_path / "a.svg", tmp_path / "a.html"]
    print_report(LabReport(PAGE, {"x": [1, "ä"]}), check_output_path(out), as_json=False)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "A title\\x1b[2J"
    assert printed[-3:] == [f"{out[0]}: picture", f"{out[1]}: picture", f"{out[2]}: report"]
    assert out[0].read_bytes().startswith(b"\x89PNG")
    assert out[1].read_bytes().startswith(b"<?xml")
    assert b"data:image/svg+xml;base64," in out[2].read_bytes()
    print_report(LabReport(PAGE, {"x": [1, "ä"]}), out, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"x": [1, "ä"]}


def test_a_file_that_cannot_be_written_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    for name in ("a.html", "a.png"):
        with pytest.raises(UserError, match=r"cannot write the (page|figure): "):
            print_report(LabReport(PAGE, {}), [tmp_path / "file" / name], as_json=False)
        assert "What it is about." in capsys.readouterr().out, "the results are printed anyway"


@pytest.mark.parametrize(
    ("value", "formatted"),
    [
        (0, "0"),
        (0.55, "0.55"),
        (1054, "1054"),
        (-396.0, "-396"),
        (0.22486, "0.2249"),
        (1e-9, "1e-09"),
        (12345, "12,345"),
    ],
)
def test_numbers_have_four_significant_digits(value: float, formatted: str) -> None:
    assert format_number(value) == formatted


def test_the_laboratory_lists_its_experiments(regard: Callable[..., Any]) -> None:
    header, *lines = regard("lab").out.splitlines()
    assert header == "command          what it shows"
    assert [line.split()[0] for line in lines] == list(json.loads(regard("lab", "--json").out))
    assert lines[0].startswith("qkv              Queries, keys and values: ")


@pytest.mark.parametrize(
    ("arguments", "last"),
    [
        (["gradients", "--limit", 7], r"49/49 passes  [\d,.]+ passes/s  0:00 left"),
        (["align", "--limit", 7], r"7/7 sentences  [\d,.]+ sentences/s  0:00 left"),
        (["faithful", "--limit", 7], r"7/7 sentences  [\d,.]+ sentences/s  0:00 left"),
        (["faithful", "abc"], r"8/8 tokens  [\d,.]+ tokens/s  0:00 left"),
        (["probe"], r"(\d+)/\1 probes  [\d,.]+ probes/s  0:00 left"),
    ],
    ids=lambda each: " ".join(map(str, each)) if isinstance(each, list) else "",
)
def test_progress_has_a_rate_and_the_time_left(
    regard: Callable[..., Any], trained: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[object], last: str
) -> None:
    monkeypatch.setattr("regard.terminal.progress.LOG_INTERVAL", 0.0)
    monkeypatch.setattr("regard.laboratory.probes.ITERATIONS", 2)
    command, *rest = arguments
    lines = regard(command, trained, *rest).err.splitlines()
    assert re.fullmatch(last, lines[-1]), lines[-1]
