"""All settings of an experiment with their meaning and their defaults, as commented YAML or as a dictionary."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from regard.config.base import KeyPath, Section
from regard.config.families import subsection_kinds
from regard.config.schema import Experiment
from regard.config.yaml_source import YamlDumper

WIDTH = 100  # characters of a comment


@dataclass(frozen=True)
class Setting:
    """A setting, or a section of settings.

    Args:
        path: The keys that lead to it.
        description: What it means.
        value: Its value; None for a section.
        default: Its default, as a list of one value; empty if there is none.
        is_section: Whether it is a section, whose settings follow.
    """

    path: KeyPath
    description: str
    value: Any
    default: list[Any]
    is_section: bool

    @property
    def differs(self) -> bool:
        """Whether it has a default that is another value, and not empty."""
        return not self.is_section and self.default not in ([], [""], [self.value])


def list_settings(experiment: Experiment) -> Iterator[Setting]:
    """All settings of an experiment, each section before its own settings.

    Args:
        experiment: The experiment.
    """
    return _list_section(experiment, (), {}, {})


def _list_section(
    section: Section, path: KeyPath, defaults: Mapping[str, Any], descriptions: Mapping[str, str]
) -> Iterator[Setting]:
    """The settings of a section. What the section around it knows better replaces defaults and descriptions."""
    descriptions, plain = {**section.descriptions(), **descriptions}, section.model_dump()
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        known = [] if field.is_required() else [field.get_default(call_default_factory=True)]
        default = [defaults[name]] if name in defaults else known
        if not isinstance(value, Section):
            yield Setting((*path, name), descriptions[name], plain[name], default, False)
            continue
        yield Setting((*path, name), descriptions[name], None, [], True)
        kinds = subsection_kinds(type(section), name)
        kind = {kinds.key: kinds.describe(getattr(value, kinds.key))} if kinds else {}
        yield from _list_section(value, (*path, name), _inner_defaults(value, default, kind), kind)


def _inner_defaults(section: Section, default: list[Any], keys: Iterable[str]) -> dict[str, Any]:
    """The settings of a default section; only its `keys`, such as `kind`, if `section` is of another kind."""
    if not default:
        return {}
    same = type(default[0]) is type(section)
    return {key: getattr(default[0], key) for key in (type(section).model_fields if same else keys)}


def format_settings(experiment: Experiment) -> str:
    """YAML that loads as an equal experiment, with a comment above each setting.

    Args:
        experiment: The experiment.
    """
    return "".join(f"{line}\n" for setting in list_settings(experiment) for line in _format_setting(setting))


def _format_setting(setting: Setting) -> Iterator[str]:
    indent = "  " * (len(setting.path) - 1)
    name = setting.path[-1]
    if not indent and name != next(iter(Experiment.model_fields)):
        yield ""
    comment = setting.description + (f" Default: {_inline(setting.default[0])}." if setting.differs else "")
    prefix = f"{indent}# "
    yield from textwrap.wrap(
        comment, WIDTH, initial_indent=prefix, subsequent_indent=prefix, break_long_words=False, break_on_hyphens=False
    )
    lines = [f"{name}:"] if setting.is_section else _dump({name: setting.value}).splitlines()
    yield from (f"{indent}{line}" for line in lines)


def _dump(value: Any, **options: Any) -> str:
    return yaml.dump(value, Dumper=YamlDumper, sort_keys=False, allow_unicode=True, **options)


def _inline(value: Any) -> str:
    """A value in YAML on one line."""
    return _dump(value, default_flow_style=True, width=float("inf")).removesuffix("...\n").strip()


def settings_to_dict(experiment: Experiment) -> dict[str, dict[str, Any]]:
    """For each setting, by its key such as `training.seed`: its value, its default and what it means.

    Args:
        experiment: The experiment.
    """
    return {
        ".".join(setting.path): {
            "value": setting.value,
            **({"default": setting.default[0]} if setting.default else {}),
            "description": setting.description,
        }
        for setting in list_settings(experiment)
        if not setting.is_section
    }
