"""The runs of a server, and its limits."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.inference.translator import load
from regard.serving.limits import Limits
from regard.serving.registry import example_sources, open_runs
from regard.training.train_run import train_run


def test_names_are_the_shortest_paths_that_differ(trained: Path, tmp_path: Path):
    paths = [tmp_path / name for name in ("one/best", "two/best", "two/last")]
    for path in paths:
        shutil.copytree(trained, path)
    assert [run.name for run in open_runs(paths[1:])] == ["best", "last"]
    assert [run.name for run in open_runs(paths)] == ["one/best", "two/best", "two/last"]
    assert [run.name for run in open_runs([paths[0] / ".." / "best"])] == ["best"]
    shutil.copytree(trained, tmp_path / "best")
    assert [run.name for run in open_runs([tmp_path / "best", paths[0]])] == [f"{tmp_path.name}/best", "one/best"]


def test_missing_invalid_and_repeated_runs_are_refused(trained: Path, tmp_path: Path):
    with pytest.raises(UserError, match="there is no such run directory"):
        open_runs([trained, tmp_path / "nowhere"])
    with pytest.raises(UserError, match="/: this is not a run directory"):
        open_runs([Path("/")])
    (tmp_path / "link").symlink_to(trained)
    with pytest.raises(UserError, match="is given twice"):
        open_runs([trained, tmp_path / "link"])


def test_examples_are_test_sentences_from_short_to_long(trained: Path):
    translator = load(trained)
    examples = example_sources(translator)
    test = [pair.source for pair in translator.experiment.task.dataset.pairs("test")]
    assert 3 <= len(examples) <= 5
    assert set(examples) <= set(test)
    assert list(examples) == sorted(examples, key=len)


def test_without_its_test_set_a_run_has_no_examples(corpus: Path, tmp_path: Path, new_callback: Callable[..., object]):
    from regard.config import loading

    folder = tmp_path / "corpus"
    shutil.copytree(corpus, folder)
    text = "data: {task: files, source: de, target: en, train: train, validation: validation, test: test}\n"
    (folder / "mine.yaml").write_text(text)
    settings = ["training.epochs=1", "training.validate_every=1", "data.text.unit=words"]
    train_run(
        loading.load_experiment(str(folder / "mine.yaml"), settings), tmp_path / "run", new_callback(stop_after=1)
    )
    assert len(example_sources(load(tmp_path / "run"))) == 5
    for name in ("test.de", "test.en"):
        (folder / name).unlink()
    (run,) = open_runs([tmp_path / "run"])
    assert run.examples == ()
    assert run.to_dict()["task"] == "files"


@pytest.mark.parametrize("name", ["characters", "texts", "beam", "waiting", "seconds", "memory", "batch"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_a_limit_must_be_a_number_above_zero(name: str, value: float):
    with pytest.raises(UserError, match=f"{name} {value}: a limit must be a number above 0"):
        Limits(**{name: value})
