"""The errors that a user can cause, and the words to explain them with."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """Something that the person at the keyboard can put right.

    Its message says what was wrong, where, and what would be right. The command line prints it without a
    traceback and leaves with exit code 2.
    """


def suggest(value: object, choices: Iterable[str]) -> str:
    """The end of a message about a value that is not one of `choices`: the nearest one, then all of them."""
    names = list(choices)
    near = get_close_matches(str(value), names, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return f"{hint}choices: {', '.join(names)}"


def printable(text: str) -> str:
    """The text with line breaks, control characters and the like as visible escapes, such as `\\n`."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
