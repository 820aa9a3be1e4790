"""What a shell offers when the user presses Tab: recipes, studies, run directories, settings. Nothing imports torch."""

from __future__ import annotations

from collections.abc import Iterator
from glob import escape, glob
from pathlib import Path
from typing import Any, Literal, get_args, get_origin


def complete_experiments(incomplete: str) -> list[tuple[str, str]]:
    """Recipes with their descriptions, YAML files and run directories.

    Args:
        incomplete: The beginning of the argument.
    """
    from regard.config.loading import read_description
    from regard.config.recipes import recipe_names

    recipes = [(name, read_description(name)) for name in recipe_names() if name.startswith(incomplete)]
    files = [(path, "") for path in sorted(glob(f"{escape(incomplete)}*.yaml"))]
    return [*recipes, *files, *((run, "") for run in complete_runs(incomplete))]


def complete_runs(incomplete: str) -> list[str]:
    """Run directories, also those in folders.

    Args:
        incomplete: The beginning of the argument.
    """
    start = escape(incomplete)
    found = [*glob(f"{start}*/run.json"), *glob(f"{start}*/*/run.json")]
    return sorted(str(Path(path).parent) for path in found)


def complete_studies(incomplete: str) -> list[tuple[str, str]]:
    """The built-in studies with their questions.

    Args:
        incomplete: The beginning of the argument.
    """
    from regard.studies.built_in import study_names, study_question

    return [(name, study_question(name)) for name in study_names() if name.startswith(incomplete)]


def complete_settings(incomplete: str) -> list[str]:
    """`training.seed=` and the like; after the equals sign the values, if they are known.

    Args:
        incomplete: The beginning of KEY=VALUE.
    """
    from regard.config.schema import Experiment

    values = dict(setting_values(Experiment))
    key, equals, _ = incomplete.partition("=")
    offered = [f"{key}={value}" for value in values.get(key, [])] if equals else [f"{each}=" for each in values]
    return [each for each in offered if each.startswith(incomplete)]


def setting_values(section: Any, prefix: str = "") -> Iterator[tuple[str, list[str]]]:
    """The keys of a section and the sections in it, with the values of those that have a choice.

    Of encoders, decoders, attention and positions, these are the settings that all kinds have: the classes of the
    others import torch.

    Args:
        section: The class of a section.
        prefix: What the keys begin with.
    """
    from regard.config.families import subsection_class, subsection_kinds
    from regard.config.kinds import LEARNING_RATES, TASKS, TEACHER_FORCING_SCHEDULES, TOKENIZERS

    light = (TASKS, TOKENIZERS, LEARNING_RATES, TEACHER_FORCING_SCHEDULES)
    for name, field in section.model_fields.items():
        key, kinds = f"{prefix}{name}", subsection_kinds(section, name)
        if kinds is not None:
            sections = [kinds[kind].Section for kind in kinds] if any(kinds is each for each in light) else []
            inner = [pair for each in [kinds.section, *sections] for pair in setting_values(each, f"{key}.")]
            yield from (dict(inner) | {f"{key}.{kinds.key}": list(kinds)}).items()
        elif nested := subsection_class(section, name, None):
            yield from setting_values(nested, f"{key}.")
        else:
            yield key, list(known_values(field))


def known_values(field: Any) -> Iterator[str]:
    """The values of a field that is a kind, a choice or a yes-no question."""
    from regard.config.families import NameOf

    for each in field.metadata:
        if isinstance(each, NameOf):
            yield from each.kinds
    for annotation in (field.annotation, *get_args(field.annotation)):
        if get_origin(annotation) is Literal:
            yield from map(str, get_args(annotation))
        elif annotation is bool:
            yield from ("true", "false")
