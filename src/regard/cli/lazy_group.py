"""A command group that imports a command when it runs, so that `regard --help` imports none of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer

from regard.cli.help import CommandTable, HelpCommand, HelpGroup
from regard.errors import escape_controls


@contextmanager
def escape_usage_errors() -> Iterator[None]:
    """Escape the arguments in the message of a usage error, which typer prints."""
    try:
        yield
    except Exception as error:
        message = getattr(error, "message", None)  # typer's base class has no public name in all versions
        if isinstance(message, str):
            error.message = escape_controls(message)  # type: ignore[attr-defined]
        raise


class LazyCommand(NamedTuple):
    """A command that is not imported yet.

    Args:
        path: Its function or its `typer.Typer`, as "package.module:name".
        summary: Its help.
    """

    path: str
    summary: str


class LazyGroup(HelpGroup):
    """A group that lists its commands by name and summary.

    A subclass sets `lazy_commands`: the commands by name.
    """

    lazy_commands: ClassVar[Mapping[str, LazyCommand]] = {}

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, command in self.lazy_commands.items():
            self.add_command(HelpCommand(name, help=command.summary))  # for the list; `load_command` replaces it

    def load_command(self, name: str) -> Any:
        """Import a command; with all of its arguments and options.

        Args:
            name: One of `lazy_commands`.
        """
        path, summary = self.lazy_commands[name]
        module, _, attribute = path.partition(":")
        target = getattr(import_module(module), attribute)
        if not isinstance(target, typer.Typer):
            function, target = target, CommandTable()
            target.command(name)(function)
        command = typer.main.get_command(target)
        command.name, command.help = name, summary
        self.add_command(command)
        return command

    def make_context(self, *arguments: Any, **extra: Any) -> Any:
        with escape_usage_errors():
            return super().make_context(*arguments, **extra)

    def invoke(self, ctx: Any) -> Any:
        with escape_usage_errors():
            return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the arguments name, imported."""
        if args[0] in self.lazy_commands:
            self.load_command(args[0])
        return super().resolve_command(ctx, args)
