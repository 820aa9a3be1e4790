"""Reading experiments: from a recipe or a YAML file, with what it extends and what the command line sets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from reprlib import repr as in_short
from typing import Any

import yaml
from pydantic import ValidationError

from regard import recipes, settings
from regard.config import Experiment
from regard.errors import UserError, suggest
from regard.tasks import TASKS, Task

KeyPath = tuple[str, ...]


class Loader(yaml.SafeLoader):
    """YAML without objects, and with numbers such as 1e-3, which YAML 1.1 takes for a text."""


class Dumper(yaml.SafeDumper):
    """Writes so that `Loader` reads the same: a text `1e-3` has quotation marks."""


for each in (Loader, Dumper):
    each.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"^[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
    )


class Draft:
    """Settings on their way to an experiment: for each key its value, and where it was set."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.values: dict[KeyPath, Any] = {}
        self.origins: dict[KeyPath, str] = {}
        self.folders: dict[KeyPath, Path] = {}

    def set(self, path: KeyPath, value: Any, origin: str, folder: Path = Path()) -> None:
        """A later value takes the place of an earlier one, and of all below or above it; `{}` changes nothing.

        `origin` is what to call the place where it was set, and `folder` where that lies.
        """
        if value == {} and any(key[: len(path)] == path for key in self.values):
            return
        for known in [key for key in self.values if key[: len(path)] == path or path[: len(key)] == key]:
            del self.values[known], self.folders[known]
        self.values[path] = value
        self.origins[path] = origin
        self.folders[path] = folder

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


def load(name: str, overrides: Sequence[str] = ()) -> Experiment:
    """The experiment `name`, a recipe or a YAML file, with `overrides` such as `training.seed=2`."""
    draft = Draft(name)
    _read_into(draft, name, Path(), ())
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key.strip():
            raise UserError(f"--set {override}: this should be KEY=VALUE, as in --set training.seed=2")
        origin = f"--set {override}"
        node = _compose(value, origin)
        draft.set(tuple(key.strip().split(".")), None if node is None else _construct(node, origin), origin)
    return _validate(draft)


def parse(text: str, where: str) -> Experiment:
    """An experiment from the text of a YAML file that stands on its own."""
    draft = Draft(where)
    for path, value, line in _leaves(_compose(text, where), where):
        draft.set(path, value, f"{where}, line {line}")
    return _validate(draft)


def dump(experiment: Experiment) -> str:
    """All settings as YAML; `parse` gives the same experiment again."""
    return yaml.dump(experiment.model_dump(), Dumper=Dumper, sort_keys=False, allow_unicode=True)


def _read_into(draft: Draft, name: str, folder: Path, chain: tuple[str, ...]) -> None:
    """Read a recipe or file into `draft`, after what it extends; names in it are relative to its own folder."""
    text, where, folder = _find(name, folder)
    if where in chain:
        raise UserError(f"{where}: extends itself: {' → '.join([*chain, where])}")
    leaves = list(_leaves(_compose(text, where), where))
    for path, value, line in leaves:
        if path == ("extends",):
            origin = f"{where}, line {line}: extends: "
            if not isinstance(value, str):
                raise UserError(f"{origin}{in_short(value)} should be a recipe's name or a file's path")
            try:
                _find(value, folder)
            except UserError as error:
                raise UserError(f"{origin}{error}") from None
            _read_into(draft, value, folder, (*chain, where))
    for path, value, line in leaves:
        if path != ("extends",):
            draft.set(path, value, f"{where}, line {line}", folder)


def _find(name: str, folder: Path) -> tuple[str, str, Path]:
    """The text of a recipe or file, what to call it in messages, and the folder in which it lies."""
    if name in recipes.names():
        return recipes.read(name), f"recipe {name}", folder
    path = Path(os.path.normpath(folder / name))
    try:
        return path.read_text(encoding="utf-8"), str(path), path.parent
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise UserError(f"{path}, line {line}: this is not UTF-8 text; an experiment is a YAML file") from None
    except (FileNotFoundError, ValueError):  # a name with a NUL in it is a ValueError
        raise UserError(
            f"{name!r} is neither a recipe nor a file; {suggest(name, recipes.names())}, or a YAML file"
        ) from None
    except OSError as error:
        raise UserError(f"{in_short(str(path))}: cannot be read: {error.strerror}") from None


def _compose(text: str, where: str) -> yaml.Node | None:
    try:
        for event in yaml.parse(text, Loader=Loader):
            if isinstance(event, yaml.AliasEvent) and event.start_mark:
                # A few lines of them can stand for gigabytes.
                line = event.start_mark.line + 1
                raise UserError(f"{where}, line {line}: an experiment has no aliases (*{event.anchor}); write it out")
        return yaml.compose(text, Loader=Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UserError(f"{where}, line {line}: this is not YAML: {error.problem}") from None
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise UserError(f"{where}, line {line}: this is not YAML: {error.reason}") from None
    except RecursionError:
        raise UserError(f"{where}: this is nested too deeply") from None


def _leaves(node: yaml.Node | None, where: str, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any, int]]:
    """Every key that has no keys below it, its value, and its line."""
    if node is None:
        return
    if not isinstance(node, yaml.MappingNode) or node.tag != "tag:yaml.org,2002:map":
        line = node.start_mark.line + 1
        raise UserError(f"{where}, line {line}: an experiment has the sections {', '.join(Experiment.model_fields)}")
    seen = set()
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise UserError(f"{where}, line {line}: a key should be a word")
        key = (*path, key_node.value)
        if key in seen:
            raise UserError(f"{where}, line {line}: {'.'.join(key)}: this key stands twice")
        seen.add(key)
        if isinstance(value_node, yaml.MappingNode) and value_node.value:
            yield from _leaves(value_node, where, key)
        else:
            yield key, _construct(value_node, where), line


def _construct(node: yaml.Node, where: str) -> Any:
    loader = Loader("")
    try:
        return loader.construct_object(node, deep=True)
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        line = node.start_mark.line + 1
        raise UserError(f"{where}, line {line}: this value cannot be read") from None
    finally:
        loader.dispose()


def _validate(draft: Draft) -> Experiment:
    """The experiment, or all that is wrong with it. Which keys `data` has depends on its task."""
    values = draft.nested()
    data = values.get("data")
    task = data.get("task") if isinstance(data, dict) else None
    if not isinstance(task, str) or task not in TASKS:
        problem = "must be given" if task is None else f"{in_short(task)} is none of them"
        raise UserError(f"{draft.origin(('data', 'task'))}: data.task: {problem}; {suggest(task, TASKS)}")
    problems = []
    try:
        values["data"] = TASKS[task].model_validate(_with_whole_paths(draft, TASKS[task]))
    except ValidationError as error:
        problems.append(settings.explain(error, TASKS[task], ("data",), draft.origin))
        values["data"] = TASKS[task].model_construct()  # so that mistakes elsewhere are told in the same breath
    try:
        experiment = Experiment.model_validate(values)
    except ValidationError as error:
        problems.append(settings.explain(error, Experiment, (), draft.origin))
    if problems:
        raise UserError("\n".join(problems))
    return experiment


def _with_whole_paths(draft: Draft, task: type[Task]) -> dict[str, Any]:
    """The section `data`. A run is used from anywhere, so a path that is relative to its own file is written out."""
    data: dict[str, Any] = draft.nested()["data"]
    for key in task.paths & data.keys():
        if isinstance(data[key], str) and data[key]:
            data[key] = os.path.abspath(draft.folder(("data", key)) / os.path.expanduser(data[key]))
    return data
