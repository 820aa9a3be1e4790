"""Loads experiments from recipes and YAML files, with what they extend and with overrides."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from reprlib import repr as short_repr
from typing import Any

import yaml
from pydantic import ValidationError

from regard.config import plugins, recipes, yaml_source
from regard.config.base import KeyPath
from regard.config.draft import DESCRIPTION, ExperimentDraft, Override, key_path
from regard.config.explanations import explain_validation_error
from regard.config.kinds import TASKS
from regard.config.references import absolute_paths
from regard.config.schema import EMBEDDING_FILES, Experiment
from regard.config.yaml_source import YamlLeaf
from regard.errors import UserError, suggest
from regard.files import parse_path
from regard.tasks import SPLITS

MAX_EXTENDS = 20  # files that extend each other
SECTIONS = f"an experiment has the sections {', '.join(Experiment.model_fields)}"


def load_experiment(
    name: str,
    overrides: Iterable[str | Override] = (),
    folder: Path = Path(),
    origin: str | None = None,
    *,
    defaults: Experiment | None = None,
    check_files: bool = False,
) -> Experiment:
    """The experiment of a recipe or a YAML file.

    Args:
        name: Name of a recipe, or path of a YAML file.
        overrides: Settings that replace those of the file, as `training.seed=2` or as an `Override`.
        folder: The folder that a relative path in `name` refers to.
        origin: Where the name was given, for messages.
        defaults: Settings that are extended, by the file and by what it extends.
        check_files: Whether the files that the settings name must exist, as they must before a training.

    Raises:
        UserError: If a file cannot be read or a setting is invalid. The message names all invalid settings.
    """
    draft = ExperimentDraft(name)
    for layer in (*_experiment_layers(defaults), *_read_layers(name, folder, origin, ())):
        draft.add_layer(layer)
    draft.add_layer([each if isinstance(each, Override) else Override.parse(each) for each in overrides])
    experiment = _validate(draft)
    if check_files:
        _check_files(draft, experiment, experiment.path_keys)
    return experiment


def set_data_paths(experiment: Experiment, settings: Iterable[str]) -> Experiment:
    """The experiment of a run with other paths of its text files, which must exist, or with another test set.

    Args:
        experiment: The settings of the run.
        settings: The paths as `data.test=corpus/test`, relative to the working directory, or the name of a test set.

    Raises:
        UserError: If another setting is changed, or if a file is missing.
    """
    overrides = [Override.parse(each) for each in settings]
    data = experiment.data
    known = [f"data.{key}" for key in (*SPLITS, "file") if key in data.path_keys or key == data.test_set_key]
    for override in overrides:
        if (key := ".".join(override.path)) not in known:
            rest = suggest(key, known) if known else "this run's data is generated"
            raise UserError(f"{override.origin}: {key}: only the texts of a run can be changed; {rest}")
    draft = _draft_of(parse_settings(dump_experiment(experiment), "the run"), "the run")
    draft.add_layer(overrides)
    moved = _validate(draft)
    _check_files(draft, moved, {override.path for override in overrides})
    return moved


def _check_files(draft: ExperimentDraft, experiment: Experiment, keys: Set[KeyPath]) -> None:
    missing: dict[KeyPath, str] = {("data", key): text for key, text in experiment.task.missing_files().items()}
    for side, path in experiment.model.embedding_files.items():
        if not os.path.exists(path):  # Path.exists raises if the name is too long
            key = ("model", side, "pretrained_embeddings")
            missing[key] = f"{'.'.join(key)}: there is no file {path}"
    if found := [f"{draft.origin(key)}: {text}" for key, text in missing.items() if key in keys]:
        raise UserError("\n".join(found))


def read_description(name: str) -> str:
    """The description of a recipe or a YAML file, read without validating the other settings.

    Args:
        name: Name of a recipe, or path of a YAML file.
    """
    draft = ExperimentDraft(name)
    for layer in _read_layers(name, Path(), None, ()):
        draft.merge(layer)
    return str(draft.values.get(DESCRIPTION, ""))


def parse_experiment(text: str, where: str, *, ignore_unused: bool = False) -> Experiment:
    """The experiment in the text of a YAML file that extends no other.

    Args:
        text: The content of the file.
        where: What the file is called in messages.
        ignore_unused: Ignore options of other kinds than the chosen ones, as older versions wrote them.

    Raises:
        UserError: If a setting is invalid.
    """
    return build_experiment(parse_settings(text, where), where, ignore_unused=ignore_unused)


def parse_settings(text: str, where: str) -> Iterator[YamlLeaf]:
    """The settings in the text of a YAML file, not validated.

    Args:
        text: The content of the file.
        where: What the file is called in messages.
    """
    return yaml_source.parse_leaves(text, where, SECTIONS)


def build_experiment(leaves: Iterable[YamlLeaf], where: str, *, ignore_unused: bool = False) -> Experiment:
    """The experiment that these settings describe.

    Args:
        leaves: From `parse_settings`.
        where: What the file is called in messages.
        ignore_unused: Ignore options of other kinds than the chosen ones, as older versions wrote them.

    Raises:
        UserError: If a setting is invalid.
    """
    draft = _draft_of(leaves, where)
    if ignore_unused:
        draft.discard_unused_options()
    return _validate(draft)


def _draft_of(leaves: Iterable[YamlLeaf], where: str) -> ExperimentDraft:
    draft = ExperimentDraft(where)
    draft.add_layer([Override(leaf.path, leaf.value, leaf.origin) for leaf in leaves])
    return draft


def dump_experiment(experiment: Experiment) -> str:
    """All settings as YAML, from which `parse_experiment` makes an equal experiment.

    Args:
        experiment: The settings.
    """
    return yaml.dump(experiment.model_dump(), Dumper=yaml_source.YamlDumper, sort_keys=False, allow_unicode=True)


def _read_layers(name: str, folder: Path, origin: str | None, chain: tuple[str, ...]) -> list[list[Override]]:
    """The settings of a recipe or file, after those of what it extends; its paths are relative to its own folder."""
    try:
        text, where, folder = _find(name, folder)
    except UserError as error:
        raise UserError(f"{origin}: {error}" if origin else str(error)) from None
    if where in chain:
        raise UserError(f"{where}: extends itself: {' → '.join([*chain, where])}")
    if len(chain) == MAX_EXTENDS:
        raise UserError(f"{where}: more than {MAX_EXTENDS} files extend each other, beginning with {chain[0]}")
    layers, own = [], []
    for leaf in yaml_source.parse_leaves(text, where, SECTIONS):
        if leaf.path != ("extends",):
            own.append(Override(leaf.path, leaf.value, leaf.origin, folder))
            continue
        extends = f"{leaf.origin}: extends"
        if not isinstance(leaf.value, str):
            raise UserError(f"{extends}: {short_repr(leaf.value)} should be a recipe's name or a file's path")
        layers += _read_layers(leaf.value, folder, extends, (*chain, where))
    return [*layers, own]


def _find(name: str, folder: Path) -> tuple[str, str, Path]:
    """The text of a recipe or file, what it is called in messages, and its folder."""
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
    """The experiment; a UserError names all invalid settings."""
    values = draft.nested()
    values.setdefault("data", {})  # to report the missing task
    if isinstance(values["data"], dict):
        _resolve_data_paths(draft, values["data"])
    _resolve_embedding_paths(draft, values)
    try:
        return Experiment.model_validate(values)
    except ValidationError as error:
        raise UserError(explain_validation_error(error, Experiment, (), draft.origin, values)) from None


def _resolve_data_paths(draft: ExperimentDraft, data: dict[str, Any]) -> None:
    """Make the paths in the section `data` absolute, so that a run can be used from any folder."""
    for key in TASKS.section_class(data).path_keys & data.keys():
        path = ("data", key, "path") if isinstance(data[key], dict) else ("data", key)
        data[key] = absolute_paths(data[key], draft.folder(path))


def _resolve_embedding_paths(draft: ExperimentDraft, values: dict[str, Any]) -> None:
    """The same for the files of pretrained embeddings."""
    for *sections, key in EMBEDDING_FILES:
        section: Any = values
        for name in sections:
            section = section.get(name) if isinstance(section, dict) else None
        if isinstance(section, dict) and key in section:
            section[key] = absolute_paths(section[key], draft.folder((*sections, key)))


def resolve_experiment(
    experiment: str | os.PathLike[str] | Mapping[str, Any] | Experiment,
    overrides: Mapping[str, Any] | Sequence[Override] | None = None,
    *,
    defaults: Experiment | None = None,
    check_files: bool = False,
) -> Experiment:
    """The experiment that an argument of the Python API describes.

    Args:
        experiment: Name of a recipe, path of a YAML file, a dictionary of settings (nested, or with keys such as
            `training.seed`; it may extend a recipe or file), or an `Experiment`.
        overrides: Settings that replace those of the experiment, as a dictionary of the same form, or as a list of
            `Override`.
        defaults: Settings that are extended, by the experiment and by what it extends.
        check_files: Whether the files that the settings name must exist, as they must before a training.

    Raises:
        UserError: If an argument has another type, a file cannot be read or a setting is invalid.
    """
    changes = _override_layer(overrides)
    if isinstance(experiment, os.PathLike):  # a file, even if a recipe has this name
        experiment = os.path.join(os.curdir, parse_path(experiment, "experiment"))
    if isinstance(experiment, str):
        return load_experiment(experiment, changes, defaults=defaults, check_files=check_files)
    if isinstance(experiment, Experiment):
        where = "the experiment"
        layers = _experiment_layers(experiment)
    elif isinstance(experiment, Mapping):
        where = "the dictionary"
        layers = _dict_layers(experiment, where)
    else:
        raise UserError(
            f"{short_repr(experiment)} is not an experiment; give the name of a recipe, the path of a YAML file, a "
            "dictionary of settings or an Experiment"
        )
    draft = ExperimentDraft(where)
    for layer in (*_experiment_layers(defaults), *layers, changes):
        draft.add_layer(layer)
    resolved = _validate(draft)
    if check_files:
        _check_files(draft, resolved, resolved.path_keys)
    return resolved


def _experiment_layers(experiment: Experiment | None) -> list[list[Override]]:
    """All settings of an experiment as one layer; none without an experiment."""
    if experiment is None:
        return []
    where = "the experiment"
    return [[Override(leaf.path, leaf.value, where) for leaf in parse_settings(dump_experiment(experiment), where)]]


def _override_layer(overrides: object) -> list[Override]:
    if isinstance(overrides, list) and all(isinstance(each, Override) for each in overrides):
        return overrides
    return _dict_layer({} if overrides is None else overrides, "overrides")


def _dict_layers(settings: Mapping[str, Any], origin: str) -> list[list[Override]]:
    """The settings of a dictionary, after those of what it extends."""
    layers, own = [], []
    for override in _dict_layer(settings, origin):
        if override.path != ("extends",):
            own.append(override)
        elif isinstance(override.value, str):
            layers += _read_layers(override.value, Path(), f"{origin}: extends", ())
        else:
            problem = f"{short_repr(override.value)} should be a recipe's name or a file's path"
            raise UserError(f"{origin}: extends: {problem}")
    return [*layers, own]


def _dict_layer(settings: object, origin: str) -> list[Override]:
    """The settings of a dictionary, nested or with keys that are joined by dots."""
    layer: dict[KeyPath, Override] = {}
    for path, value in _dict_leaves(settings, origin, ()):
        if path in layer:
            raise UserError(f"{origin}: {'.'.join(path)}: this key appears twice")
        layer[path] = Override(path, plugins.plain_settings(value), origin)
    return list(layer.values())


def _dict_leaves(settings: object, origin: str, prefix: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    if not isinstance(settings, Mapping):
        raise UserError(f"{origin}: {short_repr(settings)} should be a dictionary, such as {{'training.seed': 2}}")
    for key, value in settings.items():
        if not isinstance(key, str):
            raise UserError(f"{origin}: the key {short_repr(key)} should be a string, such as 'training.seed'")
        path = (*prefix, *key_path(key))
        if isinstance(value, Mapping) and value:
            yield from _dict_leaves(value, origin, path)
        else:
            yield path, value
