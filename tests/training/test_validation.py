"""Validation: metrics of translations, the best weights by any of them, subsets, and several processes."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.config.schema import Experiment
from regard.data import Example
from regard.errors import UserError
from regard.evaluation.metrics import METRICS
from regard.inference.translator import Translator
from regard.process_group import ProcessGroup
from regard.runs import Run, TrainingProgress
from regard.training.train_run import train_run
from regard.training.trainer import Trainer
from regard.training.validation import Validation, spread_evenly

Make = Callable[..., Experiment]
TrainIn = Callable[..., Any]
NewTrainer = Callable[..., Trainer]


@pytest.fixture
def translation(corpus: Path) -> Callable[..., Experiment]:
    """A small experiment on parallel text, with settings changed."""

    def make(**overrides: Any) -> Experiment:
        files = {split: str(corpus / split) for split in ("train", "validation")}
        own = {"encoder": {"embedding": 16, "size": 16}, "decoder": {"embedding": 16, "size": 32}}
        settings = {
            "data": {"task": "files", "source": "de", "target": "en", "text": {"size": 90}, **files},
            "model": own,
            "training": {"epochs": 3, "batch_tokens": 1000, "rate": {"peak": 0.02}},
        }
        return Experiment.load(settings, overrides)

    return make


# --- Metrics ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_metrics_are_those_of_an_evaluation_of_the_saved_weights(translation: Any, train_in: TrainIn, tmp_path):
    callback = train_in(translation(**{"training.best": "chrf", "training.validate_every": 5}))
    row = next(row for row in callback.rows if row["step"] == callback.progress.best_step)
    scores = regard.evaluate(regard.load(tmp_path / "run"), split="validation", progress=False).scores
    assert list(scores) == ["exact_match", "bleu", "bleu_lc", "chrf"]
    assert {name: row[f"validation_{name}"] for name in scores} == pytest.approx(scores)
    assert (
        row["validation_chrf"] == max(each["validation_chrf"] for each in callback.rows) == callback.progress.best_score
    )
    assert row["validation_chrf"] > 5, "it is not only noise"


def test_errors_of_a_task_are_among_the_metrics(dictionary: Path, train_in: TrainIn):
    settings = {"data": {"task": "g2p", "file": str(dictionary)}, "training": {"epochs": 1}}
    (row,) = train_in(Experiment.load(settings)).rows
    assert row["validation_word_error"] == pytest.approx(1 - row["validation_exact_match"])
    assert row["validation_phoneme_error"] > 0


def test_translation_is_in_the_precision_of_the_training(brief: Make, train_in: TrainIn, monkeypatch):
    precisions, original = [], Translator.translate

    def translate(self: Translator, *arguments: Any) -> Any:
        assert not self.model.training
        precisions.append(torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else torch.float32)
        return original(self, *arguments)

    monkeypatch.setattr(Translator, "translate", translate)
    for precision in ("bfloat16", "float32"):
        train_in(brief(f"training.precision={precision}"), stop_after=4, name=precision)
    assert precisions == [torch.bfloat16, torch.float32]


def test_validations_do_not_change_what_is_learned(brief: Make, train_in: TrainIn, tmp_path: Path, read_tensors: Any):
    train_in(brief("training.validate_every=1"), name="often")
    train_in(brief("training.validate_every=12"), name="once")
    often, once = (read_tensors(tmp_path / name / "state.safetensors")[0] for name in ("often", "once"))
    assert all(often[name].equal(once[name]) for name in once)


# --- The best weights ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "scores", "best", "steps"),
    [
        ("exact_match", [0.5, 0.25, 0.75, 0.75, 0.5, 0.0], 6, 10),
        ("word_error", [0.5, 0.75, 0.25, 0.25, 0.5, 0.0], 6, 10),
        ("word_error", [0.5, 0.25, 0.5, 0.125, 0.5, 0.0], 12, 12),
    ],
)
def test_the_best_validation_and_patience_go_by_the_chosen_metric(
    new_trainer: NewTrainer, brief: Make, dictionary: Path, monkeypatch, metric: str, scores: list[float], best, steps
):
    data = (f"data={{task: g2p, file: {dictionary}}}", "training.epochs=1", "training.batch_tokens=60")
    own = (f"training.best={metric}", "training.validate_every=2", "training.patience=2", "training.max_steps=12")
    trainer = new_trainer(brief(*(data if metric == "word_error" else ()), *own))
    upcoming = iter(scores)
    monkeypatch.setattr(trainer.validation, "scores", lambda: {metric: next(upcoming)})
    trainer.run()
    progress = trainer.progress
    assert (progress.best_step, progress.step) == (best, steps)
    assert progress.best_score == scores[best // 2 - 1]
    assert progress.finished == (
        "all 12 steps done" if steps == 12 else f"no better {METRICS[metric].title} in 2 validations"
    )
    with trainer.run_directory.open_tensors("model.safetensors") as file:
        assert file.metadata["step"] == best


def test_the_losses_of_a_schedule_stay_losses(brief: Make, train_in: TrainIn):
    callback = train_in(brief("training.best=exact_match"))
    assert callback.progress.validation_losses == [row["validation_loss"] for row in callback.rows]


def test_a_training_by_a_metric_resumes_bit_identically(
    brief: Make, train_in: TrainIn, tmp_path: Path, same_training: Callable[[Path, Path], None]
):
    settings = ("training.best=exact_match", "training.validate_every=2", "training.validation_sentences=7")
    train_in(brief(*settings), name="whole")
    train_in(brief(*settings), stop_after=5)
    train_in(brief(*settings))
    same_training(tmp_path / "run", tmp_path / "whole")


@pytest.mark.parametrize("name", ["bleu", "exact", "validation_loss"])
def test_a_metric_that_the_task_does_not_have_is_refused(brief: Make, name: str):
    with pytest.raises(UserError, match=rf"training\.best: '{name}' is not a metric of this task; .*loss, exact_match"):
        brief(f"training.best={name}")


def test_a_checkpoint_without_a_best_score_was_judged_by_its_losses():
    old = TrainingProgress.model_validate({"step": 8, "validation_losses": [3.0, 1.5, 2.0, 1.5], "best_step": 4})
    assert (old.best_score, old.validations_since_best) == (1.5, 2)
    assert TrainingProgress().best_score is None


# --- Which sentences -------------------------------------------------------------------------------------


@given(st.integers(1, 300), st.none() | st.integers(1, 300))
def test_selected_sentences_are_spread_evenly(count: int, wanted: int | None):
    selected = spread_evenly(count, wanted)
    chosen = [index for index, each in enumerate(selected) if each]
    assert len(selected) == count
    assert len(chosen) == min(count, wanted or count)
    gaps = [after - before for before, after in zip([-1, *chosen], chosen, strict=False)]
    assert {count // len(chosen), math.ceil(count / len(chosen))} >= set(gaps)


def test_a_part_of_the_validation_split_is_translated(brief: Make, new_trainer: NewTrainer):
    trainer = new_trainer(brief("training.validation_sentences=7"))
    pairs = trainer.run_directory.experiment.task.dataset.splits()["validation"]
    expected = [pair for pair, selected in zip(pairs, spread_evenly(20, 7), strict=True) if selected]
    assert [source.text for source in trainer.validation.sources] == [pair.source for pair in expected]
    assert trainer.validation.references == [(pair.target,) for pair in expected]
    assert trainer.validation.scores().keys() == {"exact_match"}


# --- Several processes -----------------------------------------------------------------------------------


class Gathered(Exception):  # noqa: N818
    """Ends a process of `Part` when its translations are known."""


class Part(ProcessGroup):
    """A process of several, whose translations are recorded, or gathered when those of all are known."""

    parts: list[Any]

    def gather(self, value: Any) -> list[Any]:
        if len(self.parts) == self.size:
            assert value == self.parts[self.rank]
            return self.parts
        self.parts.append(value)
        raise Gathered


@pytest.mark.parametrize("size", [2, 3, 7])
def test_processes_translate_parts_of_the_batches_and_have_the_same_scores(trained: Path, size: int):
    run = Run(trained)
    translator = regard.load(trained)
    translator.experiment = run.experiment.model_copy(
        update={"decoding": run.experiment.decoding.model_copy(update={"batch_size": 5})}
    )
    run.experiment = translator.experiment
    examples: list[Example] = translator.codec.examples(run.experiment.task.dataset.pairs("validation"))
    with torch.no_grad():
        next(translator.model.parameters()).mul_(0.3)  # so that it makes mistakes
    alone = Validation(run, examples, translator.model, ProcessGroup())
    groups = [Part(rank, size) for rank in range(size)]
    Part.parts = []
    for group in groups:
        with pytest.raises(Gathered):
            Validation(run, examples, translator.model, group).scores()
    rows = [index for part in Part.parts for index, _ in part]
    assert sorted(rows) == list(range(40)), "each sentence once"
    assert sum(map(bool, Part.parts)) == size, "every process has a part: there are 8 batches"
    for group in groups:
        together = Validation(run, examples, translator.model, group)
        assert together._translate() == alone._translate()
        assert together.scores() == alone.scores()
    assert 0 < alone.scores()["exact_match"] < 1


# --- Logs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("logs", "message"),
    [
        ("[tensorboard]", "jsonl cannot be left out"),
        ("[jsonl, tensorbord]", "'tensorbord' is not a log; did you mean 'tensorboard'"),
    ],
)
def test_unknown_and_missing_logs_are_refused(brief: Make, logs: str, message: str):
    with pytest.raises(UserError, match=rf"training\.log: .*{message}"):
        brief(f"training.log={logs}")


def test_another_log_may_be_chosen_when_a_training_continues(brief: Make, train_in: TrainIn, tmp_path: Path):
    train_in(brief(), stop_after=3)
    assert train_run(brief("training.log=[jsonl, tensorboard]"), tmp_path / "run", regard.Callback()).progress.finished
