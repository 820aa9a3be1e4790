"""The axes of a study: what differs between runs or evaluations."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import isfinite

from regard.config.draft import Override, key_path
from regard.config.references import short_reference
from regard.config.schema import Experiment
from regard.errors import printable


def option_label(value: object) -> str:
    """The label of an option: its value as YAML writes it; of a class in a file, without the folder of the file.

    Args:
        value: Any value that YAML has.
    """
    try:
        return short_reference(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    except TypeError:  # keys that JSON does not have
        return str(value)


def is_number(label: str) -> bool:
    """True if a label is a finite number.

    Args:
        label: The label of an option.
    """
    try:
        return isfinite(float(label))
    except ValueError:
        return False


@dataclass(frozen=True)
class Option:
    """One value of an axis.

    Args:
        label: Its label.
        settings: The settings that it changes.
    """

    label: str
    settings: tuple[Override, ...]


@dataclass(frozen=True)
class Axis:
    """One dimension of the grid: something that differs between runs or, in `test`, between evaluations.

    Args:
        name: The key, or the name of the groups of settings.
        options: Its values.
        origin: Where it was defined, for messages.
        trains: Whether it changes what is trained.
    """

    name: str
    options: tuple[Option, ...]
    origin: str
    trains: bool

    @property
    def title(self) -> str:
        """The name without its section: `attention.kind` for `model.attention.kind`."""
        section, dot, rest = self.name.partition(".")
        return rest if dot and section in Experiment.model_fields else self.name

    @property
    def changes_only_data(self) -> bool:
        """True if it changes nothing but the sentences of evaluations."""
        settings = [setting for option in self.options for setting in option.settings]
        return not self.trains and all(setting.path[0] == "data" for setting in settings)

    @property
    def labels(self) -> list[str]:
        return [option.label for option in self.options]

    def numbers(self) -> dict[str, int | float] | None:
        """The values of the key by label, if all of them are numbers or truth values; otherwise None."""
        key = key_path(self.name)
        values = {o.label: s.value for o in self.options for s in o.settings if s.path == key and len(o.settings) == 1}
        numeric = values.keys() == set(self.labels) and all(isinstance(each, int | float) for each in values.values())
        return values if numeric else None

    def full_label(self, label: str) -> str:
        """The label of an option where the axis is not shown: a bare `3` or `false` gets the title of the axis.

        Args:
            label: The label of one of the options.
        """
        bare = is_number(label) or label in ("true", "false", "null")
        return printable(f"{self.title} {label}" if bare else label)
