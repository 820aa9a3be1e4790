"""Parsing studies: a grid of experiments, and every mistake with its line and its remedy."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regard.config.yaml_source import YamlLeaf
from regard.errors import UserError
from regard.studies import parsing
from regard.studies.definition import Study, option_label

COPY = "experiment: copy\n"
KINDS = COPY + "vary: {model.attention.kind: [none, dot]}\n"
SMALL = "data: {task: copy}\n"


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def build(text: str = "", **options: Any) -> Study:
    """A study from a file s.yaml and command-line options."""
    return parsing.build_study("s", [*parsing.parse_study(text, "s.yaml"), *parsing.from_options(**options)])


def error_message(text: str = "", **options: Any) -> str:
    with pytest.raises(UserError) as error:
        build(text, **options)
    return str(error.value)


def labels(study: Study) -> list[tuple[str, ...]]:
    return [condition.labels for condition in study.conditions]


def run_names(study: Study) -> list[str]:
    return [condition.run_name(1) for condition in study.conditions]


def epochs(study: Study) -> list[int]:
    return [condition.experiment.training.epochs for condition in study.conditions]


def content_of(study: Study) -> object:
    """All of a study except where it is defined."""
    return study.name, study.plan, study.conditions, [(axis.name, axis.labels, axis.trains) for axis in study.axes]


# --- The grid --------------------------------------------------------------------------------------------


def test_a_file_and_equal_command_line_options_give_the_same_study():
    written = build("""
experiment: copy
set: {training: {epochs: 2}, model.attention.kind: additive}
vary: {training.clip: [0.5, 1.0], training.patience: [null, 3]}
test: {beam: [1, 5], data.max_length: [20, 30]}
seeds: 2
baseline: {beam: 5, training.patience: null}
metrics: [token_accuracy, exact_match]
method: bootstrap
""")
    typed = build(
        experiment="copy",
        set=["training.epochs=2", "model.attention.kind=additive"],
        vary=["training.clip=0.5,1.0", "training.patience=null,3"],
        test=["beam=1,5", "data.max_length=20,30"],
        seeds=2,
        baseline=["beam=5", "training.patience=null"],
        metrics=["token_accuracy", "exact_match"],
        method="bootstrap",
    )
    assert content_of(typed) == content_of(written)
    assert len(typed.conditions) == 16


def test_the_key_of_0_5_for_metrics_is_accepted():
    old, new = (build(COPY + f"{key}: [token_accuracy, exact_match]\n") for key in ("measures", "metrics"))
    assert content_of(old) == content_of(new)
    assert [metric.name for metric in old.metrics] == ["token_accuracy", "exact_match"]


def test_options_missing_on_the_command_line_come_from_the_file():
    assert content_of(build(KINDS, seeds=None, vary=None, set=[], method=None)) == content_of(build(KINDS))


def test_the_last_axis_varies_fastest_and_test_axes_faster_than_training_axes():
    study = build("test: {beam: [1, 2]}\n" + COPY + "vary: {training.epochs: [1, 2], training.clip: [0.5, 1.0]}\n")
    assert [axis.name for axis in study.axes] == ["training.epochs", "training.clip", "beam"]
    assert labels(study)[:5] == [
        ("1", "0.5", "1"),
        ("1", "0.5", "2"),
        ("1", "1.0", "1"),
        ("1", "1.0", "2"),
        ("2", "0.5", "1"),
    ]
    training = [condition.experiment.training for condition in study.conditions]
    assert [(str(each.epochs), str(each.clip)) for each in training] == [each[:2] for each in labels(study)]


def test_an_option_may_be_a_nested_or_dotted_or_empty_group_of_settings():
    study = build(
        COPY
        + """
vary:
  width:
    as it is: {}
    narrow: {model: {encoder: {size: 32}, decoder: {size: 64}}}
    wide: {model.encoder.size: 256, model.decoder.size: 512}
test:
  search: {greedy: , beam: {beam: 5}}
