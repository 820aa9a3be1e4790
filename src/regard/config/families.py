"""Families of kinds, such as the attention mechanisms: tables of names and classes, extended by plug-ins."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, TypeVar, get_args

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from regard.config import plugins
from regard.config.base import KeyPath, Section, summary
from regard.config.references import REFERENCE

AnySection = TypeVar("AnySection", bound=Section)


class Kinds(Mapping[str, Any], Generic[AnySection]):
    """A family of classes (or other objects) by name, each imported when it is first used.

    The names of the mapping are those of the built-in members. Plug-ins (`regard.config.plugins`) are looked up by the
    same methods, by their import path or registered name.

    Args:
        noun: What a member is called in messages, for example "attention".
        default: The kind that a section has when it names none; empty: it has to name one.
        members: For each kind, where its class is, as "package.module:Class", or the object itself.
        base: The class that a plug-in must be a subclass or an instance of, or where it is; None: no plug-ins.
        section: The base class of the members' settings; None if they have none.
        key: The name of the setting that chooses the kind.
        instances: True if members are instances of `base`, False if they are subclasses.
    """

    def __init__(
        self,
        noun: str,
        default: str,
        members: Mapping[str, Any],
        *,
        base: str | type | None = None,
        section: type[AnySection] | None = None,
        key: str = "kind",
        instances: bool = False,
    ) -> None:
        self.noun = noun
        self.default = default
        self.section = section
        self.key = key
        self._members = members
        self._base = base
        self._instances = instances

    def __getitem__(self, kind: str) -> Any:
        if kind not in self._members:
            return self._plugin(kind)
        member = self._members[kind]
        return import_object(member) if isinstance(member, str) else member

    def __contains__(self, kind: object) -> bool:
        return kind in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def parse_name(self, value: object) -> str:
        """The name of a kind, validated; the error lists the built-in names.

        Args:
            value: Should be the name of a kind, or the class of a plug-in.
        """
        try:
            name = plugins.reference_to(value) if inspect.isclass(value) and self._base else value
            name = next((kind for kind, each in self._members.items() if isinstance(each, str) and each == name), name)
            if isinstance(name, str) and (name in self._members or (self._base and plugins.is_plugin(name))):
                _ = self[name]
                return name
        except plugins.PluginError as error:
            raise PydanticCustomError("plugin", "{message}", {"message": str(error)}) from None
        raise PydanticCustomError("unknown_kind", "unknown kind", {"choices": list(self)})

    def _plugin(self, name: str) -> Any:
        """The object of a plug-in, of the type that this family has."""
        if self._base is None or not plugins.is_plugin(name):
            raise KeyError(name)
        found = plugins.load_object(name)
        base = import_object(self._base) if isinstance(self._base, str) else self._base
        fits = isinstance(found, base) if self._instances else isinstance(found, type) and issubclass(found, base)
        if not fits:
            relation = "an instance" if self._instances else "a subclass"
            raise plugins.PluginError(
                f"'{name}' cannot be used as {self.noun}: it should be {relation} of {base.__module__}.{base.__name__}"
            )
        if inspect.isabstract(found) and not any(inspect.isabstract(each) for each in self.values()):
            missing = ", ".join(sorted(found.__abstractmethods__))
            raise plugins.PluginError(f"'{name}' does not define {missing}, which every {self.noun} needs")
        own = getattr(found, "Section", None)
        if self.section is not None and not (isinstance(own, type) and issubclass(own, self.section)):
            raise plugins.PluginError(
                f"'{name}' needs a class attribute Section, a subclass of "
                f"{self.section.__module__}.{self.section.__name__}"
            )
        return found

    def section_class(self, values: object) -> type[AnySection]:
        """The settings class of the kind that is named; that of the default kind, or the base, if there is none.

        Args:
            values: The settings of a section, not validated.
        """
        kind = values.get(self.key) if isinstance(values, Mapping) else None
        try:
            found: type[AnySection] = self[self.parse_name(kind)].Section
        except PydanticCustomError:  # which validation explains
            assert self.section is not None
            found = self[self.default].Section if self.default else self.section
        return found

    def parse_section(self, values: object) -> AnySection | object:
        """The section, validated by the settings class of the kind that is named.

        Args:
            values: The settings of a section, or a section.
        """
        if self.section is not None and isinstance(values, self.section):
            self._parse_key(getattr(values, self.key))
            return values
        if not isinstance(values, Mapping):
            return self.section_class(values).model_validate(values)  # which explains what it should be
        kind = self._parse_key(values.get(self.key, self.default or None))
        return self.section_class({self.key: kind}).model_validate({**values, self.key: kind})

    def _parse_key(self, value: object) -> str:
        try:
            return self.parse_name(value)
        except PydanticCustomError as error:
            details: InitErrorDetails = {"type": error, "loc": (self.key,), "input": value}
            raise ValidationError.from_exception_data(self.noun, [details]) from None

    def default_section(self) -> AnySection:
        """The section of the default kind with its default options."""
        section: type[AnySection] = self[self.default].Section
        return section(**{self.key: self.default})

    def all_options(self) -> set[str]:
        """The names of the options of all built-in kinds."""
        return {name for kind in self for name in self[kind].Section.model_fields}

    def with_option(self, option: str) -> list[str]:
        """The built-in kinds that have an option.

        Args:
            option: The name of the option.
        """
        return [kind for kind in self if option in self[kind].Section.model_fields]

    def describe(self, name: str) -> str:
        """What a kind is, and what the built-in kinds are.

        Args:
            name: The name of the kind.
        """
        return f"{summary(self[name])} Choices: {', '.join(self)}."

    def name_schema(self) -> dict[str, Any]:
        """The JSON schema of the name of a kind: built in, a class elsewhere, or registered by a package."""
        names: list[dict[str, Any]] = [{"const": kind, "description": summary(self[kind])} for kind in self]
        if self._base:
            reference = {
                "type": "string",
                "pattern": f"^(?:{REFERENCE.pattern})$",
                "description": "A class outside Regard.",
            }
            names += [reference, *({"const": name} for name in plugins.registered_names())]
        return {"anyOf": names} | ({"default": self.default} if self.default else {})


def import_object(path: str) -> Any:
    """The object at an import path of Regard's own.

    Args:
        path: "package.module:Name".
    """
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


@dataclass(frozen=True)
class SectionOf:
    """Annotation of a field that holds a section of any kind of a family.

    Args:
        kinds: The family.
    """

    kinds: Kinds[Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.kinds.parse_section, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The settings of the kind that is named; those of any kind if none is named; everything for a plug-in."""
        kinds, key = self.kinds, self.kinds.key
        # As definitions, because `handler` applies a section's own method to inner schemas only.
        inner = {
            kind: core_schema.definitions_schema(kinds[kind].Section.__pydantic_core_schema__, []) for kind in kinds
        }
        sections = {kind: handler(each) for kind, each in inner.items()}
        distinct = [each for number, each in enumerate(sections.values()) if each not in [*sections.values()][:number]]
        choices = [
            {"if": {"properties": {key: {"const": kind}}, "required": [key]}, "then": section}
            for kind, section in sections.items()
        ]
        unnamed = {"if": {"not": {"required": [key]}}, "then": {"anyOf": distinct}}
        return {"type": "object", "properties": {key: kinds.name_schema()}, "allOf": [*choices, unnamed]}


@dataclass(frozen=True)
class NameOf:
    """Annotation of a field that holds the name of a kind that has no options of its own.

    Args:
        kinds: The family.
    """

    kinds: Kinds[Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.kinds.parse_name)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The names of the kinds."""
        return self.kinds.name_schema()


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


def plugin_names(section: Section) -> Iterator[str]:
    """The names of all plug-ins that a section and those below it use.

    Args:
        section: For example an experiment.
    """
    for key, field in type(section).model_fields.items():
        value = getattr(section, key)
        kinds = next((each.kinds for each in field.metadata if isinstance(each, SectionOf | NameOf)), None)
        if kinds is not None:
            name = value if isinstance(value, str) else getattr(value, kinds.key)
            yield from [name] * (name not in kinds)
        if isinstance(value, Section):
            yield from plugin_names(value)
