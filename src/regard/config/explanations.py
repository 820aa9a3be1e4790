"""Readable messages for invalid settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from reprlib import repr as short_repr
from typing import Any, Literal, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from regard.config.base import KeyPath, Section
from regard.config.families import Kinds, subsection_class, subsection_kinds
from regard.errors import nearest, suggest


def explain_validation_error(
    error: ValidationError,
    section: type[Section],
    prefix: KeyPath,
    origin: Callable[[KeyPath], str],
    values: Mapping[str, Any] | None = None,
) -> str:
    """One line for each invalid setting: where it was set, its key, its value and what would be valid.

    Args:
        error: What pydantic raised.
        section: The class of the section that was validated.
        prefix: The keys that lead from the experiment to that section.
        origin: Returns the file and line in which a key was set.
        values: The settings that were validated; they determine the kinds of the subsections.
    """
    lines = []
    for details in error.errors():
        path = tuple(str(part) for part in details["loc"])
        if details["type"] == "invalid_combination":
            path += tuple(details["ctx"]["key"].split("."))
        section_path = path if details["type"] == "model_type" else path[:-1]
        problem = _describe(details, path[-1] if path else "", *_section_at(section, section_path, values or {}))
        path = prefix + path
        lines.append(f"{origin(path)}: {'.'.join(path)}: {problem}")
    return "\n".join(lines)


def _section_at(section: type[Section], path: KeyPath, values: object) -> tuple[type[Section], Kinds[Any] | None, str]:
    """The class of the section at `path`; if it is one of several kinds, also its family and its kind."""
    kinds, kind = None, ""
    for key in path:
        values = values.get(key) if isinstance(values, Mapping) else None
        inner = subsection_class(section, key, values)
        if inner is not None:
            kinds = subsection_kinds(section, key)
            chosen = values.get(kinds.key) if kinds is not None and isinstance(values, Mapping) else None
            kind = str(chosen or kinds.default) if kinds is not None else ""
            section = inner
    return section, kinds, kind


def _describe(details: ErrorDetails, key: str, section: type[Section], kinds: Kinds[Any] | None, kind: str) -> str:
    context: Mapping[str, Any] = details.get("ctx", {})
    value = short_repr(details["input"])  # which may be of any type and size
    match details["type"]:
        case "invalid_combination" | "plugin" | "unknown_device":
            return str(context["message"])
        case "extra_forbidden" if key in section.renamed:
            return f"this setting is now written {section.renamed[key]}"
        case "extra_forbidden" if kinds is not None:
            options = [name for name in section.model_fields if name != kinds.key]
            others = ", ".join(kinds.with_option(key))
            hint = "" if others else nearest(key, options)
            refused = f"{key} (an option of {others})" if others else key
            return f"'{kind}' {kinds.noun} has no option {refused}; {hint}it has {', '.join(options) or 'none'}"
        case "extra_forbidden":
            return f"unknown key; {suggest(key, section.model_fields)}"
        case "literal_error":
            choices = _literal_choices(section.model_fields[key].annotation)
            return f"{value} is not a valid choice; {suggest(details['input'], choices)}"
        case "unknown_kind" if details["input"] is None:
            return f"missing; {suggest(None, context['choices'])}"
        case "unknown_kind":
            return f"{value} is not a valid choice; {suggest(details['input'], context['choices'])}"
        case "missing":
            return "missing; this key is required"
        case "value_error":
            return f"{value} is invalid: {context['error']}"
        case "model_type":
            return f"{value} is not a section; it has the keys {', '.join(section.model_fields)}"
        case _:
            return f"{value} is invalid: {details['msg'][0].lower()}{details['msg'][1:]}"


def _literal_choices(annotation: Any) -> list[str]:
    """The choices of a `Literal`, which may be part of a union such as `Literal["a", "b"] | None`."""
    if get_origin(annotation) is Literal:
        return [str(choice) for choice in get_args(annotation)]
    return [choice for part in get_args(annotation) for choice in _literal_choices(part)]
