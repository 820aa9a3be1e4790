"""The definition of a study: names of runs, baselines and expectations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from regard.studies import parsing
from regard.studies.axes import Axis
from regard.studies.definition import Condition, Study

GRID = """
experiment: copy
vary: {model.attention.kind: [none, dot], training.epochs: [1, 2]}
test: {beam: [1, 5]}
"""


def build(text: str = "", name: str = "s", **options: Any) -> Study:
    return parsing.build_study(name, [*parsing.parse_study(text, "s.yaml"), *parsing.from_options(**options)])


def only_condition(*settings: str, experiment: str = "copy", **options: Any) -> Condition:
    """The one condition of a study without axes."""
    (condition,) = build(experiment=experiment, set=settings, **options).conditions
    return condition


# --- Names of runs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "setting",
    [
        "data.max_length=19",
        "data.seed=2",
        "data.alphabet=äbc",
        "model.dropout=0.1",
        "training.epochs=3",
        "training.threads=2",
        "training.rate.kind=constant",
        "decoding.length_factor=3.0",
    ],
)
def test_a_changed_setting_gives_another_run(setting: str):
    assert only_condition(setting).run_name(1) != only_condition().run_name(1)


def test_another_seed_is_another_run_named_after_the_seed():
    assert [only_condition().run_name(seed).rpartition("-")[2] for seed in (1, 2, 12)] == ["1", "2", "12"]
    assert len({only_condition().run_name(seed).rpartition("-")[0] for seed in (1, 2, 12)}) == 1


def test_a_run_is_named_after_its_task():
    assert only_condition().run_name(1).startswith("copy-")
    assert only_condition(experiment="bottleneck").run_name(1).startswith("case-")


def test_a_changed_description_is_the_same_run():
    assert only_condition("description=Another.").run_name(1) == only_condition().run_name(1)


def test_the_seed_of_the_experiment_file_does_not_matter(tmp_path: Path):
    path = tmp_path / "mine.yaml"
    path.write_text("extends: copy\ntraining: {seed: 7}\n")
    mine = only_condition(experiment=str(path))
    assert mine.run_name(1) == only_condition().run_name(1)
    assert mine.with_seed(1) == only_condition().with_seed(1)


def test_runs_do_not_depend_on_the_name_and_question_of_the_study():
    one = build(GRID)
    other = build(
        """
experiment: copy
question: Why?
vary:
  how long: {long: {training: {epochs: 2}}, short: {training.epochs: 1}}
  looks: {"yes": {model.attention.kind: dot}, "no": {model.attention.kind: none}}
