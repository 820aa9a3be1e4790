"""The recipes: what they claim, and that a model of each can be built and trained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.config import loading, recipes
from regard.tasks import SPLITS, TASKS
from regard.tasks.g2p import G2PSection
from regard.tasks.generated import GeneratedSection
from regard.training.trainer import Trainer


def test_there_is_one_for_every_task_but_that_of_own_files():
    assert {loading.load_experiment(name).data.task for name in recipes.recipe_names()} == set(TASKS) - {"files"}


def test_names_are_sorted_words():
    assert recipes.recipe_names() == sorted(recipes.recipe_names())
    assert all(name.replace("-", "").isalnum() for name in recipes.recipe_names())


@pytest.mark.parametrize("name", recipes.recipe_names())
def test_a_description_is_one_sentence_or_two_on_one_line(name: str):
    description = loading.load_experiment(name).description
    assert description.endswith(".")
    assert 10 < len(description) <= 100
    assert "\n" not in description


def test_the_bottleneck_differs_from_case_in_attention_alone():
    case, bottleneck = loading.load_experiment("case"), loading.load_experiment("bottleneck")
    assert bottleneck.model.attention.kind == "none"
    model = case.model.model_copy(update={"attention": bottleneck.model.attention})
    assert bottleneck == case.model_copy(update={"model": model, "description": bottleneck.description})


@pytest.fixture(scope="module")
def smaller(corpus: Path, dictionary: Path) -> Callable[[str], list[str]]:
    """Settings that let a recipe learn from little."""

    def settings(name: str) -> list[str]:
        match loading.load_experiment(name).data:
            case GeneratedSection():
                return ["data.train=1500", "data.validation=5", "data.test=5"]
            case G2PSection():
                return [f"data.file={dictionary}"]
            case _:
                files = [f"data.{split}={corpus / split}" for split in SPLITS]
                return ["data.task=files", *files, "data.text.size=300"]

    return settings


@pytest.mark.slow
@pytest.mark.parametrize("name", recipes.recipe_names())
def test_a_recipe_takes_its_first_step(
    name: str, smaller: Callable[[str], list[str]], new_trainer: Callable[..., Trainer], watcher: Callable[..., Any]
):
    watching = watcher()
    new_trainer(loading.load_experiment(name, [*smaller(name), "training.batch_tokens=100"]), watching).step()
    assert 0 < watching.losses[0] < 20
