from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from statistics import fmean, variance

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from scipy import stats

from regard.errors import UserError
from regard.evaluation.significance import approximate_randomization
from regard.evaluation.statistics import holm_correction, paired_t_test, welch_test
from regard.studies.definition import Study
from regard.studies.export import dump_json, run_records
from regard.studies.jobs import training_jobs
from regard.studies.results import StudyResults, collect_results
from regard.studies.run_results import Result
from regard.studies.worker import TrainingReporter, run_request

NewResults = Callable[..., StudyResults]
THREE = {"none": [0.1, 0.12, 0.09], "mean": [0.11, 0.13, 0.08], "dot": [0.9, 0.95, 0.92]}
VARY = ["model.attention.kind=none,mean,dot"]


def test_a_summary_aggregates_seeds(new_results: NewResults):
    results = new_results(THREE, vary=VARY)
    for cell in results.cells:
        summary = cell.summary("exact_match")
        assert summary
        assert summary.mean == pytest.approx(fmean(THREE[cell.label]))
        assert summary.variance == pytest.approx(variance(THREE[cell.label]))
    assert results.cells[0].summary("bleu") is None


def test_a_run_has_its_best_validation_and_its_total_time(new_results: NewResults):
    (cell,) = new_results({"dot": [0.5]}, vary=["model.attention.kind=dot"], seeds=1).cells
    assert cell.values("validation_loss") == [3 - 0.5 - 1.2]
    assert cell.values("training_seconds") == [24.0]


def test_each_condition_is_compared_with_the_baseline_by_both_corrected_tests(new_results: NewResults):
    results = new_results(THREE, vary=VARY)
    none, mean, dot = results.cells
    first, second = results.comparisons
    assert [(c.cell, c.other) for c in results.comparisons] == [(mean, none), (dot, none)]
    by_seeds = [welch_test(cell.values("exact_match"), none.values("exact_match")).p for cell in (mean, dot)]
    assert [first.p_seeds, second.p_seeds] == holm_correction([p for p in by_seeds if p is not None])
    counts = {cell.label: [r.statistics("exact_match") for r in cell.results] for cell in results.cells}
    by_sentences = [approximate_randomization(counts[name], counts["none"]).p for name in ("mean", "dot")]
    assert [first.p_sentences, second.p_sentences] == holm_correction(by_sentences)
    assert by_seeds[1] == pytest.approx(stats.ttest_ind(THREE["dot"], THREE["none"], equal_var=False).pvalue)
    assert (first.significant, second.significant) == (False, True)


def test_another_baseline_and_another_method(new_results: NewResults):
    results = new_results(THREE, vary=VARY, baseline=["model.attention.kind=dot"], method="bootstrap")
    assert [c.cell.label for c in results.comparisons] == ["none", "mean"]
    assert {c.over_sentences.method for c in results.comparisons if c.over_sentences} == {"paired bootstrap"}
    assert all(c.over_seeds.mean < 0 and c.significant for c in results.comparisons)


def test_with_two_axes_conditions_differ_from_their_baseline_in_one_axis(new_results: NewResults):
    results = new_results(
        {
            "none · max_length 3": [0.1],
            "none · max_length 5": [0.2],
            "dot · max_length 3": [0.8],
            "dot · max_length 5": [0.9],
        },
        vary=["model.attention.kind=none,dot", "data.max_length=3,5"],
        seeds=1,
    )
    pairs = [(c.cell.label, c.other.label) for c in results.comparisons]
    assert pairs == [("dot · max_length 3", "none · max_length 3"), ("dot · max_length 5", "none · max_length 5")]


def test_one_seed_leaves_only_the_test_over_sentences(new_results: NewResults):
    (comparison,) = new_results(
        {"none": [0.1], "dot": [0.9]}, vary=["model.attention.kind=none,dot"], seeds=1
    ).comparisons
    assert comparison.p_seeds is None
    assert comparison.p_sentences is not None
    assert comparison.significant is None  # another training might give a different result


@pytest.mark.parametrize(
    ("none", "dot", "untested"),
    [
        ([0.1, 0.1], [0.9, 0.9], "2 runs"),
        ([0.1, 0.2], [0.9, 0.8, 0.7], "2 runs"),
        ([0.0] * 3, [1.0] * 3, "no variance"),
    ],
)
def test_significance_is_unknown_without_a_test_over_seeds(
    new_results: NewResults, none: list[float], dot: list[float], untested: str
):
    results = new_results({"none": none, "dot": dot}, vary=VARY, expect=[{"order": ["none", "dot"]}])
    (comparison,) = results.comparisons
    assert (comparison.p_seeds, comparison.significant, comparison.over_seeds.untested) == (None, None, untested)
    assert comparison.p_sentences is not None
    (outcome,) = results.expectation_outcomes
    assert outcome.description == "as expected, significance unknown"


