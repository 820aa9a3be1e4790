from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from shutil import copytree

import pytest
import yaml
from markdown_it import MarkdownIt
from matplotlib.figure import Figure

from regard.inference.translator import Translator
from regard.reports.report_page import Picture
from regard.studies import parsing, report
from regard.studies.definition import Study
from regard.studies.jobs import TrainingJob, training_jobs
from regard.studies.results import StudyResults, collect_results
from regard.studies.run_results import ConditionResults
from regard.studies.worker import TrainingReporter, WorkerRequest, run_request

NewResults = Callable[..., StudyResults]
SHARES = {"none": [0.1, 0.2], "dot": [0.9, 0.8]}
VARY = ["model.attention.kind=none,dot"]


@pytest.fixture(scope="module")
def completed_results(new_study: Callable[..., Study], tmp_path_factory: pytest.TempPathFactory) -> StudyResults:
    """The results of two real runs."""
    folder = tmp_path_factory.mktemp("runs")
    study = new_study("conducted", vary=VARY, seeds=1, expect=[{"order": ["none", "dot"], "reason": "It looks."}])
    for job in training_jobs(study, folder):
        run_request(job.request, TrainingReporter(BytesIO()))
    return collect_results(study, training_jobs(study, folder))


def test_a_report_has_all_its_files(completed_results: StudyResults, tmp_path: Path):
    report.write_report(completed_results, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        *("index.html", "report.md", "runs.csv", "summary.csv", "results.json", "pictures")
    }
    pictures = {path.name for path in (tmp_path / "pictures").iterdir()}
    assert {"01-exact-match-of-each-run.png", "02-learning-curves-loss.png"} <= pictures
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    for heading in (
        "Result",
        "Expected and found",
        "Learning curves",
        "Score against source length",
        "The same sentences",
        "Every run",
    ):
        assert f">{heading}</h2>" in page
    assert 'src="http' not in page
    assert "<script" not in page
    assert "none &lt; dot. It looks." in page
    assert json.loads((tmp_path / "results.json").read_text())["runs"] == {"wanted": 2, "finished": 2}


def test_the_sentences_of_a_report_are_translated_on_the_cpu(
    completed_results: StudyResults, monkeypatch: pytest.MonkeyPatch
):
    devices = []
    monkeypatch.setattr(report, "Translator", lambda run, device: devices.append(device) or Translator(run, device))
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert len(list(report.compared_sentences(completed_results))) == 3
    assert devices == ["cpu", "cpu"]


def test_pictures_of_an_earlier_report_are_removed_and_other_files_kept(
    completed_results: StudyResults, tmp_path: Path
):
    (tmp_path / "pictures").mkdir()
    for name in ("99-older.png", "mine.png"):
        (tmp_path / "pictures" / name).write_bytes(b"")
    report.write_report(completed_results, tmp_path)
    names = [path.name for path in (tmp_path / "pictures").iterdir()]
    assert "99-older.png" not in names
    assert "mine.png" in names


def test_a_damaged_model_does_not_break_the_report(completed_results: StudyResults, tmp_path: Path):
    copied = tmp_path / "run"
    copytree(completed_results.cells[1].results[0].run, copied)
    (copied / "model.safetensors").write_bytes(b"cut off")
    dot = replace(completed_results.cells[1], results=(replace(completed_results.cells[1].results[0], run=copied),))
    results = StudyResults(completed_results.study, (completed_results.cells[0], dot), 2, 2, ())
    for sentence in report.compared_sentences(results):
        assert sentence.outputs[1].picture is None
        assert "this file is damaged" in sentence.outputs[1].note


def test_a_map_belongs_to_its_output(completed_results: StudyResults):
    result = completed_results.cells[1].results[0]
    other = replace(result, outputs=tuple(f"{output}!" for output in result.outputs))
    results = StudyResults(
        completed_results.study,
        (completed_results.cells[0], replace(completed_results.cells[1], results=(other,))),
        2,
        2,
        (),
    )
    for sentence in report.compared_sentences(results):
        assert sentence.outputs[1].picture is None
        assert sentence.outputs[1].note == "no map: this model now has another output"


def test_models_of_one_seed_are_shown_side_by_side(new_results: NewResults):
    results = new_results({"none": [0.1, 0.2, 0.3], "dot": [0.5, 0.6]}, vary=VARY)
    none, dot = results.cells
    late = replace(dot, results=tuple(replace(result, seed=result.seed + 1) for result in dot.results))
    shown = report.comparable_results(StudyResults(results.study, (none, late), 6, 5, ()))
    assert [(label, result.seed) for label, result in shown] == [("none", 2), ("dot", 2)]


def test_names_of_pictures_are_short_and_distinct(tmp_path: Path):
    pictures = [Picture(Figure(), alt) for alt in ("n" * 300, "n" * 400, "長さ", "深さ", "../../x")]
    report.write_pictures(pictures, tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"01-{'n' * 60}.png", f"02-{'n' * 60}.png", "03-.png", "04-.png", "05-x.png"]


