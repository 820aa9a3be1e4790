"""Experiments in Python: built, printed, compared and saved."""

from __future__ import annotations

from pathlib import Path

import pytest

import regard
from regard.config.kinds import AttentionSection
from regard.config.schema import DecodingSection, Experiment, ModelSection
from regard.config.training_section import TrainingSection
from regard.errors import UserError
from regard.nn import AdditiveAttention
from regard.tasks.copy import CopySection


def test_an_experiment_from_typed_sections_equals_one_from_a_dictionary():
    attention = AdditiveAttention.Section(kind="additive", key_size=7)
    assert isinstance(attention, AttentionSection)
    typed = regard.Experiment(
        data=CopySection(alphabet="abc", train=50),
        model=ModelSection(attention=attention, dropout=0.25),
        training=TrainingSection(epochs=3),
        decoding=DecodingSection(length_extra=5),
    )
    plain = regard.Experiment.load(
        {
            "data": {"task": "copy", "alphabet": "abc", "train": 50},
            "model": {"attention": {"kind": "additive", "key_size": 7}, "dropout": 0.25},
            "training.epochs": 3,
            "decoding": {"length_extra": 5},
        }
    )
    assert typed == plain
    assert regard.Experiment(**typed.model_dump()) == typed


@pytest.mark.parametrize("name", ["case", "multi30k-transformer"])
def test_what_is_printed_and_saved_can_be_loaded(name: str, tmp_path: Path):
    experiment = Experiment.load(name, {"training.epochs": 3})
    experiment.save(tmp_path / "new" / "mine.yaml")
    experiment.save(str(tmp_path / "again.yaml"))
    text = (tmp_path / "again.yaml").read_text(encoding="utf-8")
    assert text == str(experiment) == (tmp_path / "new" / "mine.yaml").read_text(encoding="utf-8")
    assert "epochs: 3\n" in text
    assert Experiment.load(tmp_path / "again.yaml") == experiment


def test_diff_has_the_settings_that_differ():
    case, bottleneck = Experiment.load("case"), Experiment.load("bottleneck")
    assert case.diff(case) == {}
    differences = case.diff(bottleneck)
    assert differences["model.attention.kind"] == ("dot", "none")
    assert bottleneck.diff(case) == {key: (there, here) for key, (here, there) in differences.items()}
    additive = Experiment.load(case, {"model.attention.kind": "additive"})
    assert case.diff(additive) == {"model.attention.kind": ("dot", "additive")}, "a key that is None in both is equal"
    wide = Experiment.load(case, {"model.attention": {"kind": "additive", "key_size": 5}})
    assert case.diff(wide) == {"model.attention.kind": ("dot", "additive"), "model.attention.key_size": (None, 5)}


def test_mistakes_are_explained_in_sentences():
    with pytest.raises(UserError) as error:
        Experiment(data={"task": "copy", "alphabt": "ab"}, model={"dropout": 2}, training={"rate": {"kind": "constnt"}})
    assert str(error.value).splitlines() == [
        "Experiment: data.alphabt: 'copy' task has no option alphabt; did you mean 'alphabet'? it has train, "
        "validation, test, seed, min_length, max_length, alphabet",
        "Experiment: model.dropout: 2 is invalid: input should be less than 1",
        "Experiment: training.rate.kind: 'constnt' is not a valid choice; did you mean 'constant'? choices: constant, "
        "one-cycle, inverse-square-root, plateau",
    ]
    with pytest.raises(UserError, match="Experiment: data: missing; this key is required"):
        Experiment()
    with pytest.raises(UserError, match="2 is not an experiment; give the name of a recipe"):
        Experiment.load(2)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"no/such\.yaml"):
        Experiment.load("no/such.yaml")
    with pytest.raises(UserError, match="the experiment"):
        Experiment.load("case").save("/dev/null/mine.yaml")


def test_a_path_is_a_file_even_if_a_recipe_has_this_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("copy").write_text("extends: reverse\n")
    assert Experiment.load("copy").data.task == "copy"
    assert Experiment.load(Path("copy")).data.task == "reverse"
    assert Experiment.load("copy").diff(Path("copy"))["data.task"] == ("copy", "reverse")
