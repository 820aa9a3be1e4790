"""Errors that a user can correct, and helpers for their messages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

# Control characters except tab and newline, separators and bidirectional controls, lone surrogates.
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class UserError(ValueError):
    """An error that the user can correct.

    The message states what was wrong, where, and what would be valid. The command line prints it without a traceback
    and exits with code 2.
    """


def suggest(value: object, choices: Iterable[str]) -> str:
    """The end of a message about a value that is not one of `choices`: the nearest choice, then all of them.

    Args:
        value: The invalid value.
        choices: The valid values.
    """
    names = list(choices)
    return f"{nearest(value, names)}choices: {', '.join(names)}"


def nearest(value: object, choices: Iterable[str]) -> str:
    """`did you mean '…'? ` for the choice that is spelled most like `value`; empty if none is similar.

    Args:
        value: The invalid value.
        choices: The valid values.
    """
    similar = get_close_matches(str(value), list(choices), n=1)
    return f"did you mean '{similar[0]}'? " if similar else ""


def printable(text: str) -> str:
    """`text` with line breaks, control characters and the like as visible escapes such as `\\n`.

    Args:
        text: Any text, for example one that a user has typed.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def escape_controls(text: str) -> str:
    """`text` with control characters, bidirectional controls and lone surrogates as escapes such as `\\x1b`.

    Tabs and newlines stay.

    Args:
        text: Any text, possibly of several lines, that is written to a terminal or a log.
    """
    return CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)
