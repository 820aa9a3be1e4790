"""A command whose standard error is a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest

Regard = Callable[..., Any]


def read_terminal(terminal: int, shown: bytearray) -> None:
    """Collect what is written to a terminal until its other end is closed."""
    while True:
        try:
            piece = os.read(terminal, 65_536)
        except OSError:  # Linux reports a closed other end like this
            return
        if not piece:
            return
        shown += piece


@pytest.fixture
def regard_on_terminal(regard: Regard, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Any, str]]:
    """`regard ARGUMENTS` within this process, with a terminal as standard error: the result, and what is shown."""
    if not hasattr(os, "openpty"):
        pytest.skip("this system has no pseudo-terminals")

    def run(*arguments: object, **options: Any) -> tuple[Any, str]:
        terminal, inner = os.openpty()
        shown = bytearray()
        reader = Thread(target=read_terminal, args=(terminal, shown))
        reader.start()
        try:
            with os.fdopen(inner, "w") as stderr, monkeypatch.context() as patch:
                patch.setenv("TERM", "xterm")
                patch.setenv("COLUMNS", "140")
                patch.setattr(sys, "stderr", stderr)
                result = regard(*arguments, **options)
        finally:
            reader.join()
            os.close(terminal)
        return result, shown.decode()

    return run
