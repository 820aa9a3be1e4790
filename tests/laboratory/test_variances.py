"""The variances of the CS224n-style homework."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.errors import UserError
from regard.laboratory.variances import variance_report
from regard.plotting.interval_plot import IntervalRow, draw_intervals

Regard = Callable[..., Any]


def test_the_homework_has_no_significant_difference() -> None:
    report = variance_report()
    pairs = [pair for known in report.data["pairs"].values() for pair in known]
    assert len(pairs) == 6
    assert min(pair["p"] for pair in pairs) == pytest.approx(2 / (1 + 0.0047 / 0.0007))  # closed form, 2 and 2
    assert report.data["significant_ratio"] == pytest.approx(39)
    bleu, loss = (test["p"] for test in report.data["bartlett"].values())
    assert (bleu, loss) == (pytest.approx(0.9717, abs=1e-4), pytest.approx(0.5214, abs=1e-4))
    (largest,) = (pair for pair in pairs if pair["ratio"] > 6)
    assert (largest["larger"], largest["smaller"], largest["runs_for_significance"]) == ("none", "scaled-dot", 7)
    text = report.page.sections[-1].text
    assert text[0].startswith("0 of 6 F-tests and 0 of 2 Bartlett tests are significant")
    assert "The CS224n-style homework concludes" in text[-1]
    assert report.page.facts["numbers"] == "the table of the CS224n-style homework"


@pytest.mark.parametrize("options", [{"runs": 50}, {"runs": 7}, {"variances": ((0.1, 0.4),)}])
def test_other_numbers_are_not_those_of_the_homework(options: dict[str, Any]) -> None:
    report = variance_report(**options)
    assert not any("three runs" in text.lower() or "homework" in text for text in report.page.sections[-1].text)
    runs = options.get("runs")
    origin = f"the table of the CS224n-style homework, as if it were of {runs} runs; it is of 3" if runs else "your own"
    assert report.page.facts["numbers"] == origin


def test_more_runs_make_the_same_variances_significant() -> None:
    seven = variance_report(runs=7)
    assert seven.page.sections[-1].text[0].startswith("1 of 6 F-tests")
    hundreds = variance_report(((1.0, 4.0),), 100)
    assert hundreds.data["pairs"]["row 1"][0]["p"] < 0.001
    assert hundreds.page.sections[-1].text[0].startswith("1 of 1 F-tests and 1 of 1 Bartlett")


def test_equal_variances_are_never_significant() -> None:
    (pair,) = variance_report(((0.5, 0.5),)).data["pairs"]["row 1"]
    assert (pair["p"], pair["runs_for_significance"], pair["runs_for_power"]) == (1, None, None)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"variances": ((1.0,),)}, "--variances has 1 column; a comparison needs"),
        ({"variances": ((1.0, 0.0),)}, "--variances has 0; a variance must be at least 1e-12"),
        ({"variances": ((1.0, -2.0),)}, "--variances has -2; a variance"),
        ({"runs": 1}, "--runs is 1; it can be from 2 to 1,000,000"),
    ],
)
def test_invalid_tables_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        variance_report(**options)


def test_the_picture_has_each_interval() -> None:
    rows = [IntervalRow("a", 0.1, 0.01, 1.0, "x"), IntervalRow("$b$", 0.2, 0.02, 3.0, "y")]
    first, second = draw_intervals(rows, "variance").axes
    for axes, row in ((first, rows[0]), (second, rows[1])):
        (bar,) = axes.collections
        assert [point[0] for point in bar.get_segments()[0]] == [row.low, row.high]
        assert axes.lines[0].get_xdata()[0] == row.value
        assert axes.get_xscale() == "log"
    assert [label.get_text() for label in first.get_yticklabels()] == ["a", "$b$"]
    assert not first.get_shared_x_axes().joined(first, second), "measures have different units"
    assert first.get_xlim()[1] < second.get_xlim()[1]
    for axes in (first, second):
        axes.figure.draw_without_rendering()
        assert any(label.get_text() for label in axes.get_xticklabels())


def test_the_picture_states_the_result() -> None:
    figure = variance_report().figure
    assert [axes.get_title("left") for axes in figure.axes] == ["BLEU: p ≥ 0.816", "validation loss: p ≥ 0.259"]
    (title,) = (text.get_text() for text in figure.texts if "F-tests" in text.get_text())
    assert title == "None of 6 F-tests of two variances is significant at 5 %; smallest p = 0.259"
    seven = variance_report(runs=7).figure
    assert any(text.get_text().startswith("1 of 6 F-tests of two variances is significant") for text in seven.texts)


def test_the_command_line(regard: Regard, tmp_path: Path) -> None:
    path = tmp_path / "it.html"
    answer = regard("lab", "variance", "--out", path)
    assert answer.code == 0, answer.err
    assert path.stat().st_size > 1000
    data = json.loads(regard("lab", "variance", "--variances", "1,50", "--runs", "3", "--json").out)
    assert data["pairs"]["row 1"][0]["p"] < 0.05
    assert regard("lab", "variance", "--runs", "1").code == 2
