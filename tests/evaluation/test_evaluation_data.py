"""Texts that a user gives: lists and files, one reference or several, and what is refused."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.config import loading, recipes
from regard.config.schema import Experiment
from regard.errors import UserError
from regard.evaluation.evaluation_data import EvaluationData
from regard.tasks import SPLITS

of_texts = EvaluationData.of_texts


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    """A new file with these lines."""

    def write(name: str, *lines: str) -> Path:
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return tmp_path / name

    return write


@pytest.mark.parametrize("split", SPLITS)
def test_the_pairs_of_a_split(tiny: Callable[..., Experiment], split: Any):
    experiment = tiny()
    data = EvaluationData.of_split(experiment.data, split)
    assert list(data.pairs) == list(experiment.task.dataset.pairs(split))
    assert (data.split, data.source, data.section) == (split, None, experiment.data)
    assert data.target_origin(4) == data.source_origin(4) == f"sentence 5 of the {split} split"


def test_the_further_targets_of_a_task_are_references(dictionary: Path):
    data = loading.load_experiment("g2p", [f"data.file={dictionary}"]).data
    splits = [EvaluationData.of_split(data, split) for split in ("validation", "test")]
    assert {len(known) for split in splits for known in split.references} <= {1, 2}
    for split in splits:
        assert split.references == [(pair.target, *pair.other_targets) for pair in split.pairs]


@pytest.mark.parametrize("name", [name for name in recipes.recipe_names() if not name.startswith(("multi30k", "g2p"))])
def test_tasks_that_are_scored_by_bleu_have_one_reference(name: str):
    """So that BLEU and chrF, which use all references, are the same as when they used the first alone."""
    task = loading.load_experiment(name, ["data.train=1", "data.validation=1", "data.test=50"]).task
    assert not any(pair.other_targets for pair in task.dataset.pairs("test")) or "bleu" not in task.metrics


def test_lists_of_texts():
    data = of_texts(("a", " b "), iter(["x", ""]))
    assert [(pair.source, pair.target, pair.alignment) for pair in data.pairs] == [
        ("a", "x", frozenset()),
        (" b ", "", frozenset()),
    ]
    assert data.references == [("x",), ("",)]
    assert (data.split, data.section, data.source) == (None, None, "given texts")
    assert (data.source_origin(1), data.target_origin(1)) == ("source[1]", "references[1]")


def test_several_references_for_each_text_in_any_number():
    data = of_texts(["a", "b"], [["x", "y", "z"], ("w",)])
    assert data.references == [("x", "y", "z"), ("w",)]
    assert data.target_origin(1) == "references[1][0]"


def test_files_with_one_text_per_line(file: Callable[..., Path]):
    source, one, two = file("a.de", "a", "", " b "), file("a.en", "x", "", "z"), file("b.en", "1", "2", "3")
    for given in (one, str(one), [one]):
        assert of_texts(str(source), given).references == [("x",), ("",), ("z",)]
    data = of_texts(source, [one, two])
    assert data.references == [("x", "1"), ("", "2"), ("z", "3")]
    assert [pair.source for pair in data.pairs] == ["a", "", " b "]
    assert data.source == str(source)
    assert (data.source_origin(2), data.target_origin(2)) == (f"{source}, line 3", f"{one}, line 3")
    mixed = of_texts(["1", "2", "3"], one)
    assert (mixed.source_origin(0), mixed.target_origin(0)) == ("source[0]", f"{one}, line 1")


def test_a_gzip_file_and_windows_line_ends(tmp_path: Path):
    (tmp_path / "a.gz").write_bytes(gzip.compress("\ufeffä\r\nb".encode()))
    assert [pair.source for pair in of_texts(tmp_path / "a.gz", ["1", "2"]).pairs] == ["ä", "b"]


@pytest.mark.parametrize(
    ("source", "references", "message"),
    [
        (["a", "b"], ["x"], "source has 2 texts and references has 1 text: they should be equal"),
        (["a"], [["x"], ["y"]], "source has 1 text and references has 2 texts: they should be equal"),
        ([], [], "source: has no text; at least one is needed"),
        ("no file", ["x"], "source='no file': there is no such file; a str is the path of a text file, so give texts"),
        ("a\0b" * 999, ["x"], "source='a\\x00b"),
        (["a"], "x", "references='x': there is no such file; a str is the path of a text file, so give texts as a"),
        (5, ["x"], "source should be a list of texts or the path of a text file, not 5"),
        (b"abc", ["x"], "source should be a list of texts or the path of a text file, not b'abc'"),
        ({"a": "b"}, ["x"], "source should be a list of texts"),
        ({"a", "b"}, ["x", "y"], "source should be a list of texts"),
        (["a"], None, "references should be a list of texts"),
        (["a", 5], ["x", "y"], "source[1] is 5, not a text"),
        (["a", "b"], [["x"], ["y", None]], "references[1][1] is None, not a text"),
        (["a", "b"], [["x"], []], "references[1] is empty; each text needs at least one reference"),
        (["a", "b"], [["x"], "y"], "references[1] is 'y'; give texts, lists of texts or Path objects, not a mixture"),
        (["a", "b"], ["x", 7], "references[0] is 'x'; give texts, lists of texts or Path objects, not a mixture"),
        (["a"], [7], "references[0] should be a list of texts"),
        (["a\ud800"], ["x"], "source[0]: character 2, '\\ud800', is not Unicode"),
        (["a"], [["x", "\ud800"]], "references[0][1]: character 1, '\\ud800', is not Unicode"),
    ],
)
def test_wrong_texts_are_refused(source: Any, references: Any, message: str):
    with pytest.raises(UserError) as caught:
        of_texts(source, references)
    assert str(caught.value).startswith(message)


def test_different_numbers_of_lines_are_refused_with_both(file: Callable[..., Path]):
    two, three = file("two", "1", "2"), file("three", "1", "2", "3")
    with pytest.raises(UserError, match=r"two has 2 lines and .*three has 3 lines: they should be equal$"):
        of_texts(two, [two, three])
    with pytest.raises(UserError, match=r"^source has 3 texts and .*two has 2 lines"):
        of_texts(["a", "b", "c"], two)


def test_paths_that_are_given_as_str_in_a_list_are_explained(file: Callable[..., Path]):
    source, one, two = file("a.de", "a", "b", "c"), file("a.en", "x", "y", "z"), file("b.en", "1", "2", "3")
    with pytest.raises(UserError, match=r"references has 2 texts: .*; for files of references, give Path objects$"):
        of_texts(source, [str(one), str(two)])


def test_files_that_are_no_text_are_refused(file: Callable[..., Path], tmp_path: Path):
    good, empty = file("good", "a", "b"), file("empty")
    with pytest.raises(UserError, match=r"nowhere: cannot be read: No such file"):
        of_texts(tmp_path / "nowhere", good)
    with pytest.raises(UserError, match=f"^{tmp_path}: "):
        of_texts(tmp_path, good)
    with pytest.raises(UserError, match="empty: has no text; at least one is needed"):
        of_texts(empty, empty)
    (tmp_path / "binary").write_bytes(b"a\n\xff\x00\n")
    with pytest.raises(UserError, match=r"binary, line 2: byte 1 \(0xFF\) is not UTF-8; save the file as UTF-8"):
        of_texts(good, tmp_path / "binary")
    (tmp_path / "damaged.gz").write_bytes(b"a\nb\n")
    with pytest.raises(UserError, match=r"damaged\.gz: is damaged, truncated or not a gzip file"):
        of_texts(good, tmp_path / "damaged.gz")
