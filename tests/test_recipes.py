"""The recipes: what they claim, and that a model of each can be built and trained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from regard import experiments, recipes
from regard.tasks import TASKS
from regard.training import train


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


@pytest.mark.parametrize("name", recipes.names())
def test_a_recipe_takes_its_first_steps(name: str, tmp_path: Path, watcher: Callable[..., object]):
    few = [
        "data.train=2000",
        "data.validation=5",
        "data.test=5",
        "training.batch_tokens=500",
        "training.validate_every=2",
    ]
    progress = train(experiments.load(name, few), tmp_path / "run", watcher(stop_after=2))
    assert progress.best_step == progress.step == 2