def test_comparisons_without_a_test_count_in_the_correction(new_results: NewResults):
    shares = THREE | {"mean": THREE["mean"][:2]}
    mean, dot = new_results(shares, vary=VARY).comparisons
    assert mean.p_seeds is None
    assert dot.over_seeds.p is not None
    assert dot.p_seeds == 2 * dot.over_seeds.p


def test_runs_without_a_common_seed_are_not_tested(new_results: NewResults):
    shares = {"dot · beam 1": [0.3, 0.5, 0.7], "dot · beam 4": [0.35, 0.56, 0.75]}
    results = new_results(shares, vary=["model.attention.kind=dot"], test=["beam=1,4"])
    first, second = results.cells
    apart = replace(second, results=tuple(replace(result, seed=result.seed + 3) for result in second.results))
    (comparison,) = StudyResults(results.study, (first, apart), 6, 6, ()).comparisons
    assert (comparison.p_seeds, comparison.over_seeds.untested) == (None, "0 pairs")


def test_only_common_seeds_are_paired(new_results: NewResults):
    (comparison,) = new_results(
        {"none": [0.1, 0.2, 0.3], "dot": [0.9]}, vary=["model.attention.kind=none,dot"]
    ).comparisons
    assert comparison.over_sentences
    assert comparison.over_sentences.difference == pytest.approx(0.8)


def test_different_sentences_are_not_paired(new_results: NewResults):
    results = new_results({"none": [0.1, 0.2, 0.1]}, vary=["model.attention.kind=none,dot"])
    others = new_results({"dot": [0.9, 0.8, 0.8]}, sentences=90, vary=["model.attention.kind=none,dot"])
    mixed = StudyResults(results.study, (results.cells[0], others.cells[1]), 6, 6, ())
    mixed.cells[1].__dict__["condition"] = results.study.conditions[1]
    (comparison,) = mixed.comparisons
    assert comparison.over_sentences is None
    assert comparison.p_seeds is not None


def test_a_metric_without_sentence_scores_is_tested_only_over_seeds(new_results: NewResults):
    results = new_results(THREE, vary=VARY, metrics=["validation_loss"])
    assert [c.over_sentences for c in results.comparisons] == [None, None]


@pytest.mark.parametrize(
    ("p_seeds", "p_sentences", "significant"),
    [(0.01, 0.02, True), (0.01, 0.2, False), (0.2, 0.01, False), (0.2, 0.3, False)],
)
def test_a_difference_is_significant_only_by_both_tests(
    new_results: NewResults, p_seeds: float, p_sentences: float, significant: bool
):
    comparison = new_results(THREE, vary=VARY).comparisons[1]
    assert replace(comparison, p_seeds=p_seeds, p_sentences=p_sentences).significant is significant


def test_two_tests_with_opposite_directions_are_not_significant(new_results: NewResults):
    """Only the first seed is in both conditions."""
    shares = {"none": [0.5, *[0.05] * 8], "dot": [0.25, *[0.6] * 8]}
    results = new_results(shares, vary=["model.attention.kind=none,dot"], seeds=9)
    none, dot = results.cells
    apart = (dot.results[0], *(replace(result, seed=result.seed + 10) for result in dot.results[1:]))
    (comparison,) = StudyResults(results.study, (none, replace(dot, results=apart)), 18, 18, ()).comparisons
    assert comparison.over_sentences
    assert comparison.over_seeds.mean > 0 > comparison.over_sentences.difference
    assert comparison.p_seeds is not None
    assert comparison.p_sentences is not None
    assert max(comparison.p_seeds, comparison.p_sentences) < 0.01
    assert comparison.significant is False


def test_the_same_runs_evaluated_in_two_ways_are_paired(new_results: NewResults):
    shares = {"dot · beam 1": [0.3, 0.5, 0.7], "dot · beam 4": [0.35, 0.56, 0.75]}
    results = new_results(shares, vary=["model.attention.kind=dot"], test=["beam=1,4"])
    (comparison,) = results.comparisons
    assert comparison.over_seeds == paired_t_test(*reversed([cell.values("exact_match") for cell in results.cells]))
    assert comparison.significant


