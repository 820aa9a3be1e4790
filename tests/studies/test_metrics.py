"""Metrics that the task of a study does not have: built-in ones, and those of other modules."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from regard.evaluation import metrics
from regard.evaluation.bleu import chrf
from regard.evaluation.metrics import METRICS, Metric
from regard.evaluation.sentence_statistics import References, SentenceStatistics, mean_statistics
from regard.evaluation.significance import approximate_randomization
from regard.studies import export, plots, tables
from regard.studies.definition import Study
from regard.studies.jobs import training_jobs
from regard.studies.report import markdown_report, study_facts
from regard.studies.results import StudyResults, collect_results
from regard.tasks.copy import CopyTask

NewResults = Callable[..., StudyResults]
VARY = ["model.attention.kind=none,dot"]
SHARES = {"none": [0.1, 0.2, 0.15], "dot": [0.9, 0.8, 0.85]}
REFERENCE = "my_package.metrics:length_ratio"


def length_ratios(outputs: Sequence[str], references: References) -> SentenceStatistics:
    return mean_statistics([len(output) / len(known[0]) for output, known in zip(outputs, references, strict=True)])


LENGTH_RATIO = Metric("length ratio", "{:.3f}", statistics=length_ratios)


class ResolvingMetrics(dict[str, Metric]):
    """Finds one metric more than it lists."""

    def __contains__(self, name: object) -> bool:
        return name == REFERENCE or super().__contains__(name)

    def __missing__(self, name: str) -> Metric:
        return LENGTH_RATIO


@pytest.fixture
def _resolving(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "METRICS", ResolvingMetrics(METRICS))


def test_a_text_metric_that_the_task_does_not_have_is_computed_from_the_outputs(new_results: NewResults):
    results = new_results(SHARES, vary=VARY, metrics=["chrf", "exact_match"])
    for cell in results.cells:
        for result in cell.results:
            expected = chrf(result.outputs, [target for (target,) in result.targets])
            assert result.value("chrf") == expected.score
            assert result.evaluation["chrf_signature"] == expected.signature
            assert result.value("bleu") is None, "nobody asked for it"
    assert [metric.name for metric in results.study.metrics] == ["chrf", "exact_match"]
    (comparison,) = results.comparisons
    assert comparison.significant
    assert "version:" in study_facts(results)["signature"]


def test_stored_values_of_built_in_metrics_are_kept_and_others_are_computed_again(new_results: NewResults):
    (result,) = new_results({"dot": [0.5]}, vary=["model.attention.kind=dot"], seeds=1).cells[0].results
    result.evaluation.update(exact_match=0.123, **{"length ratio": 0.123})
    again = result.with_metrics([METRICS["exact_match"], LENGTH_RATIO])
    assert again.value("exact_match") == 0.123
    assert again.value(LENGTH_RATIO) == length_ratios(result.outputs, result.targets).total != 0.123


def check_everywhere(results: StudyResults, name: str) -> None:
    """The metric `name` is the main metric in tables, files, figures and tests."""
    main, second = results.study.metrics
    assert (main.name, main.title, second.name) == (name, "length ratio", "loss")
    means = [cell.summary(main).mean for cell in results.cells]
    assert means == [pytest.approx(sum(cell.values(main)) / 3) for cell in results.cells]
    assert means[0] < means[1]
    table = tables.main_table(results)
    assert "length ratio" in table.head
    column = table.head.index("length ratio")
    assert [row[column] for row in table.rows] == [f"{mean:.3f}" for mean in means]
    assert "length ratio" in tables.run_table(results).head
    assert "length ratio" in markdown_report(results)

    rows = list(csv.DictReader(io.StringIO(export.runs_csv(results))))
    assert list(rows[0])[3:] == [*METRICS, name]
    assert [float(row[name]) for row in rows] == [value for cell in results.cells for value in cell.values(main)]
    assert {row["chrf"] for row in rows} == {""}
    summary = csv.DictReader(io.StringIO(export.summary_csv(results)))
    assert [float(row["mean"]) for row in summary if row["metric"] == name] == means
    data = json.loads(export.dump_json(results))
    assert data["metrics"] == [name, "loss"]
    assert [condition["metrics"][name]["mean"] for condition in data["conditions"]] == means
    assert [run[name] for run in data["conditions"][1]["runs"]] == results.cells[1].values(main)

    assert [picture.alt for picture in plots.score_plots(results)] == ["length ratio of each run", "loss of each run"]
    assert [picture.alt for picture in plots.length_plots(results)] == ["length ratio against source length"]
    (comparison,) = results.comparisons
    sides = [[length_ratios(each.outputs, each.targets) for each in cell.results] for cell in results.cells[::-1]]
    assert comparison.over_sentences == approximate_randomization(*sides)
    assert comparison.over_seeds.mean == pytest.approx(means[1] - means[0])
    assert comparison.significant


@pytest.mark.usefixtures("_resolving")
def test_a_metric_of_another_module_is_everywhere_under_its_reference(new_results: NewResults):
    check_everywhere(new_results(SHARES, vary=VARY, metrics=[REFERENCE, "loss"]), REFERENCE)


def test_a_metric_that_a_task_declares_as_an_object_is_the_main_metric(
    new_results: NewResults, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(CopyTask, "metrics", (LENGTH_RATIO, "exact_match"))
    results = new_results(SHARES, vary=VARY)
    assert [metric.name for metric in results.study.metrics] == ["length ratio"]
    assert results.main_metric is LENGTH_RATIO
    assert results.comparisons[0].significant
    assert "length ratio" in export.runs_csv(results).splitlines()[0].split(",")


@pytest.mark.usefixtures("_resolving")
def test_stored_results_are_read_with_the_metrics_of_the_study(
    new_study: Callable[..., Study], tmp_path: Path, trained_brief: Callable[..., Path]
):
    study = new_study(metrics=[REFERENCE], seeds=1)
    (job,) = training_jobs(study, tmp_path)
    shutil.copytree(trained_brief(), job.path)
    (spec,) = job.request.evaluations
    path = spec.file(job.path)
    path.parent.mkdir()
    stored = {"evaluation": {"exact_match": 0.5}, "sources": ["ab", "c"], "lengths": [2, 1]}
    path.write_text(json.dumps(stored | {"targets": [["ab", "abc"], ["c"]], "outputs": ["a", "cc"]}))
    (cell,) = collect_results(study, training_jobs(study, tmp_path)).cells
    assert cell.values(REFERENCE) == [(1 / 2 + 2) / 2]
