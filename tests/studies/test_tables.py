from __future__ import annotations

import csv
import json
from collections.abc import Callable
from io import StringIO

import pytest

from regard.studies import export, tables
from regard.studies.jobs import TrainingJob
from regard.studies.results import StudyResults

NewResults = Callable[..., StudyResults]
SHARES = {"none": [0.1, 0.2], "dot": [0.9, 0.8]}
THREE = {"none": [0.1, 0.2, 0.3], "dot": [0.9, 0.8, 0.7]}
VARY = ["model.attention.kind=none,dot"]


def test_the_main_table(new_results: NewResults):
    table = tables.main_table(new_results(THREE, vary=VARY))
    assert table.head == (
        *("attention.kind", "runs", "exact match (%)", "variance", "std. dev.", "95 % interval"),
        *("difference", "p, sentences", "p, seeds", "significant"),
    )
    # All in percentage points: s² = (10² + 10²) / 2; the interval reaches 4.303 · 10 / √3 to each side.
    assert table.rows[0] == ("none", "3", "20.0", "100", "10", "0.0 to 44.8", "baseline", "", "", "")
    assert table.rows[1] == ("dot", "3", "80.0", "100", "10", "55.2 to 100.0", "+60.0", "<0.001", "0.002", "yes")


@pytest.mark.parametrize(
    ("shares", "reason"),
    [
        ({"none": [0.1, 0.1], "dot": [0.9, 0.9]}, "2 runs"),
        ({"none": [0.1], "dot": [0.9]}, "1 run"),
        ({"none": [0.0] * 3, "dot": [1.0] * 3}, "no variance"),
    ],
)
def test_a_difference_without_a_test_over_seeds_has_its_reason(
    new_results: NewResults, shares: dict[str, list[float]], reason: str
):
    results = new_results(shares, vary=VARY, expect=[{"order": ["none", "dot"]}])
    assert tables.main_table(results).rows[1][-3:] == ("<0.001", f"– ({reason})", "–")
    expected = tables.expectation_table(results)
    assert expected
    assert expected.rows[0][-3:] == ("<0.001", f"– ({reason})", "as expected, significance unknown")
    (comparison,) = json.loads(export.dump_json(results))["comparisons"]
    assert comparison["over_seeds"] | {"mean": 0} == {
        "mean": 0,
        **dict.fromkeys(("low", "high", "p")),
        "untested": reason,
    }
    assert (comparison["corrected_p_seeds"], comparison["significant"]) == (None, None)


def test_unknown_values_are_dashes(new_results: NewResults):
    table = tables.main_table(new_results({"dot": [0.9]}, vary=VARY, seeds=1))
    assert table.rows[0] == ("none", "0", "–", "–", "–", "–", "baseline", "", "", "")
    assert table.rows[1] == ("dot", "1", "90.0", "–", "–", "–", "–", "–", "–", "–")


def test_without_a_baseline_there_are_no_differences(new_results: NewResults):
    table = tables.main_table(new_results({"dot": [0.9, 0.8]}, vary=["model.attention.kind=dot"], seeds=2))
    assert table.head[-1] == "95 % interval"


def test_the_table_of_other_metrics(new_results: NewResults):
    results = new_results(SHARES, vary=VARY, seeds=2, metrics=["exact_match", "validation_loss", "alignment_accuracy"])
    table = tables.other_metrics_table(results)
    assert table
    assert table.head == ("attention.kind", "validation loss", "variance", "alignment accuracy", "variance")
    assert table.rows[0] == ("none", "1.650", "0.005", "–", "–")
    assert tables.other_metrics_table(new_results(SHARES, vary=VARY)) is None


def test_the_table_of_expectations(new_results: NewResults):
    results = new_results(THREE, vary=VARY, expect=[{"order": ["none", "dot"]}])
    table = tables.expectation_table(results)
    assert table
    assert table.rows == (("none < dot", "20.0", "80.0", "<0.001", "0.002", "as expected"),)
    assert tables.expectation_table(new_results(SHARES, vary=VARY)) is None


def test_the_table_of_runs_has_every_run(new_results: NewResults):
    table = tables.run_table(new_results(SHARES, vary=VARY, seeds=2))
    assert table.head == ("attention.kind", "seed", "exact match", "run")
    assert [row[:3] for row in table.rows] == [
        ("none", "1", "10.0%"),
        ("none", "2", "20.0%"),
        ("dot", "1", "90.0%"),
        ("dot", "2", "80.0%"),
    ]


@pytest.mark.parametrize(
    ("p", "text"), [(None, "–"), (1.0, "1.000"), (0.0499, "0.050"), (0.001, "0.001"), (0, "<0.001")]
)
def test_p_values_are_formatted(p: float | None, text: str):
    assert tables.format_p_value(p) == text


def test_csv_has_every_run_and_every_measure(new_results: NewResults):
    results = new_results(SHARES, vary=VARY, seeds=2)
    rows = list(csv.DictReader(StringIO(export.runs_csv(results))))
    assert [(row["model.attention.kind"], row["seed"], row["exact_match"]) for row in rows] == [
        ("none", "1", "0.1"),
        ("none", "2", "0.2"),
        ("dot", "1", "0.9"),
        ("dot", "2", "0.8"),
    ]
    assert {row["bleu"] for row in rows} == {""}
    summaries = list(csv.DictReader(StringIO(export.summary_csv(results))))
    (dot,) = [row for row in summaries if (row["model.attention.kind"], row["metric"]) == ("dot", "exact_match")]
    assert float(dot["mean"]) == pytest.approx(0.85)
    assert float(dot["variance"]) == pytest.approx(0.005)


def test_json_has_all_results(new_results: NewResults):
    results = new_results(THREE, vary=VARY, seeds=4, expect=[{"order": ["none", "dot"], "reason": "it looks"}])
    known = json.loads(export.dump_json(results))
    assert known["axes"] == {"model.attention.kind": ["none", "dot"]}
    assert known["runs"] == {"wanted": 8, "finished": 6}
    assert [c["label"] for c in known["conditions"]] == ["none", "dot"]
    assert known["conditions"][1]["options"] == {"model.attention.kind": "dot"}
    assert known["conditions"][1]["metrics"]["exact_match"]["mean"] == pytest.approx(0.8)
    assert [run["exact_match"] for run in known["conditions"][1]["runs"]] == [0.9, 0.8, 0.7]
    (comparison,) = known["comparisons"]
    assert (comparison["label"], comparison["against"], comparison["significant"]) == ("dot", "none", True)
    assert comparison["over_seeds"]["untested"] is None
    assert comparison["over_sentences"]["method"] == "approximate randomization"
    assert known["expectations"][0]["reason"] == "it looks"
    assert known["expectations"][0]["outcome"] == "as expected"


def test_json_has_failures(new_results: NewResults, new_study: Callable[..., object]):
    results = new_results(SHARES, vary=VARY, seeds=2)
    from pathlib import Path

    from regard.studies.worker import WorkerRequest

    condition = results.study.conditions[0]
    failed = TrainingJob(
        "none", 3, WorkerRequest(Path("runs/x-3"), condition.with_seed(3), []), state="failed", error="no memory"
    )
    with_failure = StudyResults(results.study, results.cells, 5, 4, (failed,))
    assert export.results_to_dict(with_failure)["failures"] == [
        {"run": "x-3", "label": "none", "seed": 3, "error": "no memory"}
    ]
