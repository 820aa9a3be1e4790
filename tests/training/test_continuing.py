"""Runs that are trained further: more epochs, and other settings that change nothing of what was learned."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import regard
from regard import files
from regard.config.schema import Experiment
from regard.errors import UserError
from regard.runs import Run
from regard.runs.changes import current_schedule
from regard.training.changed_settings import MAY_CHANGE
from regard.training.run_schedule import RunSchedule
from regard.training.train_run import train_run

Make = Callable[..., Experiment]
Same = Callable[..., None]
NO_WARMUP = "training.rate={kind: inverse-square-root, peak: 0.01, warmup: 0}"
SCHEDULES = {
    "constant": "training.rate={kind: constant, peak: 0.01}",
    "inverse-square-root": NO_WARMUP,
    "plateau": "training.rate={kind: plateau, peak: 0.05, patience: 1}",
}


@pytest.mark.parametrize("stop_after", [None, 5], ids=["finished", "unfinished"])
@pytest.mark.parametrize("kind", SCHEDULES)
def test_more_epochs_are_bit_identical_to_the_larger_number_from_the_start(
    brief: Make,
    trained_brief: Any,
    train_in: Any,
    tmp_path: Path,
    same_training: Same,
    kind: str,
    stop_after: int | None,
):
    train_in(brief(SCHEDULES[kind]), stop_after=stop_after)
    longer = (SCHEDULES[kind], "training.epochs=5")
    continued = train_in(brief(*longer))
    assert continued.train_begins == [(stop_after or 12, 20)]
    assert continued.progress.finished == "all epochs done"
    same_training(tmp_path / "run", trained_brief(*longer), same_start=False)
    assert Run(tmp_path / "run").experiment.training.epochs == 5
    assert Run(tmp_path / "run").metadata["started_with"] == {"training.epochs": "3"}


def test_warm_up_keeps_its_length(brief: Make, train_in: Any, tmp_path: Path):
    train_in(brief("training.rate={kind: inverse-square-root, peak: 0.01, warmup: 0.5}"))
    rows = train_in(
        brief("training.rate={kind: inverse-square-root, peak: 0.01, warmup: 0.5}", "training.epochs=5")
    ).rows
    assert rows[-1]["rate"] == pytest.approx(0.01 * (6 / 20) ** 0.5)


def test_more_epochs_of_a_cycle_are_refused_and_nothing_is_written(brief: Make, train_in: Any, tmp_path: Path):
    train_in(brief())
    before = {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir()}
    with pytest.raises(UserError, match=r"\(one-cycle\) depends on the number of all steps, .*\(--from .*run\)"):
        train_in(brief("training.epochs=5"))
    assert {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir()} == before


@pytest.mark.parametrize("stop_after", [None, 5], ids=["finished", "unfinished"])
def test_a_new_schedule_counts_the_additional_steps(brief: Make, train_in: Any, tmp_path: Path, stop_after: int | None):
    """A second cycle, from the last checkpoint on; and a third one."""
    train_in(brief(), stop_after=stop_after)
    begin = stop_after or 12
    second = train_in(
        brief("training.epochs=5", "training.rate={kind: one-cycle, peak: 0.02, warmup: 0.5}"), stop_after=3
    )
    third = train_in(brief("training.epochs=5", "training.rate={kind: one-cycle, peak: 0.02, warmup: 0.5}"))
    assert third.train_begins == [(begin + 3, 20)]
    run = Run(tmp_path / "run")
    assert current_schedule(run).step == begin
    schedule = RunSchedule.of_run(run, 4)
    rates = [schedule(step, second.progress.validation_losses) for step in range(begin, 20)]
    assert max(rates) == pytest.approx(0.02)
    assert rates.index(max(rates)) + 1 == round((20 - begin) / 2)
    assert third.rows[-1]["rate"] == rates[-1] < 0.002
    assert [record["epochs"] for record in run.metadata["schedules"]] == [3, 5]


def test_a_new_schedule_of_the_same_length_is_refused(brief: Make, train_in: Any):
    train_in(brief(), stop_after=5)
    with pytest.raises(UserError, match=r"  training\.rate\.peak = 0\.03, not 0\.02\n"):
        train_in(brief("training.rate.peak=0.02"))


def test_the_best_weights_remain_until_a_validation_is_better(
    brief: Make, train_in: Any, tmp_path: Path, read_tensors: Any
):
    first = train_in(brief("training.rate={kind: constant, peak: 0.01}", "training.patience=5"))
    before = read_tensors(tmp_path / "run" / "model.safetensors")[0]
    # A rate of 100 destroys what was learned.
    again = train_in(brief("training.rate={kind: constant, peak: 100.0}", "training.patience=5", "training.epochs=4"))
    assert again.best == [False]
    assert again.progress.best_step == first.progress.best_step
    after = read_tensors(tmp_path / "run" / "model.safetensors")[0]
    assert all(before[name].equal(after[name]) for name in before)


def test_more_patience_continues_a_training_that_stopped_early(brief: Make, train_in: Any):
    settings = ("training.rate={kind: constant, peak: 5.0}", "training.validate_every=1", "training.patience=1")
    stopped = train_in(brief(*settings))
    assert stopped.progress.finished == "no better loss in 1 validations"
    assert stopped.progress.step < 12
    same = train_in(brief(*settings, "training.epochs=4"))  # which changes nothing
    assert same.progress == stopped.progress
    continued = train_in(brief(*settings[:2], "training.epochs=4"))
    assert (continued.progress.step, continued.progress.finished) == (16, "all epochs done")


def test_a_limit_of_steps_ends_the_training_and_the_schedule(brief: Make, train_in: Any, tmp_path: Path):
    limited = train_in(brief("training.max_steps=6"))
    assert limited.train_begins == [(0, 6)]
    assert (limited.progress.step, limited.progress.finished) == (6, "all 6 steps done")
    assert [row["step"] for row in limited.rows] == [4, 6]
    assert limited.rows[-1]["rate"] < 0.01, "the cycle ends with the training"
    assert train_in(brief("training.max_steps=600"), name="other").train_begins == [(0, 12)]


def test_a_larger_limit_of_steps_continues(
    brief: Make, trained_brief: Any, train_in: Any, tmp_path: Path, same_training: Same
):
    train_in(brief(NO_WARMUP, "training.max_steps=8"))
    train_in(brief(NO_WARMUP))
    same_training(tmp_path / "run", trained_brief(NO_WARMUP), same_start=False)


# --- Settings that may change ----------------------------------------------------------------------------


CHANGES = {
    "description": "other",
    "training.device": "cpu",
    "training.threads": 2,
    "training.save_every": 0.5,
    "training.keep_checkpoints": 2,
    "decoding.batch_size": 3,
    "training.patience": 7,
}


def test_settings_that_change_nothing_learned_may_change_and_are_recorded(
    brief: Make, trained_brief: Any, train_in: Any, tmp_path: Path, read_tensors: Any
):
    train_in(brief("training.patience=5"), stop_after=5)
    overrides = [f"{key}={value}" for key, value in CHANGES.items()]
    train_in(brief(*overrides))
    run = Run(tmp_path / "run")
    settings = run.experiment.diff(trained_brief() / "config.yaml")
    assert {key: own for key, (own, _) in settings.items()} == CHANGES
    assert set(run.metadata["started_with"]) == set(CHANGES)
    weights, expected = (read_tensors(path / "model.safetensors")[0] for path in (run.path, trained_brief()))
    assert all(weights[name].allclose(expected[name], atol=1e-4) for name in expected), (
        "two threads add up in another order"
    )
    assert train_in(brief(*overrides)).train_begins == []


def test_all_settings_that_may_not_change_are_listed(brief: Make, train_in: Any, tmp_path: Path):
    train_in(brief("training.patience=5"), stop_after=1)
    with pytest.raises(UserError) as failure:
        train_in(brief("training.seed=2", "training.epochs=2", "training.patience=3", "training.threads=2"))
    assert str(failure.value).splitlines()[1:-1] == [
        "  training.seed = 1, not 2",
        "  training.epochs = 3, not 2 (it may only grow)",
        "  training.patience = 5, not 3 (it may only grow)",
    ]
    assert str(failure.value).endswith(f"(--from {tmp_path / 'run'} --out …)")


def test_weights_of_before_and_after_a_change_belong_to_the_run(brief: Make, train_in: Any, tmp_path: Path):
    """`model.safetensors` is older than the change, and may remain so."""
    train_in(brief(SCHEDULES["constant"]))
    train_in(brief(SCHEDULES["constant"], "training.epochs=5"), stop_after=1)
    assert regard.load(tmp_path / "run").translate(["abc"])
    config = tmp_path / "run" / "config.yaml"
    config.write_text(config.read_text().replace("max_length: 5", "max_length: 4"))
    with pytest.raises(UserError, match="these weights belong to a run with other settings"):
        regard.load(tmp_path / "run")


def test_settings_change_more_than_once(brief: Make, train_in: Any, tmp_path: Path):
    for epochs in (3, 4, 5):
        train_in(brief(SCHEDULES["constant"], f"training.epochs={epochs}"))
    assert Run(tmp_path / "run").metadata["started_with"] == {"training.epochs": "3"}
    assert regard.load(tmp_path / "run").translate(["abc"])


def test_the_test_set_is_scored_again(corpus: Path, tmp_path: Path):
    splits = {f"data.{split}": str(corpus / split) for split in ("train", "validation", "test")}
    sizes = {"model.encoder.size": 8, "model.decoder.size": 16, "training.batch_tokens": 500, "training.epochs": 1}
    data = {"data.task": "files", **splits, "data.source": "de", "data.target": "en", "data.text": {"unit": "words"}}
    run = regard.train({**data, **sizes, "training.rate.kind": "constant"}, tmp_path / "run", progress=False)
    before = (run.path / "scores.json").read_text()
    stopped = regard.train(run, overrides={"training.epochs": 3}, callbacks=[StopAtOnce()], progress=False)
    assert not stopped.progress.finished
    assert not (run.path / "scores.json").exists(), "the scores of the former end"
    assert regard.train(run, progress=False).progress.finished
    assert json.loads((run.path / "scores.json").read_text()) != json.loads(before)


class StopAtOnce(regard.Callback):
    def should_stop(self) -> bool:
        return True


class Crash(BaseException):
    """Simulates the end of the process."""


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("same", [True, False], ids=["the same command", "the former command"])
def test_a_crash_while_settings_change_leaves_a_consistent_run(
    brief: Make, trained_brief: Any, train_in: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    same_training: Same, at: int, same: bool,
):  # fmt: skip
    """Before each of the files that are written: state.safetensors, run.json, config.yaml."""
    new = ("training.epochs=5", "training.rate={kind: constant, peak: 0.02}")
    train_in(brief(), name="whole")
    train_in(brief(*new), name="whole")
    train_in(brief())
    count = 0

    def crash(path: Path, content: bytes) -> None:
        nonlocal count
        if count == at:
            raise Crash
        count += 1
        write(path, content)

    write = files.write_atomic
    with monkeypatch.context() as patch:
        patch.setattr(files, "write_atomic", crash)
        with pytest.raises(Crash):
            train_in(brief(*new))
    again = train_in(brief(*new) if same else brief())
    assert again.progress.finished == "all epochs done"
    assert again.progress.step == (20 if same else 12)
    if same:
        same_training(tmp_path / "run", tmp_path / "whole")
    else:
        assert again.losses == []


@pytest.mark.parametrize(
    "damage", [{"started_with": [1]}, {"started_with": {"a": 1}}, {"schedules": {}}, {"schedules": [{"step": -1}]}]
)
def test_damaged_records_are_reported(
    brief: Make, trained_brief: Any, tmp_path: Path, new_callback: Any, damage: dict[str, Any]
):
    run = tmp_path / "run"
    shutil.copytree(trained_brief(SCHEDULES["constant"]), run)
    (run / "run.json").write_text(json.dumps({**json.loads((run / "run.json").read_text()), **damage}))
    with pytest.raises(UserError, match=r"run\.json: this file is damaged"):
        train_run(brief(SCHEDULES["constant"], "training.epochs=5"), run, new_callback())


def test_the_table_has_settings_only(brief: Make):
    from regard.config.schema import flatten_settings

    assert MAY_CHANGE.keys() - {"training.log"} <= flatten_settings(brief().model_dump()).keys()
