"""What every section of an experiment file has in common, and how a wrong one is explained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from reprlib import repr as in_short
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from regard.errors import suggest

Path = tuple[str, ...]


class Section(BaseModel):
    """A group of settings: typed, checked when made, and never changed afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def invalid_combination(key: str, message: str) -> PydanticCustomError:
    """Settings that are right one by one and wrong together; `key` is relative to the section that raises."""
    return PydanticCustomError("impossible", "{message}", {"key": key, "message": message})


def explain_validation_error(
    error: ValidationError, section: type[Section], prefix: Path, origin: Callable[[Path], str]
) -> str:
    """A line for each mistake: where it was made, the key, the value, what would be right.

    `section` was being validated, at `prefix` in the experiment; `origin` tells in which file and line a key was set.
    """
    lines = []
    for details in error.errors():
        path = tuple(str(part) for part in details["loc"])
        if details["type"] == "impossible":
            path += tuple(details["ctx"]["key"].split("."))
        at = path if details["type"] == "model_type" else path[:-1]
        problem = _problem(details, path[-1] if path else "", _section_at(section, at))
        path = prefix + path
        lines.append(f"{origin(path)}: {'.'.join(path)}: {problem}")
    return "\n".join(lines)


def _section_at(section: type[Section], path: Path) -> type[Section]:
    for part in path:
        field = section.model_fields.get(part)
        inner = field.annotation if field else None
        for kind in (inner, *get_args(inner)):  # a section, or a list of them
            if isinstance(kind, type) and issubclass(kind, Section):
                section = kind
    return section


def _problem(details: ErrorDetails, key: str, section: type[Section]) -> str:
    context: Mapping[str, Any] = details.get("ctx", {})
    value = in_short(details["input"])  # which may be anything, and of any size
    match details["type"]:
        case "impossible":
            return str(context["message"])
        case "extra_forbidden":
            return f"unknown key; {suggest(key, section.model_fields)}"
        case "literal_error":
            choices = [str(choice) for choice in get_args(section.model_fields[key].annotation)]
            return f"{value} is not a valid choice; {suggest(details['input'], choices)}"
        case "missing":
            return "missing; this key is required"
        case "value_error":
            return f"{value} is invalid: {context['error']}"
        case "model_type":
            return f"{value} is not a section; it has the keys {', '.join(section.model_fields)}"
        case _:
            return f"{value} is invalid: {details['msg'][0].lower()}{details['msg'][1:]}"
