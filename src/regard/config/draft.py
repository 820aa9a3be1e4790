"""Settings that are not validated yet: merged from several layers, each key with the location where it was set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.config import yaml_source
from regard.config.base import KeyPath
from regard.config.families import kind_sections
from regard.config.kinds import TASKS
from regard.config.references import absolute_references
from regard.config.schema import Experiment
from regard.errors import UserError

DESCRIPTION = ("description",)
TEXTS = (DESCRIPTION, ("question",), ("expect",))  # for people, also of studies: they are not references


@dataclass(frozen=True)
class Override:
    """A new value for one key of an experiment.

    Args:
        path: The keys that lead to the setting.
        value: The new value.
        origin: Where it was set, for messages: a file and line, or an option of the command line.
        folder: The folder that relative paths in the value refer to.
    """

    path: KeyPath
    value: Any
    origin: str
    folder: Path = Path()

    @classmethod
    def parse(cls, text: str, option: str = "--set") -> Override:
        """The override that is written as `training.seed=2` on the command line.

        Args:
            text: KEY=VALUE, the value in YAML.
            option: The option that it follows, for messages.
        """
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UserError(f"{option} {text}: this should be KEY=VALUE, as in {option} training.seed=2")
        return cls(key_path(key), yaml_source.parse_value(value, f"{option} {text}"), f"{option} {text}")


def key_path(key: str) -> KeyPath:
    """`training.seed` as ("training", "seed").

    Args:
        key: Keys joined by dots.
    """
    return tuple(key.strip().split("."))


class ExperimentDraft:
    """The settings of an experiment before validation: for each key its value and where it was set.

    Args:
        name: What the experiment is called in messages.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.values: dict[KeyPath, Any] = {}
        self.origins: dict[KeyPath, str] = {}
        self.folders: dict[KeyPath, Path] = {}

    def set(self, override: Override) -> None:
        """Set one key. This replaces values of keys below and above it; `{}` changes nothing.

        Args:
            override: The key and its value.
        """
        path = override.path
        if override.value == {} and any(_is_below(key, path) for key in self.values):
            return
        for known in [key for key in self.values if _is_below(key, path) or _is_below(path, key)]:
            del self.values[known], self.folders[known]
        value = override.value if path in TEXTS else absolute_references(override.value, override.folder)
        self.values[path] = value
        self.origins[path] = override.origin
        self.folders[path] = override.folder

    def add_layer(self, layer: Sequence[Override]) -> None:
        """Set the keys of one file, or of all options of the command line together.

        If the layer switches the kind of a section, options of the old kind that the new kind does not have are
        removed, unless this layer sets them itself.

        Args:
            layer: The keys and values.
        """
        before = dict(self._kind_options())
        self.merge(layer)
        own = {override.path for override in layer}
        for path, options in self._kind_options():
            self._discard(path, before[path] - options if path in before else frozenset(), own)

    def merge(self, layer: Sequence[Override]) -> None:
        """Set the keys of a layer. A layer that changes the texts of the experiment resets its description.

        Args:
            layer: The keys and values.
        """
        texts = self._texts()
        for override in layer:
            self.set(override)
        if texts != self._texts() and all(override.path != DESCRIPTION for override in layer):
            self._discard((), {"description"}, frozenset())

    def discard_unused_options(self) -> None:
        """Remove the options that belong to other kinds than the chosen ones."""
        for path, kinds, values in list(kind_sections(Experiment, self.nested())):
            self._discard(path, kinds.all_options() - kinds.section_class(values).model_fields.keys(), frozenset())

    def origin(self, path: KeyPath) -> str:
        """Where `path` was set; failing that, a key below it, or the nearest key above it.

        Args:
            path: The keys that lead to a setting.
        """
        if not path:
            return self.name
        below = [key for key in self.origins if _is_below(key, path)]
        return self.origins[min(below, key=len)] if below else self.origin(path[:-1])

    def folder(self, path: KeyPath) -> Path:
        """The folder that relative paths in this setting refer to.

        Args:
            path: The keys that lead to a setting.
        """
        return self.folders[path] if path in self.folders else self.folder(path[:-1])

    def nested(self) -> dict[str, Any]:
        """All settings as nested dictionaries."""
        tree: dict[str, Any] = {}
        for path, value in self.values.items():
            branch = tree
            for part in path[:-1]:
                branch = branch.setdefault(part, {})
            branch[path[-1]] = value
        return tree

    def _kind_options(self) -> Iterator[tuple[KeyPath, Set[str]]]:
        """For each section of one of several kinds, the options of the chosen kind."""
        for path, kinds, values in kind_sections(Experiment, self.nested()):
            yield path, kinds.section_class(values).model_fields.keys()

    def _texts(self) -> dict[str, Any]:
        """The settings that determine which texts the experiment is about."""
        data = self.nested().get("data")
        if not isinstance(data, Mapping):
            return {"data": data}
        return {key: data.get(key) for key in ("task", "source", "target", *TASKS.section_class(data).path_keys)}

    def _discard(self, path: KeyPath, options: Set[str], kept: Set[KeyPath]) -> None:
        for key in [key for key in self.values if _is_below(key, path) and key not in kept]:
            if key[len(path) : len(path) + 1] and key[len(path)] in options:
                del self.values[key], self.origins[key], self.folders[key]


def _is_below(key: KeyPath, path: KeyPath) -> bool:
    """Whether `key` is `path` or lies below it."""
    return key[: len(path)] == path
