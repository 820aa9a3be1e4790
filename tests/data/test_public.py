"""`regard.data.load` and `regard.data.check`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.tasks.copy import CopyTask


def test_the_pairs_of_a_task_are_loaded_by_its_name_or_its_class():
    pairs = regard.data.load("copy", alphabet="abc", train=30, validation=5, test=7)
    assert {split: len(list(those)) for split, those in pairs.items()} == {"train": 30, "validation": 5, "test": 7}
    assert all(set(pair.source) <= set("abc") for pair in pairs["train"])
    same = regard.data.load(CopyTask, alphabet="abc", train=30, validation=5, test=7)
    assert {split: list(those) for split, those in same.items()} == {split: list(pairs[split]) for split in pairs}


def test_splits_have_a_short_representation_and_numbers_may_be_of_numpy():
    pairs = regard.data.load("copy", train=np.int64(30), validation=5, test=7)
    assert repr(pairs) == "SplitPairs(train, validation, test)"
    assert len(list(pairs["train"])) == 30


def test_files_can_be_iterated_again(corpus: Path):
    pairs = regard.data.load("files", train=corpus / "train", validation=str(corpus / "validation"))
    assert list(pairs) == ["train", "validation"]
    first = list(pairs["train"])
    assert len(first) == 400
    assert list(pairs["train"]) == first


@pytest.mark.parametrize(
    ("task", "settings", "message"),
    [
        ("cpoy", {}, "data.task: 'cpoy' is not a valid choice; did you mean 'copy'?"),
        ("copy", {"alfabet": "ab"}, "'copy' task has no option alfabet; did you mean 'alphabet'?"),
        ("files", {"train": "no/such", "validation": "no/such"}, "data.train: there is no "),
        (3, {}, "data.task: 3 is not a valid choice"),
        (dict, {}, "cannot be used as task: it should be a subclass of regard.tasks.base.Task"),
    ],
)
def test_a_mistake_is_explained(task: object, settings: dict[str, object], message: str):
    with pytest.raises(regard.UserError) as error:
        regard.data.load(task, **settings)  # type: ignore[arg-type]
    assert message in str(error.value)


def test_parallel_text_is_checked_and_printed(corpus: Path, capsys: pytest.CaptureFixture[str]):
    report = regard.data.check(
        str(corpus / "train.de"), corpus / "train.en", test_source=corpus / "test.de", test_target=corpus / "test.en"
    )
    assert report.ready
    assert report.pairs == 400
    assert report.test is not None
    assert str(report).startswith(f"{corpus / 'train.de'}, {corpus / 'train.en'}: 400 pairs\n")
    assert str(report).endswith("Ready for training.")
    assert json.loads(json.dumps(report.to_dict()))["pairs"] == 400
    assert capsys.readouterr() == ("", "")


def test_wrong_arguments_of_a_check_are_explained(corpus: Path):
    with pytest.raises(regard.UserError, match="source: 3 should be a path, as a text or a pathlib"):
        regard.data.check(3)  # type: ignore[arg-type]
    with pytest.raises(regard.UserError, match=r"give its translations as target \(--target\)"):
        regard.data.check(corpus / "train.de")
    with pytest.raises(regard.UserError, match="test_target: give the sources of the test set, too"):
        regard.data.check(corpus / "train.de", corpus / "train.en", test_target=corpus / "test.en")
    with pytest.raises(regard.UserError, match=r"nothing\.de"):
        regard.data.check("nothing.de", "nothing.en")


def test_public_names_are_listed_before_they_are_imported():
    assert {"check", "load", "Batch"} <= set(dir(regard.data))
    assert {"train", "evaluate", "compare", "Experiment", "Callback", "data", "nn", "testing"} <= set(dir(regard))
    with pytest.raises(AttributeError, match=r"module 'regard.data' has no attribute 'lode'"):
        _ = regard.data.lode