"""
    )
    names = [(width, search) for width in ("as it is", "narrow", "wide") for search in ("greedy", "beam")]
    assert labels(study) == names
    assert [condition.experiment.model.decoder.size for condition in study.conditions] == [128, 128, 64, 64, 512, 512]
    assert [condition.evaluation.options.beam for condition in study.conditions] == [1, 5] * 3


def test_later_axes_override_earlier_ones_and_axes_override_common_settings():
    rates = "{low: {training.rate.peak: 0.1}, high: {training.rate.peak: 0.2}}"
    axes = f"{{rate: {rates}, speed: {{slow: {{}}, fast: {{training.epochs: 3}}}}}}"
    study = build(f"{COPY}set: {{training.epochs: 9, training.rate.peak: 0.3}}\nvary: {axes}\n")
    assert epochs(study) == [9, 3, 9, 3]
    assert [condition.experiment.training.rate.peak for condition in study.conditions] == [0.1, 0.1, 0.2, 0.2]
    twice = (
        "{training.epochs: [1, 2], speed: {slow: {model.dropout: 0.1}, fast: {training.epochs: 3, model.dropout: 0.2}}}"
    )
    assert "1 · fast and 2 · fast have the same settings" in error_message(f"{COPY}vary: {twice}\n")


def test_a_study_without_axes_has_one_condition():
    assert labels(build(COPY)) == labels(build(COPY + "vary:\ntest: {}\nset:\n")) == [()]


@pytest.mark.parametrize(
    ("written", "label"),
    [
        ("true", "true"),
        ("no", "false"),
        ("null", "null"),
        ("~", "null"),
        ("0.50", "0.5"),
        ("1e-3", "0.001"),
        ("3", "3"),
        ("'3'", "3"),
        ("ähm", "ähm"),
        ("[1, a]", '[1, "a"]'),
        ("{a: 1}", '{"a": 1}'),
        ("{2020-01-01: 1}", "{datetime.date(2020, 1, 1): 1}"),
    ],
)
def test_an_option_is_labeled_as_its_value_is_written(written: str, label: str):
    (leaf,) = parsing.from_options(vary=[f"x={written}"])
    assert [option_label(value) for value in leaf.value] == [label]


def test_options_of_any_type_are_found_by_their_labels():
    study = build(
        "experiment: copy\n"
        "set: {model.attention.kind: additive}\n"
        "vary: {model.encoder.bidirectional: [true, false], training.patience: [null, 3]}\n"
        "baseline: {model.encoder.bidirectional: false, training.patience: null}\n"
        "expect: [{order: [false, true], where: {training.patience: 3}}, {order: [3, null]}]\n"
    )
    assert study.baseline == {"model.encoder.bidirectional": "false", "training.patience": "null"}
    assert [expectation.order for expectation in study.plan.expect] == [["false", "true"], ["3", "null"]]


# --- Evaluations -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "axis",
    ["beam=1,5", "length_penalty=null,0,0.5", "split=test,validation", "data.max_length=20,40", "data.test=10,20"],
)
def test_a_test_axis_gives_other_evaluations_of_the_same_runs(axis: str):
    study = build(experiment="copy", test=[axis])
    assert len(set(run_names(study))) == 1
    assert len({condition.evaluation.file(Path()) for condition in study.conditions}) == len(study.conditions) > 1
    assert {condition.experiment for condition in study.conditions} == {build(COPY).conditions[0].experiment}


def test_an_evaluation_defaults_to_greedy_search_on_the_test_set_of_the_same_data():
    (condition,) = build(KINDS, vary=["model.attention.kind=none"], set=["data.max_length=7"]).conditions
    assert condition.evaluation.data == condition.experiment.data
    assert condition.evaluation.options.model_dump() == {"split": "test", "beam": 1, "length_penalty": None}


def test_an_evaluation_may_use_longer_texts_than_training():
    doubled = "{data: {min_length: 18, max_length: 18}, beam: 3}"
    study = build(f"{COPY}set: {{data.max_length: 9}}\ntest: {{length: {{trained: {{}}, twice: {doubled}}}}}\n")
    one, two = (condition.evaluation for condition in study.conditions)
    assert [condition.experiment.data.model_dump()["max_length"] for condition in study.conditions] == [9, 9]
    assert (one.data.model_dump()["max_length"], one.options.beam) == (9, 1)
    assert (two.data.model_dump()["max_length"], two.options.beam) == (18, 3)


# --- Overrides -------------------------------------------------------------------------------------------


def test_the_command_line_overrides_the_file():
    text = COPY + "seeds: 2\nset: {training.epochs: 3}\nmetrics: [exact_match]\nvary: {training.clip: [0.5, 1.0]}\n"
    study = build(text, seeds=5, set=["training.epochs=4"], vary=["training.clip=2.0"], metrics=["loss", "perplexity"])
    assert study.plan.seeds == 5
    assert epochs(study) == [4]
    assert labels(study) == [("2.0",)]
    assert [metric.name for metric in study.metrics] == ["loss", "perplexity"]


@pytest.mark.parametrize(
    "written",
    [
        "{training: {epochs: 3}}",
        "{training.epochs: 3}",
        "{training.epochs: 2, training: {epochs: 3}}",
        "{training: {epochs: 2}, training.epochs: 3}",
    ],
)
@pytest.mark.parametrize("typed", ["training.epochs=4", "training={epochs: 4}", " training.epochs = 4"])
def test_a_setting_is_replaced_in_any_notation(written: str, typed: str):
    assert epochs(build(f"{COPY}set: {written}\n")) == [3]
    study = build(f"{COPY}set: {written}\n", set=[typed])
    assert epochs(study) == [4]
    assert content_of(build(study.dump())) == content_of(study)


def test_an_invalid_value_is_ignored_once_it_is_replaced():
    text = COPY + "set: {training: {epochs: 0}, model: 3}\nvary: {training.clip: []}\nbaseline: 3\n"
    study = build(
        text, set=["training.epochs=4", "model.dropout=0.5"], vary=["training.clip=1.0"], baseline=["training.clip=1.0"]
    )
    assert epochs(study) == [4]
    assert content_of(build(study.dump())) == content_of(study)


def test_settings_that_are_not_replaced_are_kept():
    study = build(COPY + "set: {training: {epochs: 3, clip: 0.5}}\n", set=["training={epochs: 4}", "training={}"])
    assert (study.conditions[0].experiment.training.epochs, study.conditions[0].experiment.training.clip) == (4, 0.5)


def test_a_replaced_axis_loses_its_groups_and_keeps_its_position():
    text = COPY + "vary: {model.dropout: {low: {model.dropout: 0.1}, high: {}}, training.epochs: [1, 2]}\n"
    study = build(text, vary=["training.epochs=3", "model.dropout=0.2,0.3"])
    assert [(axis.name, axis.labels) for axis in study.axes] == [
        ("model.dropout", ["0.2", "0.3"]),
        ("training.epochs", ["3"]),
    ]
    assert study.baseline == {"model.dropout": "0.2"}


@pytest.mark.parametrize("nothing", ["vary:", "vary: {}", "set:", "set: {}", "baseline: {}"])
def test_the_command_line_can_fill_an_empty_section_of_the_file(nothing: str):
    study = build(
        f"{COPY}{nothing}\n", vary=["training.epochs=1,2"], set=["model.dropout=0.5"], baseline=["training.epochs=2"]
    )
    assert (labels(study), study.baseline) == ([("1",), ("2",)], {"training.epochs": "2"})
    assert content_of(build(study.dump())) == content_of(study)


def test_building_does_not_modify_the_leaves():
    text = KINDS + "baseline: {}\nexpect: [{order: [none, dot], where: {}}]\n"
    leaves = parsing.parse_study(text, "s.yaml")
    parsing.build_study("s", [*leaves, *parsing.from_options(baseline=["model.attention.kind=dot"])])
    assert leaves == parsing.parse_study(text, "s.yaml")


# --- Dumping ---------------------------------------------------------------------------------------------

AXES: dict[str, st.SearchStrategy[Any]] = {
    "vary training.epochs": st.integers(1, 9),
    "vary training.rate.peak": st.sampled_from([1e-05, 0.001, 0.5, 1e22]),
    "vary training.patience": st.none() | st.integers(1, 3),
    "vary model.encoder.bidirectional": st.booleans(),
    "vary data.alphabet": st.sampled_from(["ab", "yes", "12", "1e3", "nul", "a: #", "~", "äß", "\u2028x"]),
    "test beam": st.integers(1, 9),
    "test length_penalty": st.none() | st.integers(0, 3) | st.sampled_from([0.5, 1e-05]),
}


@st.composite
def grids(draw: st.DrawFn) -> list[YamlLeaf]:
    """A study with up to three axes, some of them of groups, a baseline and an order to expect."""
    leaves = [YamlLeaf(("question",), draw(st.text()), "")]
    leaves.append(YamlLeaf(("set", "training", "clip"), draw(st.sampled_from([0.5, 1, 1e-7])), ""))
    options = {}
    for axis in draw(st.lists(st.sampled_from(list(AXES)), max_size=2, unique=True)):
        section, name = axis.split()
        values = draw(st.lists(AXES[axis], min_size=1, max_size=2, unique_by=option_label))
        leaves.append(YamlLeaf((section, name), values, ""))
        options[name] = values
    if named := draw(st.lists(st.text(), max_size=2, unique=True)):
        leaves += [YamlLeaf(("vary", "a: group", label, "model.dropout"), n / 10, "") for n, label in enumerate(named)]
        options["a: group"] = named
    for name, values in options.items():
        if draw(st.booleans()):
            leaves.append(YamlLeaf(("baseline", name), values[-1], ""))
        own, labels = set(map(option_label, values)), [set(map(option_label, each)) for each in options.values()]
        if (
            len(values) == 2 and sum(own <= each for each in labels) == 1
        ):  # otherwise it is not clear which axis is meant
            leaves.append(YamlLeaf(("expect",), [{"order": values, "reason": draw(st.text())}], ""))
    return leaves


@settings(max_examples=40)
@given(leaves=grids())
@example(
    leaves=[
        YamlLeaf(("vary", "g", label, "training.epochs"), 1 + n, "")
        for n, label in enumerate(("\x85", "\u2028", "a\nb", "", "1e3", "yes", "x" * 200))
    ]
)
@example(
    leaves=[YamlLeaf(("vary", "training.epochs"), both := [1, 2], ""), YamlLeaf(("expect",), [{"order": both}], "")]
)
def test_a_study_survives_dumping_and_parsing(leaves: list[YamlLeaf]):
    Path("small.yaml").write_text(SMALL)
    study = parsing.build_study("s", [YamlLeaf(("experiment",), str(Path("small.yaml").absolute()), ""), *leaves])
    assert content_of(build(study.dump())) == content_of(study)


@pytest.fixture
def from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Study], Study]:
    """The study dumped to a file in one folder and parsed from another."""

    def again(study: Study) -> Study:
        for folder in ("elsewhere", "third"):
            (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        (tmp_path / "third/study.yaml").write_text(study.dump())
        return parsing.build_study(study.name, parsing.parse_study_file(Path("../third/study.yaml")), Path("../third"))

    return again


@pytest.mark.parametrize("name", ["mine.yaml", "../deep/mine.yaml", "./sub/../mine.yaml"])
def test_an_experiment_file_is_relative_to_the_study_file(name: str, from_elsewhere: Callable[[Study], Study]):
    Path("deep/sub").mkdir(parents=True)
    Path("deep/mine.yaml").write_text(SMALL + "training: {epochs: 77}\n")
    Path("deep/study.yaml").write_text(f"experiment: {name}\nvary: {{model.dropout: [0, 0.5]}}\n")
    study = parsing.build_study("study", parsing.parse_study_file(Path("deep/study.yaml")), Path("deep"))
    assert epochs(study) == [77, 77]
    assert from_elsewhere(study).conditions == study.conditions


def test_values_that_are_not_paths_are_dumped_unchanged():
    written = {"experiment": "copy", "vary": {"data.train": [500, 1000]}, "test": {"data.test": [50]}}
    assert yaml.safe_load(build(yaml.safe_dump(written)).dump()) == written


def test_a_recipe_stays_a_recipe_even_if_a_file_has_its_name(from_elsewhere: Callable[[Study], Study]):
    Path("copy").write_text(SMALL + "training: {epochs: 77}\n")
    study = build(KINDS)
    assert "experiment: copy\n" in study.dump()
    assert from_elsewhere(study).conditions == study.conditions


def test_a_missing_file_is_reported_where_it_was_set():
    text = "experiment: copy\nset: {data: {task: files, validation: v.tsv}}\nvary:\n  data.train: [v.tsv, a.tsv]\n"
    Path("v.tsv").write_text("a\tb\n")
    study = parsing.build_study("s", parsing.parse_study(text, "s.yaml"))  # to report on it
    with pytest.raises(UserError, match=r"^s\.yaml, line 4: data\.train: there is no .*a\.tsv, nor"):
        parsing.build_study(study.name, parsing.parse_study(text, "s.yaml"), check_files=True)


def test_paths_of_texts_are_found_from_anywhere_and_options_keep_their_labels(
    tmp_path: Path, from_elsewhere: Callable[[Study], Study]
):
    Path("deep").mkdir()
    text = """
