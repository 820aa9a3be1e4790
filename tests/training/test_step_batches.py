"""The batches of a step: gradient accumulation, and what several processes learn from."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from regard.config.schema import Experiment
from regard.data import Batches, Example
from regard.process_group import SINGLE, ProcessGroup
from regard.training.step_batches import StepBatches
from regard.training.trainer import Trainer

Make = Callable[..., Experiment]
NewTrainer = Callable[..., Trainer]
ACCUMULATION = "training.gradient_accumulation=3"
SAME_EACH_TIME = ("model.dropout=0", "training.teacher_forcing.ratio=1", "training.label_smoothing=0.1")


def examples(count: int) -> list[Example]:
    return [Example((4 + number, 2), (1, *[5] * (number % 7), 2)) for number in range(count)]


@given(count=st.integers(1, 61), per_step=st.integers(1, 7), size=st.integers(1, 5))
def test_the_steps_of_an_epoch_have_each_example_once(count: int, per_step: int, size: int):
    batches = Batches(examples(count), batch_tokens=24, seed=1)
    steps = StepBatches(batches, per_step)
    assert steps.per_epoch == -(-batches.per_epoch // per_step)
    for epoch in range(2):
        numbers = [steps.numbers(epoch * steps.per_epoch + step) for step in range(steps.per_epoch)]
        assert [len(each) for each in numbers[:-1]] == [per_step] * (len(numbers) - 1)
        expected = range(epoch * batches.per_epoch, (epoch + 1) * batches.per_epoch)
        assert [number for each in numbers for number in each] == list(expected)
        own = [
            steps.own(epoch * steps.per_epoch + step, ProcessGroup(rank, size))
            for step in range(steps.per_epoch)
            for rank in range(size)
        ]
        assert all(own), "a process without sentences computes a gradient, too"
        learned = [example for each in own for part, weight in each if weight for example in part]
        assert sorted(learned, key=str) == sorted(examples(count), key=str)


def gradients(trainer: Trainer) -> list[Tensor]:
    return [parameter.grad.clone() for parameter in trainer.model.parameters() if parameter.grad is not None]


@pytest.mark.parametrize("consistency", ["none", "simcut"])
def test_the_gradient_of_several_batches_is_that_of_one_batch_with_all_sentences(
    brief: Make, new_trainer: NewTrainer, monkeypatch: pytest.MonkeyPatch, consistency: str
):
    """Weighted by tokens: it is not the mean of the means of the batches."""
    monkeypatch.setattr("regard.training.objective.token_cutoff", lambda *_: nullcontext())
    settings = (*SAME_EACH_TIME, f"training.consistency.kind={consistency}", "training.clip=1000")
    trainer = new_trainer(brief(ACCUMULATION, *settings))
    batches = trainer.batches.own(0, SINGLE)
    tokens = [tokens for _, tokens in batches]
    assert len(batches) == len(set(tokens)) == 3
    other = new_trainer(brief(ACCUMULATION, *settings), name="other")
    other.batches.own = lambda *_: [([each for part, _ in batches for each in part], sum(tokens))]  # type: ignore[method-assign]
    for each in (trainer, other):
        each.step()
    for one, all_at_once in zip(gradients(trainer), gradients(other), strict=True):
        torch.testing.assert_close(one, all_at_once, atol=1e-6, rtol=1e-5)
    assert trainer.progress.tokens == other.progress.tokens == sum(tokens)
    assert trainer.progress.loss_sum == pytest.approx(other.progress.loss_sum)


def test_an_epoch_has_fewer_steps_and_the_last_one_has_fewer_batches(brief: Make, train_in: Any):
    callback = train_in(brief(ACCUMULATION))
    assert callback.train_begins == [(0, 6)]  # 4 batches are 2 steps, in 3 epochs
    assert [(row["step"], row["epoch"]) for row in callback.rows] == [(2, 1), (4, 2), (6, 3)]


def test_a_stopped_training_with_accumulation_resumes_bit_identically(
    brief: Make, trained_brief: Any, train_in: Any, tmp_path: Path, same_training: Any
):
    for steps in (1, 2):
        train_in(brief(ACCUMULATION), stop_after=steps)
    assert train_in(brief(ACCUMULATION)).progress.finished
    same_training(tmp_path / "run", trained_brief(ACCUMULATION))
