"""The built-in studies, as far as they can be checked without training."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random

import pytest

from regard.config import recipes
from regard.errors import UserError
from regard.evaluation.metrics import METRICS
from regard.evaluation.statistics import MIN_RUNS
from regard.studies import built_in, parsing
from regard.studies.definition import Study
from regard.tasks import DataSection, task_for
from regard.tasks.generated import GeneratedTask

NAMES = [
    "aligned",
    "attention",
    "attention-homework",
    "beam",
    "blank",
    "bottleneck",
    "encoders",
    "lookahead",
    "mechanisms",
    "positions",
    "prompt-placement",
    "sharpness",
    "teacher-forcing",
    "wirings",
]


@cache
def build(name: str) -> Study:
    return parsing.build_study(name, parsing.parse_study(built_in.read_study(name), f"study {name}"))


def metrics_of(data: DataSection) -> set[str]:
    task = task_for(data)
    others = {name for name, metric in METRICS.items() if metric.by_sentence}
    has_alignment = isinstance(task, GeneratedTask) and task.dataset.generate(Random(1)).alignment
    aligned = {"alignment_accuracy", "alignment_error", "attention_entropy"}
    return (METRICS.keys() - others - aligned) | set(task.metrics) | (aligned if has_alignment else set())


def test_the_names_of_the_built_in_studies():
    assert built_in.study_names() == NAMES


def test_an_unknown_study_is_refused_with_the_nearest_name():
    with pytest.raises(UserError, match="there is no study 'atention'; did you mean 'attention'"):
        built_in.read_study("atention")


@pytest.mark.parametrize("name", NAMES)
def test_a_study_has_a_question_a_recipe_and_several_seeds(name: str):
    study = build(name)
    assert study.plan.question == built_in.study_question(name)
    assert "?" in study.plan.question
    assert "\n" not in study.plan.question
    assert study.plan.experiment in recipes.recipe_names()
    assert study.plan.seeds >= MIN_RUNS
    assert any(study.baseline_of(condition) for condition in study.conditions)


@pytest.mark.parametrize("name", NAMES)
def test_conditions_are_distinct(name: str):
    conditions = build(name).conditions
    assert len({(condition.run_name(1), condition.evaluation.file(Path())) for condition in conditions}) == len(
        conditions
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_study_uses_metrics_that_its_task_has(name: str):
    study = build(name)
    assert study.plan.metrics
    assert len(set(study.plan.metrics)) == len(study.plan.metrics)
    for condition in study.conditions:
        assert set(study.plan.metrics) <= metrics_of(condition.evaluation.data)


@pytest.mark.parametrize("name", NAMES)
def test_every_expectation_applies_to_some_pair(name: str):
    study = build(name)
    found = [expectation for expectation, _, _ in study.expected_pairs()]
    assert [expectation for expectation in study.plan.expect if expectation not in found] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_study_survives_dumping_and_parsing(name: str):
    study = build(name)
    again = parsing.build_study(name, parsing.parse_study(study.dump(), "a copy"))
    assert (again.plan, again.conditions) == (study.plan, study.conditions)


def run_names(name: str) -> set[str]:
    return {condition.run_name(seed) for condition in build(name).conditions for seed in build(name).seeds}


def test_the_beam_study_reuses_runs_of_the_attention_study():
    assert len(run_names("attention")) == 9
    assert len(run_names("beam")) == 3
    assert run_names("beam") < run_names("attention")


def test_the_bottleneck_has_the_size_of_its_axis():
    study = build("bottleneck")
    sizes = [(condition.labels[1], condition.experiment.model.decoder.size) for condition in study.conditions]
    assert {(label, str(size)) for label, size in sizes} == {(label, label) for label in study.axes[1].labels}


def test_positions_are_tested_at_twice_the_trained_length():
    for condition in build("positions").conditions:
        longest = condition.experiment.data.model_dump()["max_length"]
        tested = condition.evaluation.data.model_dump()
        times = {"trained": 1, "twice": 2}[condition.labels[-1]]
        assert tested["max_length"] == longest * times
        assert (tested["min_length"] == tested["max_length"]) == (times == 2)
