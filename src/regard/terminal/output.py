"""What commands print: results to standard output, everything else to standard error.

Texts from files, arguments and models may contain characters that control a terminal. They are escaped wherever a
terminal could interpret them. A pipe or a file gets results unchanged.
"""

from __future__ import annotations

import sys
from enum import IntEnum
from typing import TextIO

from regard.errors import escape_controls


class Verbosity(IntEnum):
    """How much is printed to standard error.

    Attributes:
        QUIET: Errors only.
        NORMAL: Also progress and notes.
        VERBOSE: Also details, such as which files are read and how long it takes.
    """

    QUIET = 0
    NORMAL = 1
    VERBOSE = 2


_verbosity = Verbosity.NORMAL


def set_verbosity(verbosity: Verbosity) -> None:
    """Set how much this process prints.

    Args:
        verbosity: Applies to what is printed from now on.
    """
    global _verbosity
    _verbosity = verbosity


def is_quiet() -> bool:
    """True if neither progress nor notes are printed."""
    return _verbosity == Verbosity.QUIET


def is_verbose() -> bool:
    """True if details are printed."""
    return _verbosity == Verbosity.VERBOSE


def verbosity_flags() -> list[str]:
    """The options for a process of `regard` that should print as much as this one."""
    return {Verbosity.QUIET: ["--quiet"], Verbosity.NORMAL: [], Verbosity.VERBOSE: ["--verbose"]}[_verbosity]


def for_stream(text: str, stream: TextIO) -> str:
    """A text as it may be written to a stream: with control characters escaped if it is a terminal.

    Args:
        text: Any text.
        stream: Where it will be written.
    """
    return escape_controls(text) if stream.isatty() else text


def print_result(text: str = "", *, flush: bool = False) -> None:
    """Print a result, or a part of one, to standard output.

    Args:
        text: One line or several.
        flush: True if it should appear at once.
    """
    print(for_stream(text, sys.stdout), flush=flush)


def print_error(text: str) -> None:
    """Print why a command fails or stops to standard error, at once and always escaped; also if it is quiet.

    Args:
        text: One line or several.
    """
    print(escape_controls(text), file=sys.stderr, flush=True)


def print_message(text: str) -> None:
    """Print progress or a warning to standard error, at once and always escaped.

    Args:
        text: One line or several.
    """
    if not is_quiet():
        print_error(text)


def note(text: str) -> None:
    """Print a warning.

    Args:
        text: What the user should know.
    """
    print_message(f"regard: note: {text}")


def detail(text: str) -> None:
    """Print what only `--verbose` shows.

    Args:
        text: What a curious user may want to know.
    """
    if is_verbose():
        print_error(f"regard: {text}")
