"""What commands print: results to standard output, everything else to standard error.

Texts from files, arguments and models may contain characters that control a terminal. They are escaped wherever a
terminal could interpret them. A pipe or a file gets results unchanged.
"""

from __future__ import annotations

import sys
from typing import TextIO

from regard.errors import escape_controls


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


def print_message(text: str) -> None:
    """Print progress, a warning or an error to standard error, at once and always escaped.

    Args:
        text: One line or several.
    """
    print(escape_controls(text), file=sys.stderr, flush=True)


def note(text: str) -> None:
    """Print a warning.

    Args:
        text: What the user should know.
    """
    print_message(f"regard: note: {text}")