def test_runs_on_different_texts_are_not_pooled(
    new_results: NewResults, new_study: Callable[..., Study], tmp_path: Path
):
    study = new_study(seeds=2)
    for job in training_jobs(study, tmp_path):
        run_request(job.request, TrainingReporter(BytesIO()))
    run = training_jobs(study, tmp_path)[1].path
    about = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(about | {"texts": {"train": "other"}}))
    with pytest.raises(UserError, match="have different texts; remove the older one"):
        collect_results(study, training_jobs(study, tmp_path))


def test_a_damaged_run_has_failed_and_the_others_count(new_study: Callable[..., Study], tmp_path: Path):
    study = new_study(seeds=2)
    for job in training_jobs(study, tmp_path):
        run_request(job.request, TrainingReporter(BytesIO()))
    (training_jobs(study, tmp_path)[0].path / "run.json").unlink()
    results = collect_results(study, training_jobs(study, tmp_path))
    assert [[result.seed for result in cell.results] for cell in results.cells] == [[2]]
    assert [(job.seed, "it has no run.json" in job.error) for job in results.failures] == [(1, True)]


def test_a_condition_without_runs_is_not_compared(new_results: NewResults):
    results = new_results({"none": [0.1, 0.2], "dot": [0.9, 0.8]}, vary=VARY, seeds=2)
    assert [c.cell.label for c in results.comparisons] == ["dot"]
    assert new_results({}, vary=VARY).comparisons == []


@pytest.mark.parametrize(
    ("order", "descriptions"),
    [
        (["none", "dot"], ["as expected"]),
        (["dot", "none"], ["opposite"]),
        (["none", "mean"], ["as expected, not significant"]),
        (["mean", "none"], ["not found"]),
        (["none", "mean", "dot"], ["as expected, not significant", "as expected"]),
    ],
)
def test_the_outcome_of_an_expectation(new_results: NewResults, order: list[str], descriptions: list[str]):
    results = new_results(THREE, vary=VARY, expect=[{"order": order}])
    assert [outcome.description for outcome in results.expectation_outcomes] == descriptions


def test_lower_is_better_for_losses(new_results: NewResults):
    results = new_results(THREE, vary=VARY, expect=[{"order": ["none", "dot"]}], metrics=["validation_loss"])
    assert [outcome.description for outcome in results.expectation_outcomes] == ["as expected"]


def test_results_are_collected_from_run_directories(new_study: Callable[..., Study], tmp_path: Path):
    study = new_study(vary=["model.attention.kind=none,dot"], seeds=2, test=["beam=1,2"])
    jobs = training_jobs(study, tmp_path)
    for job in jobs[:3]:
        run_request(job.request, TrainingReporter(BytesIO()))
    results = collect_results(study, training_jobs(study, tmp_path))
    assert (results.wanted, results.finished) == (4, 3)
    assert [len(cell.results) for cell in results.cells] == [2, 2, 1, 1]
    first = results.cells[0].results[0]
    assert first.run == jobs[0].path
    assert first.statistics("exact_match").total == first.value("exact_match")
    evaluation = jobs[0].request.evaluations[0].file(jobs[0].path)
    assert first.outputs == tuple(json.loads(evaluation.read_text())["outputs"])


VALID_RESULT = {
    "evaluation": {"exact_match": 1.0},
    "sources": ["a"],
    "lengths": [1],
    "targets": [["a"]],
    "outputs": ["a"],
}


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", "{}", "\x00"),
        *(json.dumps(VALID_RESULT | {key: []}) for key in VALID_RESULT),
        json.dumps(VALID_RESULT | {"targets": [[]]}),
        json.dumps(VALID_RESULT | {"evaluation": {"exact_match": "much"}}),
        json.dumps(VALID_RESULT | {"lengths": ["1"]}),
    ],
)
def test_a_damaged_result_is_reported_with_its_path(
    trained: Path, new_study: Callable[..., Study], tmp_path: Path, content: str
):
    from shutil import copytree

    from regard.runs import Run

    copytree(trained, tmp_path / "run")
    evaluation = new_study().conditions[0].evaluation
    path = evaluation.file(tmp_path / "run")
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(UserError, match=r"\.json: this file is damaged; remove it to repeat the evaluation"):
        Result.load(Run(tmp_path / "run"), 1, path)


# --- Tables, data frames and pictures in Python -----------------------------------------------------------------

TWO = {"none": [0.1, 0.2, 0.3], "dot": [0.9, 0.8, 0.7]}


