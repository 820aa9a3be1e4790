"""Modules from the settings of a class that is checked, whose name need not be registered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from itertools import product
from typing import Any

import torch
from pydantic import BaseModel, ValidationError
from torch import nn

from regard.errors import UserError, suggest
from regard.testing.failures import PropertyError, describe_error

STATE_SIZES = (11, 12, 60, 64)
POSITIONS_SECTION = {"kind": "learned", "longest": 13}


def make_section(kind: type[Any], options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The settings of a class, and those options that are parameters of its constructor only.

    Args:
        kind: The class, with its attribute `Section`.
        options: Settings, or keyword arguments of the constructor.

    Raises:
        UserError: If an option is unknown, or invalid.
    """
    section = section_of(kind)
    fields = section.model_fields
    values = {name: value for name, value in options.items() if name in fields}
    rest = {name: value for name, value in options.items() if name not in fields}
    keywords = constructor_keywords(kind)
    for name in rest:
        if keywords is not None and name not in keywords:
            known = sorted({*fields, *keywords} - {"kind"})
            raise UserError(f"{kind.__name__} has no option {name}; {suggest(name, known)}")
    if "kind" in fields and fields["kind"].is_required():
        values["kind"] = kind.__name__
    return validated(section, values, kind.__name__), rest


def section_of(kind: type[Any]) -> type[BaseModel]:
    """The settings class of a class.

    Args:
        kind: The class, which defines or inherits `Section`.
    """
    section: type[BaseModel] | None = getattr(kind, "Section", None)
    if section is None:
        problem = "it has no `Section`: name its settings class, a subclass of the one that its family has"
        raise PropertyError(kind.__name__, problem)
    return section


def constructor_keywords(kind: type) -> set[str] | None:
    """The keyword-only parameters of a class; None if it takes any.

    Args:
        kind: The class.
    """
    parameters = signature(kind).parameters.values()
    if any(each.kind == Parameter.VAR_KEYWORD for each in parameters):
        return None
    return {each.name for each in parameters if each.kind == Parameter.KEYWORD_ONLY or each.default is not each.empty}


def validated(section: type[BaseModel], values: Mapping[str, Any], name: str) -> Any:
    """A section with these settings.

    Args:
        section: The class of the section.
        values: The settings.
        name: The class that has these settings, for the message.

    Raises:
        UserError: If a setting is invalid.
    """
    try:
        return section(**values)
    except ValidationError as error:
        problems = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise UserError(f"{name} with {dict(values)}: {'; '.join(problems)}") from None


def seeded(build: Callable[[], nn.Module], seed: int) -> Any:
    """A module with weights drawn from a seed, in evaluation mode.

    Noise is added to all weights, as training would: weights that start as zeros would hide mistakes.

    Args:
        build: Returns the module.
        seed: The seed.
    """
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        module = build()
        for weight in module.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.1)
    return module.eval()


def construction_failure(kind: type, error: Exception) -> PropertyError:
    """The failure of a class that cannot be constructed.

    Args:
        kind: The class.
        error: What its constructor raised.
    """
    return PropertyError(
        kind.__name__,
        f"it cannot be constructed from its settings ({describe_error(error)}): every setting of its Section but "
        "`kind` is passed to the constructor as a keyword argument; add the missing ones to either, or override "
        "`from_section`",
    )


def coder_section(kind: type[Any], options: Mapping[str, Any], size: int | None = None) -> Any:
    """The settings of an encoder or a decoder, with the first size that it does not refuse.

    Args:
        kind: The class.
        options: Its settings.
        size: The size of its state; None for any.

    Raises:
        UserError: If no size is accepted, or an option is invalid.
    """
    refusal = UserError(f"{kind.__name__} has no settings")
    sizes = STATE_SIZES if size is None else (size,)
    # Two layers show more than one, but not every class has them.
    for layers, each in product((2, 1), sizes):
        values = {"embedding": 5, "size": each, "layers": layers, "positions": POSITIONS_SECTION, **options}
        try:
            section, rest = make_section(kind, values)
        except UserError as error:
            refusal = error
            continue
        if rest:
            raise UserError(f"{kind.__name__}: {', '.join(rest)} is not in its Section, which `from_section` reads")
        return section
    raise refusal
