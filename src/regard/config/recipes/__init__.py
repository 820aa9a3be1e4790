"""Named experiments that work as they are, one YAML file each."""

from __future__ import annotations

from importlib.resources import files


def recipe_names() -> list[str]:
    return sorted(file.name.removesuffix(".yaml") for file in files(__name__).iterdir() if file.name.endswith(".yaml"))


def read_recipe(name: str) -> str:
    return files(__name__).joinpath(f"{name}.yaml").read_text(encoding="utf-8")
