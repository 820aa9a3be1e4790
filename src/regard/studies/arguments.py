"""A study from Python values: the arguments of `regard.compare` as settings, each with the name of its argument."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from reprlib import repr as short_repr
from typing import Any

from regard.config import plugins
from regard.config.yaml_source import YamlLeaf
from regard.errors import UserError
from regard.studies.axes import option_label
from regard.studies.parsing import flatten_leaf

FUNCTION = "regard.compare"  # an origin in messages
EXAMPLES = {
    "overrides": {"training.epochs": 2},
    "vary": {"model.attention.kind": ["none", "dot"]},
    "test": {"beam": [1, 5]},
    "baseline": {"model.attention.kind": "none"},
}
KEYS = {"overrides": "set"}  # the key in a study file, where it has another name


def from_values(sections: Mapping[str, object], plan: Mapping[str, object]) -> list[YamlLeaf]:
    """The settings of a study from Python values. Relative paths refer to the current folder.

    Args:
        sections: The dictionaries `vary`, `test`, `overrides` and `baseline`, by name; None if not given.
        plan: The values of other keys of a study; None if not given.

    Raises:
        UserError: A value has a type that settings do not have.
    """
    given = ((name, value) for name, value in plan.items() if value is not None)
    leaves = [YamlLeaf((name,), plain_value(value, name), FUNCTION, Path.cwd()) for name, value in given]
    for name, values in sections.items():
        if values is not None and not isinstance(values, Mapping):
            raise UserError(f"{name}: {short_repr(values)} should be a dict, such as {EXAMPLES[name]}")
        origin = FUNCTION if name == "baseline" else name  # its messages name the key themselves
        for key, value in plain_value(values or {}, name).items():
            leaves += flatten_leaf(YamlLeaf((KEYS.get(name, name), key), value, origin, Path.cwd()))
    return leaves


def plain_value(value: object, where: str) -> Any:
    """A value as YAML has it: tuples as lists, paths as texts, classes as import paths, numbers of numpy as Python's.

    Args:
        value: Any value.
        where: The argument that has it, for messages.

    Raises:
        UserError: YAML does not have such values.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str | os.PathLike):
        return str(value)
    if inspect.isclass(value) or inspect.isfunction(value):
        return plugins.reference_to(value)
    if isinstance(value, Integral | Real):
        return int(value) if isinstance(value, Integral) else float(value)
    if isinstance(value, Mapping):
        keys = [option_label(plain_value(key, where)) for key in value]
        return {key: plain_value(each, f"{where}: {key}") for key, each in zip(keys, value.values(), strict=True)}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [plain_value(each, where) for each in value]
    hint = "; name a metric by its import path, such as my.py:length_ratio" if where == "metrics" else ""
    raise UserError(
        f"{where}: {short_repr(value)} should be a text, a number, a truth value, None, or a list or dict of "
        f"these{hint}"
    )
