"""`regard train RUN`, `--epochs`, `--from` and `regard average`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.runs import Run

CONSTANT = ("--set", "training.rate={kind: constant, peak: 0.01}", "--set", "training.keep_checkpoints=3")


@pytest.fixture
def run(tiny_file: Path, tmp_path: Path, brief_settings: tuple[str, ...], regard: Any) -> Path:
    """A finished run of 12 steps."""
    settings = [each for setting in brief_settings for each in ("--set", setting)]
    answer = regard("train", tiny_file, "--out", tmp_path / "run", *settings, *CONSTANT)
    assert answer.code == 0, answer.err
    return tmp_path / "run"


def test_a_run_directory_continues_with_more_epochs(run: Path, regard: Any):
    assert "all epochs done), 12 steps" in regard("train", run).out
    answer = regard("train", run, "--epochs", 4, "--set", "training.save_every=1")
    assert answer.code == 0
    assert "continuing after step 12" in answer.err
    assert "all epochs done), 16 steps" in answer.out
    training = Run(run).experiment.training
    assert (training.epochs, training.save_every) == (4, 1)


def test_a_limit_of_steps_is_raised(run: Path, tmp_path: Path, regard: Any):
    command = ("train", run, "--out", tmp_path / "other", "--max-steps")
    assert "all 6 steps done), 6 steps" in regard(*command, 6).out
    assert "all 10 steps done), 10 steps" in regard(*command, 10).out


def test_a_limit_of_steps_that_ends_a_run_may_not_come_later(run: Path, regard: Any):
    answer = regard("train", run, "--max-steps", 6)
    assert answer.code == 2
    assert "regard:   training.max_steps = None, not 6 (it may only grow)" in answer.err


def test_the_name_of_a_recipe_is_that_recipe(run: Path, regard: Any, monkeypatch: pytest.MonkeyPatch):
    run.rename(run.with_name("case"))
    monkeypatch.chdir(run.parent)
    assert "training is" not in regard("train", "case", "--out", "other", "--dry-run", "--set", "data.train=200").err
    assert "12 steps" in regard("train", "./case").out
    assert os.listdir() == ["case"]


def test_a_run_is_fine_tuned(run: Path, regard: Any, tmp_path: Path):
    (tmp_path / "new.yaml").write_text("training: {epochs: 1}\n")
    command = ("train", tmp_path / "new.yaml", "--from", run, "--out", tmp_path / "tuned")
    answer = regard(*command)
    assert answer.code == 0, answer.err
    assert f"starting with the weights of {run}" in answer.err
    assert Run(tmp_path / "tuned").progress.step == 4
    assert "4 steps" in regard(*command).out, "the same command reports that it is finished"
    other = (*command[:-1], tmp_path / "other")
    assert regard(*other, "--reuse-vocabulary", "no").code == 0
    assert Run(tmp_path / "other").metadata["from"]["reuse_vocabulary"] is False
    assert "name it (--from RUN" in regard("train", run, "--reuse-vocabulary", "no").err
    refused = regard(*other[:-1], tmp_path / "third", "--set", "model.encoder.embedding=9")
    assert refused.code == 2
    assert "regard:   model.encoder.embedding = 16, not 9" in refused.err


def test_kept_weights_are_averaged(run: Path, regard: Any, tmp_path: Path):
    answer = regard("average", run, "--last", 2, "--out", tmp_path / "average")
    assert answer.out == f"{tmp_path}/average: the mean of the weights after steps 8, 12\n"
    assert regard("translate", tmp_path / "average", "abc").code == 0
    assert json.loads(regard("evaluate", tmp_path / "average", "--json").out)["run"].endswith("average")
    refused = regard("average", run, "--last", 5, "--out", tmp_path / "other")
    assert refused.code == 2
    assert "training.keep_checkpoints=5 or more, or average fewer (--last 3)" in refused.err


PLUGIN = """
from regard.nn import DotAttention

class Halved(DotAttention):
    def score(self, query, keys):
        return super().score(query, keys) / 2
"""


def test_a_run_with_a_plug_in_continues_if_it_is_trusted(
    tiny_file: Path,
    tmp_path: Path,
    regard: Any,
    fresh_plugins: None,
    forget_plugins: Callable[[], None],
    brief_settings: tuple[str, ...],
):
    (tmp_path / "halved.py").write_text(PLUGIN)
    settings = [each for setting in brief_settings for each in ("--set", setting)]
    kind = ("--set", f"model.attention.kind={tmp_path / 'halved.py'}:Halved")
    assert regard("train", tiny_file, "--out", tmp_path / "run", *settings, *CONSTANT, *kind).code == 0
    forget_plugins()
    refused = regard("train", tmp_path / "run", "--epochs", 4)
    assert refused.code == 2
    assert "--trust-code" in refused.err
    forget_plugins()
    answer = regard("train", tmp_path / "run", "--epochs", 4, "--trust-code")
    assert answer.code == 0, answer.err
    forget_plugins()
    out = tmp_path / "average"
    assert regard("average", tmp_path / "run", "--last", 2, "--out", out, "--trust-code").code == 0
