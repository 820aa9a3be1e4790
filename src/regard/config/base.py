"""Base classes of the configuration sections."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError

from regard.config.references import short_reference

KeyPath = tuple[str, ...]
Size = Annotated[int, Field(ge=1, le=16_384)]
Count = Annotated[int, Field(ge=1, le=1_024)]


def unknown_device(name: str) -> str | None:
    """The problem if a name is not that of a device; None if it is one, which the machine need not have.

    Args:
        name: Should be `auto`, `cpu`, `mps`, `cuda` or `cuda:N`.
    """
    # PyTorch reads cuda:256 as cuda:0.
    if re.fullmatch(r"auto|(cpu|mps|cuda)(:(0|[1-9][0-9]?))?", name):
        return None
    return f"'{name}' is not a device; choose auto, cpu, mps, cuda or cuda:N"


def _check_device(name: str) -> str:
    if problem := unknown_device(name):
        raise PydanticCustomError("unknown_device", "{message}", {"message": problem})
    return name


DeviceName = Annotated[str, AfterValidator(_check_device)]


class Section(BaseModel):
    """A group of settings: typed, validated when constructed, and immutable.

    Attributes:
        renamed: How settings of earlier versions are written now, for the message that refuses them.
    """

    renamed: ClassVar[Mapping[str, str]] = {}
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    def __hash__(self) -> int:
        """Settings may be lists, which have no hash of their own."""
        return hash(self.model_dump_json())

    @classmethod
    def descriptions(cls) -> dict[str, str]:
        """What each setting means: the `Attributes` in the docstrings of the class and its bases."""
        docs = [documented_attributes(base) for base in reversed(cls.__mro__)]
        return {name: text for each in docs for name, text in each.items() if name in cls.model_fields}

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The schema of this section in an experiment file, where every setting may be left out."""
        reference = handler(core_schema)
        schema = handler.resolve_ref_schema(reference)
        schema["description"] = summary(cls)
        for key in ("title", "required"):
            schema.pop(key, None)
        for name, text in cls.descriptions().items():
            schema["properties"][name].pop("title", None)
            schema["properties"][name]["description"] = text
        return reference


class KindSection(Section):
    """Settings of one kind of a family, such as one attention mechanism.

    Subclasses are defined next to the class that they configure, which names its subclass `Section`.

    Attributes:
        kind: Name of the kind: one of its family's table, such as `additive`, or that of a plug-in.
    """

    kind: str

    @property
    def label(self) -> str:
        """The name of the kind for people: a class in a file without the folder of the file."""
        return short_reference(self.kind)

    def options(self) -> dict[str, Any]:
        """All settings but `kind`, as keyword arguments for the class that they configure."""
        return {name: getattr(self, name) for name in type(self).model_fields if name != "kind"}


def summary(documented: object) -> str:
    """The first line of a docstring.

    Args:
        documented: For example a class.
    """
    return inspect.cleandoc(documented.__doc__ or "").partition("\n")[0]


def documented_attributes(documented: type) -> dict[str, str]:
    """The entries below `Attributes:` in the docstring of a class itself, each as one line.

    Args:
        documented: The class.
    """
    _, _, entries = inspect.cleandoc(documented.__dict__.get("__doc__") or "").partition("\nAttributes:\n")
    found = re.findall(r"^    (\w+): (.*(?:\n {5,}.*)*)", entries, re.MULTILINE)
    return {name: re.sub(r"\bNone\b", "null", " ".join(text.split())) for name, text in found}


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
