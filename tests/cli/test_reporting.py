"""A report on the terminal, as files and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from regard.cli.reporting import check, lines, tell
from regard.errors import UserError
from regard.inspection.report_page import Page, Picture, Section, Table
from regard.laboratory.report import Report, number

PAGE = Page(
    title="A title\x1b[2J",
    lead="What it is about.",
    facts={"run": "runs/a"},
    sections=(
        Section("First", ("Said\x07 before.",), (Table(("name", "value"), (("a", "10.5"), ("b\n", "7"))),)),
        Section("Seen", (), (Picture(Figure(), "a picture"),)),
        Section("Two", (), (Table(("x",), (("1",),), "one"), Table(("y",), (("2",),)))),
    ),
)


def test_the_text_has_all_but_the_picture_and_no_control_characters() -> None:
    assert "\n".join(lines(PAGE)).splitlines() == [
        "A title\\x1b[2J",
        "What it is about.",
        "run: runs/a",
        "",
        "== First",
        "Said\\x07 before.",
        "name  value",
        "a      10.5",
        "b\\n       7",
        "",
        "== Two",
        "one",
        "x",
        "1",
        "",
        "y",
        "2",
    ]


def test_pictures_and_pages_are_written_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = [tmp_path / "new" / "a.PNG", tmp_path / "a.svg", tmp_path / "a.html"]
    tell(Report(PAGE, {"x": [1, "ä"]}), check(out), as_json=False)
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "A title\\x1b[2J"
    assert told[-3:] == [f"{out[0]}: the picture", f"{out[1]}: the picture", f"{out[2]}: all of this, as a page"]
    assert out[0].read_bytes().startswith(b"\x89PNG")
    assert out[1].read_bytes().startswith(b"<?xml")
    assert b"data:image/svg+xml;base64," in out[2].read_bytes()
    tell(Report(PAGE, {"x": [1, "ä"]}), out, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"x": [1, "ä"]}


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("a.html", "a.png"):
        with pytest.raises(UserError, match=r"cannot write the (page|figure): "):
            tell(Report(PAGE, {}), [tmp_path / "file" / name], as_json=False)


@pytest.mark.parametrize(
    ("value", "told"),
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
def test_numbers_have_four_digits_that_count(value: float, told: str) -> None:
    assert number(value) == told
