"""Help pages in two columns, and the options that every command has.

The classes here use only what typer has had since 0.15: its own help pages show a placeholder after flags, and boxes
that leave half of a narrow terminal to the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

Command = TypeVar("Command", bound=Callable[..., Any])
COMMON = {"quiet", "verbose"}  # options of `regard` that are accepted after the command's name, too
CONTEXT: dict[str, Any] = {"help_option_names": ["--help", "-h"], "max_content_width": 120}
PLACEHOLDERS = {"int": "N", "float": "NUMBER", "Path": "PATH", "str": "TEXT"}
FIRST_COLUMN = 30  # characters; the help of longer names begins on the next line


class HelpPage:
    """The part of a command or group that prints its help.

    Attributes:
        callback: The function of the command, whose annotations are the types of the parameters.
    """

    callback: Callable[..., Any] | None

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters of the command, then those that every command has."""
        *own, help_option = super().get_params(ctx)  # type: ignore[misc]
        root = ctx.find_root()
        common = [] if ctx is root else [each for each in root.command.params if each.name in COMMON]
        return [*own, *common, help_option]

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What follows the command's name in its usage."""
        arguments = [name_argument(each) for each in self.get_params(ctx) if is_argument(each)]
        return ["[OPTIONS]", *arguments, *["COMMAND [ARGS]..."] * isinstance(self, TyperGroup)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, the options by their headings, and the commands."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        types = get_type_hints(self.callback) if self.callback else {}
        for parameter in self.get_params(ctx):
            if not getattr(parameter, "hidden", False):
                heading = find_heading(parameter, is_root=ctx.parent is None)
                row = name_parameter(parameter, types.get(parameter.name)), describe_parameter(parameter)
                sections.setdefault(heading, []).append(row)
        sections["Commands"] = list(list_commands(self, ctx))
        for heading, rows in sections.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows, col_max=FIRST_COLUMN)


class HelpCommand(HelpPage, TyperCommand):
    """A command with this help page."""


class HelpGroup(HelpPage, TyperGroup):
    """A group of commands with this help page."""


class CommandTable(typer.Typer):
    """A table of commands, all of which have these help pages.

    Args:
        cls: The class of the group.
        settings: Further arguments of `typer.Typer`.
    """

    def __init__(self, *, cls: type[HelpGroup] = HelpGroup, add_completion: bool = False, **settings: Any) -> None:
        super().__init__(
            cls=cls,
            add_completion=add_completion,
            context_settings=CONTEXT,
            rich_markup_mode=None,
            pretty_exceptions_enable=False,
            **settings,
        )

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Command], Command]:
        """Decorator that adds a command.

        Args:
            name: The name of the command.
            settings: Further arguments of `typer.Typer.command`.
        """
        return super().command(name, cls=HelpCommand, context_settings=CONTEXT, **settings)


def list_commands(group: Any, ctx: Any) -> Iterator[tuple[str, str]]:
    """Name and summary of the commands of a group; nothing for a command."""
    if isinstance(group, TyperGroup):
        for name in group.list_commands(ctx):
            command = group.get_command(ctx, name)
            if command is not None and not command.hidden:
                summary, _, _ = (command.help or "").partition("\n\n")
                yield name, summary


def is_argument(parameter: Any) -> bool:
    """True if a parameter has no name on the command line."""
    return parameter.param_type_name == "argument"


def find_heading(parameter: Any, *, is_root: bool) -> str:
    """The heading under which a parameter is listed."""
    if is_argument(parameter):
        return "Arguments"
    is_common = parameter.name in COMMON or "--help" in parameter.opts
    default = "Common options" if is_common and not is_root else "Options"
    return getattr(parameter, "rich_help_panel", None) or default


def name_argument(parameter: Any) -> str:
    """`RUN`, `RUN...` if it can be repeated, and in brackets if it is optional."""
    name = (parameter.metavar or parameter.name.upper()) + "..." * (parameter.nargs == -1)
    return name if parameter.required else f"[{name}]"


def name_parameter(parameter: Any, annotation: Any) -> str:
    """The first column of a parameter: `--beam N` or `-q, --quiet`.

    Args:
        parameter: Of a command.
        annotation: The type of its value.
    """
    if is_argument(parameter):
        return name_argument(parameter)
    names = ", ".join(sorted([*parameter.opts, *parameter.secondary_opts], key=lambda name: name.startswith("--")))
    return names if parameter.is_flag else f"{names} {parameter.metavar or placeholder(annotation)}"


def placeholder(annotation: Any) -> str:
    """What stands for a value in a help page: the choices, or a word for the type of `X`, `X | None` or `list[X]`."""
    for inner in get_args(annotation):
        if inner is not NoneType:
            return placeholder(inner)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return "|".join(str(choice.value) for choice in annotation)
    return PLACEHOLDERS[getattr(annotation, "__name__", "str")]


def describe_parameter(parameter: Any) -> str:
    """The help of a parameter, with its range and default in parentheses at the end."""
    return add_remarks(parameter.help or "", *list_remarks(parameter))


def add_remarks(sentence: str, *remarks: str) -> str:
    """A sentence with remarks in the parentheses at its end.

    Args:
        sentence: Ends with a full stop, and may have such parentheses already.
        remarks: Short phrases.
    """
    text = sentence.removesuffix(".")
    if not remarks:
        return f"{text}."
    begin = f"{text[:-1]}; " if text.endswith(")") else f"{text} ("
    return f"{begin}{'; '.join(remarks)})."


def list_remarks(parameter: Any) -> Iterator[str]:
    """The range of a parameter, its environment variable, its default, and whether it is required."""
    ranged = parameter if hasattr(parameter, "min") else getattr(parameter, "type", None)
    yield from describe_range(getattr(ranged, "min", None), getattr(ranged, "max", None))
    if parameter.envvar:
        yield f"environment: {parameter.envvar}"
    default = parameter.default
    if parameter.required and not is_argument(parameter):
        yield "required"
    elif parameter.show_default and isinstance(default, str | int | float) and default is not False and default != "":
        yield f"default: {default:g}" if isinstance(default, float) else f"default: {default}"


def describe_range(lowest: float | None, highest: float | None) -> Iterator[str]:
    """`1 to 100` or `at least 1`, if there is a range."""
    if lowest is not None and highest is not None:
        yield f"{lowest:,} to {highest:,}"
    elif lowest is not None:
        yield f"at least {lowest:,}"
    elif highest is not None:
        yield f"at most {highest:,}"
