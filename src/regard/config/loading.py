"""Reading experiments: from a recipe or a YAML file, with what it extends and what the command line sets."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as in_short
from typing import Any

import yaml
from pydantic import ValidationError

from regard.config import base, recipes, yaml_source
from regard.config.schema import Experiment
from regard.errors import UserError, suggest
from regard.tasks import TASKS, DataSection

KeyPath = tuple[str, ...]
SECTIONS = f"an experiment has the sections {', '.join(Experiment.model_fields)}"


@dataclass(frozen=True)
class Override:
    """One key of an experiment, the value it shall have, and who says so."""

    path: KeyPath
    value: Any
    origin: str  # what to call the place where it was set …
    folder: Path = Path()  # … and where that lies

    @classmethod
    def parse(cls, text: str, option: str = "--set") -> Override:
        """`training.seed=2`, as it is written on the command line."""
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UserError(f"{option} {text}: this should be KEY=VALUE, as in {option} training.seed=2")
        return cls(key_path(key), yaml_source.parse_value(value, f"{option} {text}"), f"{option} {text}")


def key_path(key: str) -> KeyPath:
    """`training.seed` as the keys that lead there."""
    return tuple(key.strip().split("."))


class ExperimentDraft:
    """Settings on their way to an experiment: for each key its value, and where it was set."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.values: dict[KeyPath, Any] = {}
        self.origins: dict[KeyPath, str] = {}
        self.folders: dict[KeyPath, Path] = {}

    def set(self, setting: Override) -> None:
        """A later value takes the place of an earlier one, and of all below or above it; `{}` changes nothing."""
        path = setting.path
        if setting.value == {} and any(key[: len(path)] == path for key in self.values):
            return
        for known in [key for key in self.values if key[: len(path)] == path or path[: len(key)] == key]:
            del self.values[known], self.folders[known]
        self.values[path] = setting.value
        self.origins[path] = setting.origin
        self.folders[path] = setting.folder

    def origin(self, path: KeyPath) -> str:
        """Where `path` was set; failing that, something below it, or the nearest thing above."""
        if not path:
            return self.name
        below = [key for key in self.origins if key[: len(path)] == path]
        return self.origins[min(below, key=len)] if below else self.origin(path[:-1])

    def folder(self, path: KeyPath) -> Path:
        """Where the file lies in which `path`, or the section that it came with, was set."""
        return self.folders[path] if path in self.folders else self.folder(path[:-1])

    def nested(self) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        for path, value in self.values.items():
            branch = tree
            for part in path[:-1]:
                branch = branch.setdefault(part, {})
            branch[path[-1]] = value
        return tree


def load_experiment(
    name: str, overrides: Iterable[str | Override] = (), folder: Path = Path(), origin: str | None = None
) -> Experiment:
    """The experiment `name`, with `overrides` such as `training.seed=2`.

    The name is that of a recipe, or of a YAML file as seen from `folder`; `origin` is where it was said, for messages.
    """
    draft = ExperimentDraft(name)
    _read_into(draft, name, folder, origin, ())
    for override in overrides:
        draft.set(override if isinstance(override, Override) else Override.parse(override))
    return _validate(draft)


def parse_experiment(text: str, where: str) -> Experiment:
    """An experiment from the text of a YAML file that stands on its own."""
    draft = ExperimentDraft(where)
    for leaf in yaml_source.parse_leaves(text, where, SECTIONS):
        draft.set(Override(leaf.path, leaf.value, leaf.origin))
    return _validate(draft)


def dump_experiment(experiment: Experiment) -> str:
    """All settings as YAML; `parse_experiment` gives the same experiment again."""
    return yaml.dump(experiment.model_dump(), Dumper=yaml_source.YamlDumper, sort_keys=False, allow_unicode=True)


def _read_into(draft: ExperimentDraft, name: str, folder: Path, origin: str | None, chain: tuple[str, ...]) -> None:
    """Read a recipe or file into `draft`, after what it extends; names in it are relative to its own folder."""
    try:
        text, where, folder = _find(name, folder)
    except UserError as error:
        raise UserError(f"{origin}: {error}" if origin else str(error)) from None
    if where in chain:
        raise UserError(f"{where}: extends itself: {' → '.join([*chain, where])}")
    leaves = list(yaml_source.parse_leaves(text, where, SECTIONS))
    for leaf in leaves:
        if leaf.path == ("extends",):
            said = f"{leaf.origin}: extends"
            if not isinstance(leaf.value, str):
                raise UserError(f"{said}: {in_short(leaf.value)} should be a recipe's name or a file's path")
            _read_into(draft, leaf.value, folder, said, (*chain, where))
    for leaf in leaves:
        if leaf.path != ("extends",):
            draft.set(Override(leaf.path, leaf.value, leaf.origin, folder))


def _find(name: str, folder: Path) -> tuple[str, str, Path]:
    """The text of a recipe or file, what to call it in messages, and the folder in which it lies."""
    if name in recipes.recipe_names():
        return recipes.read_recipe(name), f"recipe {name}", folder
    path = Path(os.path.normpath(folder / name))
    text = yaml_source.read_text_file(path)
    if text is None:
        raise UserError(
            f"{name!r} is neither a recipe nor a file; {suggest(name, recipes.recipe_names())}, or a YAML file"
        )
    return text, str(path), path.parent


def _validate(draft: ExperimentDraft) -> Experiment:
    """The experiment, or all that is wrong with it. Which keys `data` has depends on its task."""
    values = draft.nested()
    data = values.get("data")
    task = data.get("task") if isinstance(data, dict) else None
    if not isinstance(task, str) or task not in TASKS:
        problem = "missing" if task is None else f"{in_short(task)} is not a valid choice"
        raise UserError(f"{draft.origin(('data', 'task'))}: data.task: {problem}; {suggest(task, TASKS)}")
    problems = []
    try:
        values["data"] = TASKS[task].Section.model_validate(_with_whole_paths(draft, TASKS[task].Section))
    except ValidationError as error:
        problems.append(base.explain_validation_error(error, TASKS[task].Section, ("data",), draft.origin))
        values["data"] = TASKS[task].Section.model_construct()  # so that mistakes elsewhere are told in the same breath
    try:
        experiment = Experiment.model_validate(values)
    except ValidationError as error:
        problems.append(base.explain_validation_error(error, Experiment, (), draft.origin))
    if problems:
        raise UserError("\n".join(problems))
    return experiment


def _with_whole_paths(draft: ExperimentDraft, section: type[DataSection]) -> dict[str, Any]:
    """The section `data`. A run is used from anywhere, so a path that is relative to its own file is written out."""
    data: dict[str, Any] = draft.nested()["data"]
    for key in section.path_keys & data.keys():
        if isinstance(data[key], str) and data[key]:
            data[key] = os.path.abspath(draft.folder(("data", key)) / os.path.expanduser(data[key]))
    return data
