"""Errors that a user can correct, and helpers for their messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

OUT_OF_MEMORY = ("can't allocate memory", "cannot allocate memory", "not enough memory", "failed to map segment")
TERMINAL_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class UserError(ValueError):
    """An error that the user can correct.

    The message states what was wrong, where, and what would be valid. The command line prints it without a traceback
    and exits with code 2.
    """


@contextmanager
def error_location(origin: str) -> Iterator[None]:
    """Put `origin` in front of the message of a `UserError` raised within.

    Args:
        origin: Where the error is, for example a file and a line.
    """
    try:
        yield
    except UserError as error:
        raise UserError(f"{origin}: {error}") from None


def is_out_of_memory(error: Exception) -> bool:
    """True if an operation failed for lack of memory. torch and the dynamic linker raise no specific class.

    Args:
        error: Any exception.
    """
    return isinstance(error, MemoryError) or any(sign in str(error).lower() for sign in OUT_OF_MEMORY)


def failure_message(error: Exception) -> str:
    """The message for an error that is not a fault of this program: one of the user or of the system, or no memory.

    Args:
        error: Any exception.

    Returns:
        The message; empty if the error is a fault of this program.
    """
    if isinstance(error, UserError):
        return str(error)
    if is_out_of_memory(error):
        return "not enough memory; reduce the model, training.batch_tokens, the beam width or the text"
    if isinstance(error, OSError):
        return f"{error.filename or 'writing'}: {error.strerror or error}"
    return ""


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
    """`text` with the characters that could control a terminal as visible escapes such as `\\x1b`.

    These are control characters except tab and newline, bidirectional embeddings, overrides and isolates, line and
    paragraph separators, and lone surrogates. Everything else that a script needs is kept, such as joiners.

    Args:
        text: Any text, for example a path or a line of a file.
    """
    return TERMINAL_CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)