experiment: copy
set: {data: {task: files, validation: v.tsv}}
vary: {data.train: [a.tsv, ../b.tsv]}
test: {test set: {own: {data.test: t.tsv}, none: {data.test: null}}}
baseline: {data.train: a.tsv}
"""
    Path("mine.yaml").write_text(SMALL)
    leaves = parsing.parse_study(text.replace("copy", "../mine.yaml"), "deep/study.yaml")
    study = parsing.build_study(
        "study", [*leaves, *parsing.from_options(set=["data.validation=typed.tsv"])], Path("deep")
    )
    data = [condition.evaluation.data.model_dump() for condition in study.conditions]
    assert [each["train"] for each in data[::2]] == [f"{tmp_path}/deep/a.tsv", f"{tmp_path}/b.tsv"]
    assert [each["test"] for each in data[:2]] == [f"{tmp_path}/deep/t.tsv", None]
    assert data[0]["validation"] == f"{tmp_path}/typed.tsv"
    assert labels(study)[::2] == [("a.tsv", "own"), ("../b.tsv", "own")]
    assert content_of(from_elsewhere(study))[1:] == (
        study.plan.model_copy(update={"experiment": f"{tmp_path}/mine.yaml"}),
        *content_of(study)[2:],
    )


# --- Mistakes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "line", "expected"),
    [
        # keys of a study
        ("vry: {}\n", 3, "vry: unknown key; did you mean 'vary'? choices: set, vary, test, question, "),
        ("qestion: why\n", 3, "qestion: unknown key; did you mean 'question'?"),
        ("seeds: 0\n", 3, "seeds: 0 is invalid: input should be greater than or equal to 1"),
        ("seeds: 1.5\n", 3, "seeds: 1.5 is invalid: input should be a valid integer"),
        ("seeds: 0x" + "f" * 5000 + "\n", 3, "this value cannot be read"),
        ("metrics: [exact_match, blu]\n", 3, "'blu' is not a metric; did you mean 'bleu'? choices: exact_match, "),
        ("metrics: bleu\n", 3, "metrics: 'bleu' is invalid: input should be a valid list"),
        ("method: bootstrp\n", 3, "method: 'bootstrp' is not a valid choice; did you mean 'bootstrap'?"),
        ("question: {a: 3}\n", 3, "question: {'a': 3} is invalid: input should be a valid string"),
        # baseline and expect
        ("baseline: none\n", 3, "baseline: 'none' is invalid: input should be a valid dictionary"),
        (
            "baseline:\n  attention: none\n",
            4,
            "baseline: 'attention' is not an axis; did you mean 'model.atte",
        ),
        (
            "baseline:\n  model.attention.kind: non\n",
            4,
            "model.attention.kind has no 'non'; did you mean 'none'? choices: none, dot",
        ),
        (
            "baseline:\n  model:\n    attention.kind: 1\n",
            5,
            "baseline: model.attention.kind has no '1'; choices: none, dot",
        ),
        (
            "expect:\n- order: [none, mean]\n",
            3,
            "expect: no axis has all of none, mean; model.attention.kind has none, dot",
        ),
        (
            "expect: [{order: [none, dot], where: {beam: 1}}]\n",
            3,
            "expect: where: 'beam' is not an axis; choices: model.att",
        ),
        (
            "expect: [{order: [none, dot], where: {model.attention.kind: dit}}]\n",
            3,
            "has no 'dit'; did you mean 'dot'?",
        ),
        (
            "expect: [{order: [none, dot], where: {model.attention.kind: dot}}]\n",
            3,
            "expect: no axis besides those of where has all of none, dot; vary and test have no axes",
        ),
        ("expect: [{order: [none]}]\n", 3, "expect.0.order: ['none'] is invalid: list should have at least 2 items"),
        ("expect: {order: [none, dot]}\n", 3, "should be a valid list"),
        # axes
        ("test: 3\n", 3, "test: this should have keys of its own, such as beam"),
        ("set: [1]\n", 3, "set: this should have keys of its own, such as training.epochs"),
        ("test:\n  beam: []\n", 4, "beam: this should be a list of values, or groups of settings with names"),
        ("test:\n  beam: 5\n", 4, "beam: this should be a list of values, or groups of settings with names"),
        ("test:\n  beam:\n", 4, "beam: this should be a list of values, or groups of settings with names"),
        ("test:\n  beam: [1, 2, 1]\n", 4, "beam: 1 appears twice"),
        ("test:\n  beam: [1, '1']\n", 4, "beam: 1 appears twice"),
        ("test:\n  width:\n    wide: 5\n", 5, "width: wide: this should be a group of settings, such as {beam: 5}"),
        ("test:\n  data:\n    max_length: [5]\n", 5, "is written with dots, data.max_length"),
        ("test:\n  model.attention.kind: [none]\n", 4, "model.attention.kind: this is an axis of vary already"),
        # values
        ("set:\n  training:\n    epochs: 0\n", 5, "training.epochs: 0 is invalid: input should be greater"),
        ("set:\n  training.epocs: 1\n", 4, "training.epocs: unknown key; did you mean 'epochs'?"),
        (
            "set:\n  training: {seed: 3}\n",
            4,
            "training.seed: a study repeats each run with other seeds; seeds sets how many",
        ),
        (
            "set:\n  training.seed: 3\n",
            4,
            "training.seed: a study repeats each run with other seeds; seeds sets how many",
        ),
        ("test:\n  beam: [1, 0]\n", 4, "beam: 0 is invalid: input should be greater than or equal to 1"),
        (
            "test:\n  beem: [1]\n",
            4,
            "beem: unknown key; did you mean 'beam'? choices: split, beam, length_penalty, or one of data",
        ),
        ("test:\n  beam.width: [1]\n", 4, "beam.width: unknown key; choices: split, beam, "),
        ("test:\n  model.dropout: [0.1]\n", 4, "model.dropout: unknown key; choices: split, "),
        ("test:\n  wide:\n    very: {bam: 5}\n", 5, "bam: unknown key; did you mean 'beam'?"),
        (
            "test:\n  data.max_lenght: [5]\n",
            4,
            "data.max_lenght: 'copy' task has no option max_lenght; did you mean 'max_length'?",
        ),
        ("test:\n  data.max_length: [5, 0]\n", 4, "data.max_length: 0 is invalid"),
        # YAML
        ("seeds: [\n", 4, "this is not YAML"),
        ("seeds: 2\nseeds: 3\n", 4, "seeds: this key appears twice"),
        ("test: {a: &a [1], b: *a}\n", 3, "aliases (*a) are not supported; write it out"),
    ],
)
def test_a_mistake_is_reported_with_its_line_and_remedy(content: str, line: int, expected: str):
    output = error_message(KINDS + content)
    assert output.startswith(f"s.yaml, line {line}: ")
    assert expected in output
    assert "\n" not in output


def test_an_unknown_experiment_is_reported_with_its_line():
    output = error_message("question: why\nexperiment: copi\nvary: {training.epochs: [1, 2]}\n")
    assert output.startswith("s.yaml, line 2: experiment: 'copi' is neither a recipe nor a file; did you mean 'copy'?")


@pytest.mark.parametrize(
    ("axis", "expected"),
    [
        (
            "model.attention.kind: [none, aditive]",
            "model.attention.kind: 'aditive' is not a valid choice; did you mean 'additive'?",
        ),
        ("training.epochs: [1, 0]", "training.epochs: 0 is invalid: input should be greater than or equal to 1"),
        ("training.epochs: [1, 2020-01-01]", "training.epochs: datetime.date(2020, 1, 1) is invalid"),
        ("training.epocs: [1]", "training.epocs: unknown key; did you mean 'epochs'?"),
        ("beam: [1]", "beam: unknown key; choices: description, data, model, training, decoding"),
        ("training.seed: [1, 2]", "training.seed: a study repeats each run with other seeds; seeds sets how many"),
        ("training: [{seed: 1}]", "training.seed: a study repeats each run with other seeds; seeds sets how many"),
        ("g: {a: {training: {seed: 1}}}", "training.seed: a study repeats each run with other seeds"),
        (
            "training: {epochs: [1, 2]}",
            "such as {training.epochs: 2}; an axis with the values of a key is written with dots",
        ),
        (
            "model.decoder.size: [64]",
            "model.attention.kind: 'dot' needs equal sizes, but the decoder's state has 64 and",
        ),
    ],
)
def test_a_value_that_the_experiment_refuses_is_reported_with_its_line(axis: str, expected: str):
    output = error_message(f"{COPY}set:\n  training.clip: 2\nvary:\n  {axis}\n")
    # An impossible combination is reported where one of its parts was set.
    assert output.startswith("recipe case, line 6: " if "size" in axis else "s.yaml, line 5: ")
    assert expected in output


@pytest.mark.parametrize(
    ("option", "typed", "expected"),
    [
        ("vary", "x", "this should be KEY=VALUE, as in --vary model.attention.kind=none,dot"),
        ("vary", "", "this should be KEY=VALUE"),
        ("vary", "=1", "this should be KEY=VALUE"),
        ("test", "beam", "this should be KEY=VALUE, as in --test beam=1,5"),
        ("set", "training.epochs", "this should be KEY=VALUE, as in --set training.epochs=2"),
        ("baseline", "beam", "this should be KEY=VALUE, as in --baseline model.attention.kind=none"),
        ("vary", "training.epochs=", "training.epochs: this should be a list of values"),
        ("vary", "training.epochs=1,1", "training.epochs: 1 appears twice"),
        ("vary", "training.epochs=1,0", "training.epochs: 0 is invalid"),
        ("vary", "training.seed=1,2", "training.seed: a study repeats each run with other seeds"),
        ("set", "training.seed=1", "training.seed: a study repeats each run with other seeds"),
        ("set", "training={seed: 1}", "training.seed: a study repeats each run with other seeds"),
        ("set", "training.epochs=x", "training.epochs: 'x' is invalid"),
        ("test", "bem=1", "bem: unknown key; did you mean 'beam'?"),
        ("test", "beam=0", "beam: 0 is invalid"),
        ("baseline", "beam=1", "baseline: 'beam' is not an axis; vary and test have no axes"),
    ],
)
def test_a_mistake_on_the_command_line_is_reported_as_typed(option: str, typed: str, expected: str):
    assert f"--{option} {typed}: {expected}" in error_message(experiment="copy", **{option: [typed]})


@pytest.mark.parametrize(
    "typed", ["training.epochs=[1", "training.epochs=1,,2", "training.epochs=*x", "training.epochs=1], [2"]
)
def test_invalid_yaml_on_the_command_line_is_reported_as_typed(typed: str):
    problem = error_message(experiment="copy", vary=[typed]).removeprefix(f"--vary {typed}, line 1: ")
    assert problem.startswith(("this is not YAML", "aliases (*x) are not supported"))


def test_invalid_seeds_and_metrics_are_reported_with_their_flags():
    assert error_message(experiment="copy", seeds=0).startswith("the command line: seeds: 0 is invalid")
    assert error_message(experiment="copy", metrics=["blu"]).startswith("the command line: metrics: ['blu'] is invalid")


@pytest.mark.parametrize("content", ["", "seeds: 2\n", "{}\n"])
def test_a_study_needs_an_experiment(content: str):
    assert error_message(content) == "s: experiment: missing; this key is required"


def test_an_unknown_experiment_is_reported_with_the_nearest_name():
    assert "'cop' is neither a recipe nor a file; did you mean 'copy'?" in error_message("experiment: cop\n")


@pytest.mark.parametrize("content", ["- a\n", "attention\n", "null\n", "3\n"])
def test_a_file_without_keys_is_refused(content: str):
    assert error_message(content) == f"s.yaml, line 1: {parsing.SECTIONS}"


def test_impossible_combinations_are_found_anywhere_in_the_grid():
    output = error_message(experiment="copy", vary=["model.decoder.size=128,256", "model.attention.kind=additive,dot"])
    assert output.startswith(
        "--vary model.attention.kind=additive,dot: model.attention.kind: 'dot' needs equal sizes, "
    )
    assert "the decoder's state has 256 and an encoder's state 128" in output


@pytest.mark.parametrize("axes", [4, 400])
def test_too_large_a_grid_is_refused_without_enumerating_it(axes: int):
    leaves = [YamlLeaf(("vary", f"training.x{index}"), list(range(10)), f"line {index}") for index in range(axes)]
    began = time.monotonic()
    with pytest.raises(
        UserError, match=rf"^line {axes - 1}: the grid has more than 1,000 points with this axis; vary less$"
    ):
        parsing.build_study("s", [YamlLeaf(("experiment",), "copy", ""), *leaves])
    assert time.monotonic() - began < 5


def test_a_missing_or_unreadable_file_is_reported_by_name():
    Path("latin.yaml").write_bytes(COPY.encode() + b"question: caf\xe9\n")
    Path("folder").mkdir()
    for name, expected in {
        "none.yaml": "none.yaml: there is no such file; a study is a YAML file",
        "latin.yaml": "latin.yaml, line 2: this is not UTF-8 text; it should be a YAML file",
        "folder": "folder: cannot be read: Is a directory",
    }.items():
        with pytest.raises(UserError) as error:
            parsing.parse_study_file(Path(name))
        assert str(error.value) == expected


def test_a_file_is_reported_by_the_name_that_was_given():
    Path("deep").mkdir()
    Path("deep/study.yaml").write_text("experiment: copy\nseeds: x\n")
    with pytest.raises(UserError, match=r"^deep/study\.yaml, line 2: seeds: 'x' is invalid"):
        parsing.build_study("study", parsing.parse_study_file(Path("deep/study.yaml")), Path("deep"))


# --- Malicious files -------------------------------------------------------------------------------------

PIECES = [
    *("experiment: ", "copy", "set: ", "vary: ", "test: ", "baseline: ", "expect: ", "metrics: ", "seeds: "),
    *("training", "seed", "epochs", "beam", "data", "train", ".", "order: ", "where: ", "[", "]", "{", "}", ", ", ": "),
    *(
        "\n",
        "\n  ",
        "\n- ",
        "1",
        "0.5",
        "null",
        "true",
        "2020-01-01",
        "!!set ",
        "!!omap ",
        "!!binary ",
        "'",
        "? ",
        ".nan",
    ),
]
yaml_like = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=30).map("".join))


@settings(max_examples=200)
@given(
    text=yaml_like,
    typed=st.text()
    | st.builds("{}={}".format, st.sampled_from(["training.epochs", "training", "beam", "x"]), yaml_like),
    option=st.sampled_from(["set", "vary", "test", "baseline"]),
)
@example(text="vary: {training: [{2020-01-01: 1}]}", typed="", option="set")
@example(text="vary:", typed="training.epochs=1", option="vary")
@example(text="expect: [{order: [[1], {a: 2}], where: {1: 2}}]", typed="", option="set")
def test_any_text_is_parsed_or_raises_a_user_error(text: str, typed: str, option: str):
    with suppress(UserError):
        study = build(COPY + text, **{option: [typed]})
        assert content_of(build(study.dump())) == content_of(study)


def test_another_baseline_replaces_the_old_one_as_a_whole():
    text = COPY + "vary: {model.dropout: [0.1, 0.2], training.epochs: [1, 2]}\nbaseline: {model.dropout: 0.2}\n"
    leaves = parsing.parse_study(text, "s.yaml")
    added = parsing.from_options(baseline=["training.epochs=2"], seeds=None)
    assert parsing.build_study("s", parsing.override_leaves(leaves, added)).baseline == {"training.epochs": "2"}
    assert parsing.build_study("s", parsing.override_leaves(leaves, [])).baseline == {"model.dropout": "0.2"}