def test_tables_print_as_text_and_are_html_in_a_notebook(new_results: NewResults):
    results = new_results(TWO, vary=["model.attention.kind=none,dot"], metrics=["exact_match", "loss"])
    text = str(results.table())
    assert text == repr(results.table())
    title, head, none, dot = text.splitlines()
    assert title == "exact match, over seeds"
    assert head.split()[:2] == ["attention.kind", "runs"]
    assert none.split()[:3] == ["none", "3", "20.0"]
    assert dot.endswith(" yes")
    assert len(head) == len(dot), "columns are aligned"
    assert "1.5000" in str(results.table("metrics"))
    assert len(results.table("runs").rows) == 6
    html = results._repr_html_()
    assert html.count("<table>") == 2
    assert "60.0" in results.table()._repr_html_()


def test_texts_are_escaped_in_html(new_results: NewResults, new_study: Callable[..., Study], tmp_path: Path):
    (job,) = training_jobs(new_study(seeds=1), tmp_path)
    job.state, job.error = "failed", "<script>alert(1)</script>"
    results = replace(new_results({"tiny": [0.5]}, seeds=1), failures=(job,))
    assert "<script>" not in results._repr_html_()
    assert "&lt;script&gt;" in results._repr_html_()
    assert "<script>alert(1)</script>" in str(results.table("failures"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mian", "table: 'mian' is not a table; did you mean 'main'? choices: main, metrics, expected, runs, failures"),
        ("expected", "table: the table 'expected' of this study is empty"),
        ("failures", "table: the table 'failures' of this study is empty"),
    ],
)
def test_a_table_that_does_not_exist_is_reported(new_results: NewResults, name: str, message: str):
    with pytest.raises(UserError) as error:
        new_results(TWO, vary=["model.attention.kind=none,dot"]).table(name)
    assert str(error.value) == message


def test_the_representation_is_short(new_results: NewResults):
    results = new_results(TWO, vary=["model.attention.kind=none,dot"])
    assert repr(results) == "<study brief: 6 of 6 runs finished>"
    assert repr(replace(results, folder=Path("x"))) == "<study brief: 6 of 6 runs finished, report in x>"


def test_a_data_frame_has_a_row_for_each_run_and_a_column_for_each_metric(new_results: NewResults):
    pandas = pytest.importorskip("pandas")
    shares = {"none · clip 0.1": [0.1, 0.2], "dot · clip 0.1": [0.9], "dot · clip 0.5": [0.3]}
    vary = ["model.attention.kind=none,dot", "training.clip=0.1,0.5"]
    frame = new_results(shares, vary=vary).to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns[:5]) == ["model.attention.kind", "training.clip", "seed", "run", "exact_match"]
    assert "validation_loss" in frame.columns
    assert "bleu" not in frame.columns, "no run has it"
    assert list(frame["training.clip"]) == [0.1, 0.1, 0.1, 0.5]
    assert list(frame["seed"]) == [1, 2, 1, 1]
    means = frame.groupby("model.attention.kind")["exact_match"].mean()
    assert means["dot"] == pytest.approx(0.6)


def test_rows_for_a_data_frame_have_values_of_axes(new_results: NewResults):
    vary = ["training.clip=2,0.5", "decoding.copy_unknown=true,false", "training.patience=null,3"]
    labels = ["clip 2 · copy_unknown true · patience null", "clip 0.5 · copy_unknown false · patience 3"]
    head, rows = run_records(new_results({label: [0.5] for label in labels}, vary=vary, seeds=1))
    assert head[:5] == ["training.clip", "decoding.copy_unknown", "training.patience", "seed", "run"]
    assert [row[:4] for row in rows] == [[2, True, "null", 1], [0.5, False, "3", 1]]


def test_without_pandas_the_message_says_how_to_install_it(new_results: NewResults, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError, match=r"^to_pandas needs pandas: pip install 'regard\[pandas\]'$"):
        new_results(TWO, vary=["model.attention.kind=none,dot"]).to_pandas()


def test_the_plot_is_a_figure_of_the_main_metric(new_results: NewResults):
    figure = new_results(TWO, vary=["model.attention.kind=none,dot"]).plot()
    assert isinstance(figure, Figure)
    assert {"none", "dot", "exact match (%)"} <= {text.get_text() for text in figure.findobj(Text)}
    with pytest.raises(UserError, match="plot: no run has exact_match"):
        new_results({}, vary=["model.attention.kind=none,dot"]).plot()


def test_results_as_a_dict_are_those_of_json(new_results: NewResults):
    results = new_results(TWO, vary=["model.attention.kind=none,dot"])
    assert json.loads(dump_json(results)) == json.loads(json.dumps(results.to_dict()))
    assert results.to_dict()["runs"] == {"wanted": 6, "finished": 6}
