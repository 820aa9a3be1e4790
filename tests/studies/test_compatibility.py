"""Studies of Regard 0.5.0: nothing is trained or evaluated again, and the results stay the same."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from regard.studies import built_in, export, parsing
from regard.studies.definition import Study
from regard.studies.jobs import training_jobs
from regard.studies.results import collect_results

OLD = Path(__file__).parent.parent / "fixtures" / "studies-0.5.0"
NEW_NAMES = {"aligned": "alignment_accuracy", "unfinished": "truncated"}


def old_study() -> Study:
    return parsing.build_study("small", parsing.parse_study_file(OLD / "small/study.yaml"))


def approximately(known: dict[str, Any]) -> dict[str, Any]:
    return {key: pytest.approx(value, rel=1e-9) if isinstance(value, float) else value for key, value in known.items()}


def test_an_old_study_is_complete_and_has_the_same_results():
    study = old_study()
    jobs = training_jobs(study, OLD / "runs")
    assert [job.state for job in jobs] == ["done"] * 4
    results = export.results_to_dict(collect_results(study, jobs))
    expected = json.loads((OLD / "small/results.json").read_text())
    assert results["runs"] == expected["runs"] == {"wanted": 4, "finished": 4}
    assert results["metrics"] == ["exact_match", "alignment_accuracy", "truncated", "token_accuracy"]
    for condition, old in zip(results["conditions"], expected["conditions"], strict=True):
        assert (condition["label"], condition["options"]) == (old["label"], old["options"])
        for run, old_run in zip(condition["runs"], old["runs"], strict=True):
            assert run == {NEW_NAMES.get(name, name): value for name, value in old_run.items()}
        for name, summary in old["measures"].items():
            assert condition["metrics"][NEW_NAMES.get(name, name)] == approximately(summary)
    for comparison, old in zip(results["comparisons"], expected["comparisons"], strict=True):
        assert comparison["over_seeds"]["mean"] == old["over_seeds"]["mean"]
        assert comparison["over_sentences"]["p"] == old["over_sentences"]["p"]
        assert comparison["over_seeds"]["untested"] == "2 runs"  # 0.5.0 tested them, with a variance of 0
        assert (comparison["significant"], old["sure"]) == (None, False)
    assert [each["reason"] for each in results["expectations"]] == [each["says"] for each in expected["expectations"]]


def test_an_old_study_trains_only_new_runs(tmp_path: Path):
    copytree(OLD / "runs", tmp_path / "runs")
    leaves = parsing.override_leaves(parsing.parse_study_file(OLD / "small/study.yaml"), parsing.from_options(seeds=3))
    grown = parsing.build_study("small", leaves)
    assert parsing.extends_study(grown, (OLD / "small/study.yaml").read_text(), "study.yaml")
    jobs = training_jobs(grown, tmp_path / "runs")
    assert [(job.seed, job.state) for job in jobs if job.state != "done"] == [(3, "waiting")] * 2


@pytest.mark.parametrize("name", json.loads((OLD / "names.json").read_text()))
def test_runs_and_evaluations_of_built_in_studies_are_found_under_their_old_names(name: str, tmp_path: Path):
    expected = json.loads((OLD / "names.json").read_text())[name]
    settings = json.loads((OLD / "settings.json").read_text())
    for run in {file.split("/")[0] for file in expected}:
        (tmp_path / run).mkdir()
        (tmp_path / run / "run.json").write_text('{"format": 1}')
        (tmp_path / run / "config.yaml").write_text(settings[run])
    study = parsing.build_study(name, parsing.parse_study(built_in.read_study(name), name))
    files = {
        f"{job.path.name}/exams/{spec.file_name}"
        for job in training_jobs(study, tmp_path)
        for spec in job.request.evaluations
        if job.seed == 1 and job.path.exists()  # a study may have got more conditions
    }
    assert sorted(files) == expected


def test_a_run_of_other_settings_is_not_used_as_an_old_one(tmp_path: Path):
    settings = json.loads((OLD / "settings.json").read_text())
    run, text = next((run, text) for run, text in settings.items() if run.startswith("spaces-"))
    for number, changed in enumerate((text.replace("clip: 1.0", "clip: 2.0"), text.replace("kind: dot", "kind: mean"))):
        assert changed != text
        folder = tmp_path / str(number) / run
        folder.mkdir(parents=True)
        (folder / "run.json").write_text('{"format": 1}')
        (folder / "config.yaml").write_text(changed)
        study = parsing.build_study("blank", parsing.parse_study(built_in.read_study("blank"), "blank"))
        assert run not in {job.path.name for job in training_jobs(study, folder.parent)}