def test_the_same_results_give_the_same_report(completed_results: StudyResults, tmp_path: Path):
    contents = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        report.write_report(completed_results, tmp_path / name)
        contents.append({path.name: path.read_bytes() for path in (tmp_path / name).rglob("*.*")})
    assert contents[0] == contents[1]


def test_the_same_sentences_are_shown_side_by_side_with_their_maps(completed_results: StudyResults):
    shown = list(report.compared_sentences(completed_results))
    assert len(shown) == 3
    lengths = [len(sentence.source) for sentence in shown]
    assert lengths == sorted(lengths)
    for sentence in shown:
        none, dot = sentence.outputs
        assert (none.label, dot.label) == ("none", "dot")
        assert none.picture is None
        assert dot.picture
        assert b"<svg" in dot.picture
        index = completed_results.cells[0].results[0].sources.index(sentence.source)
        assert [none.output, dot.output] == [cell.results[0].outputs[index] for cell in completed_results.cells]
        assert none.correct == (none.output == sentence.reference)


def test_sentences_are_selected_where_models_differ(new_results: NewResults):
    results = new_results({"none": [0.0], "dot": [0.0]}, vary=VARY, seeds=1, sentences=30)
    none, dot = results.cells
    outputs = tuple(source if number == 17 else "?" for number, source in enumerate(dot.results[0].sources))
    differing = ConditionResults(dot.condition, dot.label, (replace(dot.results[0], outputs=outputs),))
    indices = report.most_different_sentences([none.results[0], differing.results[0]])
    assert 17 in indices
    assert len(indices) == 3


def test_a_run_without_weights_still_has_its_outputs(new_results: NewResults):
    shown = list(report.compared_sentences(new_results(SHARES, vary=VARY, seeds=2)))
    assert shown
    assert all(attempt.picture is None for sentence in shown for attempt in sentence.outputs)


def test_a_partial_report_is_marked(new_results: NewResults):
    whole = new_results(SHARES, vary=VARY, seeds=2)
    assert report.study_facts(whole)["runs"] == "4 of 4 finished"
    part = new_results({"dot": [0.9]}, vary=VARY, seeds=2)
    assert report.study_facts(part)["runs"] == "1 of 4 finished: this report covers these alone"
    assert "1 of 4 finished" in report.markdown_report(part)
    assert b"1 of 4 finished" in report.render_report(report.build_page(part))


def test_external_texts_are_escaped(new_results: NewResults):
    results = new_results(SHARES, vary=VARY, seeds=2, question="<script>alert(1)</script>")
    result = results.cells[1].results[0]
    hostile = replace(result, outputs=("<img src=x onerror=alert(1)>", "\ud800") * (len(result.outputs) // 2))
    cells = (results.cells[0], replace(results.cells[1], results=(hostile,)))
    page = report.render_report(report.build_page(StudyResults(results.study, cells, 4, 4, ()))).decode()
    assert "<script" not in page
    assert "<img src=x" not in page
    assert "&lt;script&gt;" in page


def test_external_texts_are_text_in_markdown(new_results: NewResults):
    """Of the title, the question, the labels and the errors of failed runs nothing becomes HTML, a link or emphasis."""
    hostile = "<img src=x onerror=alert(1)> [x](javascript:y) *z* `c` | # h\n# k"
    axis = {"good": {"training.epochs": 2}, hostile: {"training.epochs": 3}}
    content = {"experiment": "copy", "question": hostile, "vary": {hostile: axis}, "expect": [{"order": [*axis]}]}
    study = parsing.build_study(hostile, parsing.parse_study(yaml.safe_dump(content), "study.yaml"))
    cells = tuple(
        replace(cell, condition=condition, label=study.label(condition))
        for cell, condition in zip(new_results(SHARES, vary=VARY, seeds=2).cells, study.conditions, strict=True)
    )
    request = WorkerRequest(Path("x-2"), study.conditions[0].with_seed(2), [])
    failed = TrainingJob(hostile, 2, request, state="failed", error=hostile)
    text = report.markdown_report(StudyResults(study, cells, 3, 2, (failed,)))
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    assert [token.type for token in tokens if token.type.startswith("html")] == []
    children = [child for token in tokens for child in token.children or ()]
    assert {child.type for child in children} <= {"text", "text_special"}
    assert text.count("\n# ") == 0
    assert text.count(r"&lt;img src=x onerror=alert(1)> \[x](javascript:y) \*z\* \`c\`") >= 8


def test_markdown_has_the_question_and_every_table(new_results: NewResults):
    text = report.markdown_report(
        new_results(SHARES, vary=VARY, seeds=2, question="Does it help?", expect=[{"order": ["none", "dot"]}])
    )
    assert "Does it help?" in text
    assert "| none | 2 | 15.0 |" in text
    assert "| none < dot |" in text
    assert "| dot | 1 | 90.0% |" in text
