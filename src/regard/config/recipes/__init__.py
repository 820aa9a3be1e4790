"""The built-in experiments, one YAML file each."""

from __future__ import annotations

from importlib.resources import files


def recipe_names() -> list[str]:
    """The names of all recipes, sorted."""
    return sorted(file.name.removesuffix(".yaml") for file in files(__name__).iterdir() if file.name.endswith(".yaml"))


def read_recipe(name: str) -> str:
    """The YAML text of a recipe.

    Args:
        name: One of `recipe_names`.
    """
    return files(__name__).joinpath(f"{name}.yaml").read_text(encoding="utf-8")
