"""Dry runs: what a training would need; nothing is written."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.config.schema import Experiment
from regard.data import Batches, Codec
from regard.errors import UserError
from regard.training.dry_run import DryRun
from regard.training.train_run import count_parameters

Make = Callable[..., Experiment]


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def contents(folder: Path) -> dict[str, bytes | None]:
    paths = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in paths}


def test_the_sizes_are_those_of_the_training(brief: Make, tmp_path: Path, train_in: Any):
    found = regard.dry_run(brief(), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert contents(tmp_path) == {"temporary": None}
    experiment = brief()
    pairs = experiment.task.dataset.splits()
    codec = Codec.build(experiment.task.learn_tokenization(pairs["train"]), pairs["train"])
    examples = codec.examples(pairs["train"])
    train = found.splits["train"]
    assert train.sentences == 120
    assert train.source.tokens == sum(len(example.source) for example in examples)
    assert train.target.longest == max(len(example.target) for example in examples)
    assert found.vocabularies == {"source": len(codec.source_vocabulary), "target": len(codec.target_vocabulary)}
    assert found.batches_per_epoch == Batches(examples, batch_tokens=300, seed=1).per_epoch == 4
    assert (found.steps_done, found.steps, found.validations) == (0, 12, 3)
    assert (found.device, found.precision) == ("cpu", "float32")
    assert found.seconds == pytest.approx(12 / found.steps_per_second + 3 * found.validation_seconds)
    callback = train_in(brief())
    assert sum(found.parameters.values()) == count_parameters(experiment, codec)
    assert callback.train_begins == [(0, found.steps)]


def test_a_dry_run_of_a_run_counts_what_is_left_and_changes_nothing(brief: Make, train_in: Any, tmp_path: Path):
    settings = ("training.rate={kind: constant, peak: 0.01}", "training.validate_every=5")
    train_in(brief(*settings), stop_after=6)
    before = contents(tmp_path)
    found = regard.dry_run(tmp_path / "run", overrides={"training.epochs": 4})
    assert (found.steps_done, found.steps, found.validations) == (6, 16, 3), "after steps 10, 15 and 16"
    with pytest.raises(UserError, match=rf"^{tmp_path}/run: .*which may not change"):
        regard.dry_run(tmp_path / "run", overrides={"training.seed": 4})
    assert contents(tmp_path) == before


def test_a_finished_run_has_nothing_to_do(trained_brief: Any):
    with pytest.raises(UserError, match="this run is finished; there is nothing to train"):
        regard.dry_run(trained_brief())


def test_a_dry_run_of_fine_tuning(trained_brief: Any, tmp_path: Path):
    found = regard.dry_run({"data": {"train": 100}}, tmp_path / "run", from_run=trained_brief())
    assert (found.splits["train"].sentences, found.unknown_tokens) == (100, 0.0)


def test_data_that_has_changed_is_reported_with_the_name_of_the_run(corpus: Path, tmp_path: Path, new_callback: Any):
    for split in ("train", "validation"):
        for language in ("de", "en"):
            (tmp_path / f"{split}.{language}").write_text((corpus / f"{split}.{language}").read_text())
    data = {"task": "files", "train": tmp_path / "train", "validation": tmp_path / "validation"}
    settings = {"data": {**data, "source": "de", "target": "en", "text": {"unit": "words"}}}
    regard.train(settings, tmp_path / "run", callbacks=[new_callback(1)], progress=False)
    (tmp_path / "train.de").write_text((tmp_path / "train.de").read_text().replace("ein", "kein"))
    with pytest.raises(UserError, match=rf"^{tmp_path}/run: the training data has changed"):
        regard.dry_run(tmp_path / "run")


def test_the_command_prints_tables_or_json(tiny_file: Path, tmp_path: Path, regard: Any):
    arguments = ("train", tiny_file, "--out", tmp_path / "run", "--set", "data.train=100", "--dry-run")
    answer = regard(*arguments)
    assert answer.code == 0
    assert re.search(r"^train +100 ", answer.out, re.M)
    assert re.search(r"^time: about \d+ s: an estimate from ", answer.out, re.M)
    values = json.loads(regard(*arguments, "--json").out)
    assert values.keys() == DryRun.__annotations__.keys()
    assert values["splits"]["train"]["sentences"] == 100
    assert not (tmp_path / "run").exists()
    assert "--dry-run measures one process" in regard(*arguments, "--processes", 2).err
    assert "--json: this is for --dry-run" in regard(*arguments[:-1], "--json").err


@pytest.mark.unix
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing(
    tmp_path: Path, temporary: Path, start_regard: Callable[..., Any], number: signal.Signals
):
    process: subprocess.Popen[bytes] = start_regard(
        *("train", "reverse", "--out", tmp_path / "run", "--set", "data.train=1000000", "--dry-run"),
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    while not any(temporary.glob("regard-*/.run.*/new")):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert b"Traceback" not in err
    assert contents(tmp_path) == {"temporary": None}
