"""The JSON schema of experiment files, for editors. It is made from the sections; nothing is written twice."""

from __future__ import annotations

from typing import Any

from regard.config.loading import read_description
from regard.config.recipes import recipe_names
from regard.config.schema import Experiment

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def experiment_schema() -> dict[str, Any]:
    """The schema of an experiment file: the sections, and `extends`.

    Every setting may be left out, because a file may extend another one. Only a file that extends none needs `data`.
    """
    schema = Experiment.model_json_schema()
    recipes = [{"const": name, "description": read_description(name)} for name in recipe_names()]
    extends = {
        "description": "The recipe or the YAML file whose settings this file changes.",
        "anyOf": [*recipes, {"type": "string", "description": "The path of a YAML file, from the folder of this one."}],
    }
    return {
        "$schema": DIALECT,
        "title": "An experiment of Regard",
        **schema,
        "properties": {"extends": extends, **schema["properties"]},
        "anyOf": [{"required": ["extends"]}, {"required": ["data"]}],
    }
