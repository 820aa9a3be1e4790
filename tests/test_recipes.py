"""The recipes: what they claim, and that a model of each can be built and trained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard import experiments, recipes
from regard.data import Codec
from regard.runs import Run
from regard.tasks import TASKS
from regard.training.loop import Trainer


def test_there_is_one_for_every_task():
    assert {experiments.load(name).data.task for name in recipes.names()} == set(TASKS)


def test_names_are_sorted_words():
    assert recipes.names() == sorted(recipes.names())
    assert all(name.replace("-", "").isalnum() for name in recipes.names())


@pytest.mark.parametrize("name", recipes.names())
def test_a_description_is_one_sentence_or_two_on_one_line(name: str):
    description = experiments.load(name).description
    assert description.endswith(".")
    assert 10 < len(description) <= 100
    assert "\n" not in description


def test_the_bottleneck_differs_from_case_in_attention_alone():
    case, bottleneck = experiments.load("case"), experiments.load("bottleneck")
    assert bottleneck.model.attention.kind == "none"
    model = case.model.model_copy(update={"attention": bottleneck.model.attention})
    assert bottleneck == case.model_copy(update={"model": model, "description": bottleneck.description})


@pytest.mark.slow
@pytest.mark.parametrize("name", recipes.names())
def test_a_recipe_takes_its_first_step(name: str, tmp_path: Path, watcher: Callable[..., Any]):
    experiment = experiments.load(
        name, ["data.train=1500", "data.validation=5", "data.test=5", "training.batch_tokens=100"]
    )
    pairs = experiment.data.splits()
    run = Run.create(tmp_path / "run", experiment, Codec.build(experiment.data, pairs["train"]))
    watching = watcher()
    Trainer(run, pairs, watching).step()
    assert 0 < watching.losses[0] < 20
