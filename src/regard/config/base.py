"""Base classes of the configuration sections, and readable messages for invalid values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from reprlib import repr as short_repr
from typing import Annotated, Any, Generic, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema

from regard.errors import nearest, suggest

KeyPath = tuple[str, ...]
Size = Annotated[int, Field(ge=1, le=16_384)]
Count = Annotated[int, Field(ge=1, le=1_024)]


class Section(BaseModel):
    """A group of settings: typed, validated when constructed, and immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class KindSection(Section):
    """Settings of one kind of a family, such as one attention mechanism.

    Subclasses are defined next to the class that they configure, which names its subclass `Section`.

    Attributes:
        kind: Name of the kind in its family's table, for example `additive`.
    """

    kind: str

    def options(self) -> dict[str, Any]:
        """All settings but `kind`, as keyword arguments for the class that they configure."""
        return {name: getattr(self, name) for name in type(self).model_fields if name != "kind"}


AnyKindSection = TypeVar("AnyKindSection", bound=KindSection)


class Kinds(Mapping[str, Any], Generic[AnyKindSection]):
    """A family of classes by name, each imported when it is first used.

    Args:
        noun: What the family is called in messages, for example "attention".
        default: The kind that a section has when it names none.
        import_paths: For each kind, where its class is, as "package.module:Class".
    """

    def __init__(self, noun: str, default: str, import_paths: Mapping[str, str]) -> None:
        self.noun = noun
        self.default = default
        self._import_paths = import_paths

    def __getitem__(self, kind: str) -> Any:
        module, _, name = self._import_paths[kind].partition(":")
        return getattr(import_module(module), name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._import_paths)

    def __len__(self) -> int:
        return len(self._import_paths)

    def parse_name(self, value: object) -> str:
        """The name of a kind, validated; the error lists the names.

        Args:
            value: Should be the name of a kind.
        """
        if isinstance(value, str) and value in self._import_paths:
            return value
        raise PydanticCustomError("unknown_kind", "unknown kind", {"choices": list(self)})

    def section_class(self, values: object) -> type[AnyKindSection]:
        """The settings class of the kind that is named, or of the default kind.

        Args:
            values: The settings of a section, not validated.
        """
        kind = values.get("kind") if isinstance(values, Mapping) else None
        if not isinstance(kind, str) or kind not in self._import_paths:
            kind = self.default
        section: type[AnyKindSection] = self[kind].Section
        return section

    def parse_section(self, values: object) -> AnyKindSection | object:
        """The section, validated by the settings class of the kind that is named.

        Args:
            values: The settings of a section, or a section.
        """
        if isinstance(values, KindSection):
            self.parse_name(values.kind)
            return values
        if not isinstance(values, Mapping):
            return self.section_class(values).model_validate(values)  # which explains what it should be
        kind = values.get("kind", self.default)
        if not isinstance(kind, str) or kind not in self._import_paths:
            error = PydanticCustomError("unknown_kind", "unknown kind", {"choices": list(self)})
            raise ValidationError.from_exception_data(self.noun, [{"type": error, "loc": ("kind",), "input": kind}])
        return self.section_class(values).model_validate({**values, "kind": kind})

    def default_section(self) -> AnyKindSection:
        """The section of the default kind with its default options."""
        section: type[AnyKindSection] = self[self.default].Section
        return section(kind=self.default)

    def all_options(self) -> set[str]:
        """The names of the options of all kinds."""
        return {name for kind in self for name in self[kind].Section.model_fields}

    def with_option(self, option: str) -> list[str]:
        """The kinds that have an option.

        Args:
            option: The name of the option.
        """
        return [kind for kind in self if option in self[kind].Section.model_fields]


@dataclass(frozen=True)
class SectionOf:
    """Annotation of a field that holds a section of any kind of a family.

    Args:
        kinds: The family.
    """

    kinds: Kinds[Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.kinds.parse_section, handler(source))


@dataclass(frozen=True)
class NameOf:
    """Annotation of a field that holds the name of a kind that has no options of its own.

    Args:
        kinds: The family.
    """

    kinds: Kinds[Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.kinds.parse_name)


def subsection_kinds(section: type[Section], key: str) -> Kinds[Any] | None:
    """The family of kinds that a field of a section may hold; None if the field is not of several kinds.

    Args:
        section: The class of the section.
        key: The name of the field.
    """
    field = section.model_fields.get(key)
    return next((each.kinds for each in field.metadata if isinstance(each, SectionOf)), None) if field else None


def subsection_class(section: type[Section], key: str, values: object) -> type[Section] | None:
    """The class of the section in a field; None if the field holds no section.

    Args:
        section: The class of the outer section.
        key: The name of the field.
        values: The settings of the inner section, not validated.
    """
    kinds = subsection_kinds(section, key)
    if kinds is not None:
        return kinds.section_class(values)
    field = section.model_fields.get(key)
    inner = field.annotation if field else None
    candidates = (inner, *get_args(inner))  # a section, or a list of sections
    return next((each for each in candidates if isinstance(each, type) and issubclass(each, Section)), None)


def kind_sections(
    section: type[Section], values: object, path: KeyPath = ()
) -> Iterator[tuple[KeyPath, Kinds[Any], object]]:
    """All sections below `section` that are of one of several kinds.

    Args:
        section: The class of the outermost section.
        values: Its settings, not validated.
        path: The keys that lead to it.

    Yields:
        The keys that lead to a section, its family, and its settings.
    """
    for key in section.model_fields:
        inner_values = values.get(key) if isinstance(values, Mapping) else None
        kinds = subsection_kinds(section, key)
        if kinds is not None:
            yield (*path, key), kinds, inner_values
        inner = subsection_class(section, key, inner_values)
        if inner is not None:
            yield from kind_sections(inner, inner_values, (*path, key))


def invalid_combination(key: str, message: str) -> PydanticCustomError:
    """The error for settings that are valid one by one but not together.

    Args:
        key: The setting to report, relative to the section whose validator raises the error.
        message: What is wrong and what would be valid.
    """
    return PydanticCustomError("invalid_combination", "{message}", {"key": key, "message": message})


@contextmanager
def prefix_errors(key: str) -> Iterator[None]:
    """Report an `invalid_combination` of a subsection relative to the section that contains it.

    Args:
        key: The name of the subsection.
    """
    try:
        yield
    except PydanticCustomError as error:
        context: dict[str, Any] = error.context or {}
        raise invalid_combination(f"{key}.{context['key']}", context["message"]) from None


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
            chosen = values.get("kind") if isinstance(values, Mapping) else None
            kind = str(chosen or kinds.default) if kinds is not None else ""
            section = inner
    return section, kinds, kind


def _describe(details: ErrorDetails, key: str, section: type[Section], kinds: Kinds[Any] | None, kind: str) -> str:
    context: Mapping[str, Any] = details.get("ctx", {})
    value = short_repr(details["input"])  # which may be of any type and size
    match details["type"]:
        case "invalid_combination":
            return str(context["message"])
        case "extra_forbidden" if kinds is not None:
            options = [name for name in section.model_fields if name != "kind"]
            others = ", ".join(kinds.with_option(key))
            hint = "" if others else nearest(key, options)
            refused = f"{key} (an option of {others})" if others else key
            return f"'{kind}' {kinds.noun} has no option {refused}; {hint}it has {', '.join(options) or 'none'}"
        case "extra_forbidden":
            return f"unknown key; {suggest(key, section.model_fields)}"
        case "literal_error":
            choices = [str(choice) for choice in get_args(section.model_fields[key].annotation)]
            return f"{value} is not a valid choice; {suggest(details['input'], choices)}"
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