seeds: 9
metrics: [loss]
""",
        name="other",
    )
    assert {condition.run_name(1) for condition in one.conditions} == {c.run_name(1) for c in other.conditions}
    assert len({condition.run_name(1) for condition in one.conditions}) == 4


def test_a_default_written_explicitly_is_the_same_run():
    assert (
        only_condition("training.clip=1").run_name(1)
        == only_condition("training.clip=1.0").run_name(1)
        == only_condition().run_name(1)
    )


def test_a_seed_changes_only_the_seed():
    condition = only_condition()
    assert condition.with_seed(5).training.seed == 5
    assert condition.with_seed(5) == only_condition().experiment.model_copy(
        update={"training": condition.experiment.training.model_copy(update={"seed": 5})}
    )


def test_seeds_start_at_1():
    assert list(build(GRID, seeds=3).seeds) == [1, 2, 3]


def test_a_run_has_one_thread_by_default():
    assert only_condition(experiment="multi30k").experiment.training.threads == 1
    assert only_condition("training.threads=2").experiment.training.threads == 2
    varied = build(experiment="copy", vary=["training.threads=1,2"])
    assert [condition.experiment.training.threads for condition in varied.conditions] == [1, 2]


# --- Baselines and metrics -------------------------------------------------------------------------------


def baseline_labels(study: Study) -> dict[str, str | None]:
    found = {}
    for condition in study.conditions:
        baseline = study.baseline_of(condition)
        found[study.label(condition)] = baseline and study.label(baseline)
    return found


def test_the_baseline_defaults_to_the_first_option_of_the_first_axis():
    assert baseline_labels(build(GRID)) == {
        "none · epochs 1 · beam 1": None,
        "none · epochs 1 · beam 5": None,
        "none · epochs 2 · beam 1": None,
        "none · epochs 2 · beam 5": None,
        "dot · epochs 1 · beam 1": "none · epochs 1 · beam 1",
        "dot · epochs 1 · beam 5": "none · epochs 1 · beam 5",
        "dot · epochs 2 · beam 1": "none · epochs 2 · beam 1",
        "dot · epochs 2 · beam 5": "none · epochs 2 · beam 5",
    }


def test_a_baseline_may_be_an_option_of_another_axis():
    assert baseline_labels(build(GRID, vary=["training.epochs=1"], baseline=["beam=5"])) == {
        "none · epochs 1 · beam 1": "none · epochs 1 · beam 5",
        "none · epochs 1 · beam 5": None,
        "dot · epochs 1 · beam 1": "dot · epochs 1 · beam 5",
        "dot · epochs 1 · beam 5": None,
    }


def test_a_baseline_of_all_axes_is_one_condition():
    study = build(GRID, baseline=["beam=5", "model.attention.kind=dot", "training.epochs=1"])
    assert set(baseline_labels(study).values()) == {"dot · epochs 1 · beam 5", None}
    assert study.baseline_of(study.at(("dot", "1", "5"))) is None


def test_a_study_without_axes_has_no_baseline():
    assert baseline_labels(build(experiment="copy")) == {"copy": None}


def test_the_metric_defaults_to_that_of_the_task():
    def metrics(**given: Any) -> list[str]:
        return [metric.name for metric in build(**given).metrics]

    assert metrics(experiment="copy") == ["exact_match"]
    assert metrics(experiment="multi30k") == ["bleu_lc"]
    assert metrics(experiment="g2p") == ["word_error"]
    assert metrics(experiment="g2p", metrics=["loss", "exact_match"]) == ["loss", "exact_match"]


# --- Expectations ----------------------------------------------------------------------------------------


def expected(text: str) -> list[tuple[str, str]]:
    study = build(GRID + text)
    return [(study.label(worse), study.label(better)) for _, worse, better in study.expected_pairs()]


def test_an_order_is_expected_for_all_options_of_the_other_axes():
    assert expected("expect: [{order: [none, dot]}]\n") == [
        ("none · epochs 1 · beam 1", "dot · epochs 1 · beam 1"),
        ("none · epochs 1 · beam 5", "dot · epochs 1 · beam 5"),
        ("none · epochs 2 · beam 1", "dot · epochs 2 · beam 1"),
        ("none · epochs 2 · beam 5", "dot · epochs 2 · beam 5"),
    ]


def test_an_order_may_be_expected_for_some_options_only():
    where = "{model.attention.kind: dot, training.epochs: 2}"
    assert expected(f"expect: [{{order: [5, 1], where: {where}}}]\n") == [
        ("dot · epochs 2 · beam 5", "dot · epochs 2 · beam 1")
    ]


def test_a_longer_order_compares_neighbors():
    study = build(experiment="copy", vary=["training.epochs=1,2,3"], expect=[{"order": [3, 1, 2]}])
    assert [(w.labels, b.labels) for _, w, b in study.expected_pairs()] == [(("3",), ("1",)), (("1",), ("2",))]


def test_an_order_ignores_an_axis_that_is_fixed():
    study = build(
        experiment="copy",
        vary=["model.encoder.layers=1,2", "model.decoder.layers=1,2"],
        expect=[{"order": [1, 2], "where": {"model.encoder.layers": 2}}],
    )
    assert [(w.labels, b.labels) for _, w, b in study.expected_pairs()] == [(("2", "1"), ("2", "2"))]


def test_each_pair_comes_with_its_expectation():
    study = build(GRID + "expect:\n- {order: [1, 2], says: Practice.}\n- {order: [1, 5], says: A beam.}\n")
    assert [expectation.reason for expectation, _, _ in study.expected_pairs()] == ["Practice."] * 4 + ["A beam."] * 4


# --- Labels ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("model.attention.kind", "attention.kind"),
        ("data.prompt", "prompt"),
        ("training.rate.peak", "rate.peak"),
        ("decoding.copy_unknown", "copy_unknown"),
        ("beam", "beam"),
        ("model", "model"),
        ("size no. 5", "size no. 5"),
    ],
)
def test_an_axis_is_named_by_the_distinctive_part_of_its_key(name: str, title: str):
    assert Axis(name, (), "here", trains=True).title == title


def test_a_run_is_labeled_by_its_training_options():
    study = build(GRID)
    assert {study.training_label(c) for c in study.conditions} == {
        "none · epochs 1",
        "none · epochs 2",
        "dot · epochs 1",
        "dot · epochs 2",
    }
    tested = build(experiment="copy", test=["beam=1,5"])
    assert {tested.training_label(condition) for condition in tested.conditions} == {"copy"}
