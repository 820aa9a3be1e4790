"""The recipes: names, descriptions, and a training step of each."""

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


def test_every_task_except_files_has_a_recipe():
    assert {loading.load_experiment(name).data.task for name in recipes.recipe_names()} == set(TASKS) - {"files"}


def test_names_are_sorted_and_alphanumeric():
    assert recipes.recipe_names() == sorted(recipes.recipe_names())
    assert all(name.replace("-", "").isalnum() for name in recipes.recipe_names())


@pytest.mark.parametrize("name", recipes.recipe_names())
def test_a_description_is_one_short_line_of_sentences(name: str):
    description = loading.load_experiment(name).description
    assert description.endswith(".")
    assert 10 < len(description) <= 100
    assert "\n" not in description


def test_the_bottleneck_recipe_differs_from_case_only_in_attention():
    case, bottleneck = loading.load_experiment("case"), loading.load_experiment("bottleneck")
    assert bottleneck.model.attention.kind == "none"
    model = case.model.model_copy(update={"attention": bottleneck.model.attention})
    assert bottleneck == case.model_copy(update={"model": model, "description": bottleneck.description})


@pytest.fixture(scope="module")
def small_data(corpus: Path, dictionary: Path) -> Callable[[str], list[str]]:
    """Returns a function: overrides that give a recipe a small data set."""

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
def test_the_first_training_step_of_a_recipe_has_a_finite_loss(
    name: str,
    small_data: Callable[[str], list[str]],
    new_trainer: Callable[..., Trainer],
    new_callback: Callable[..., Any],
):
    callback = new_callback()
    new_trainer(loading.load_experiment(name, [*small_data(name), "training.batch_tokens=100"]), callback).step()
    assert 0 < callback.losses[0] < 20
