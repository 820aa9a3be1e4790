"""The server's log on standard error, in which clients cannot hide or forge anything."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from regard.errors import escape_controls, printable


class EscapingFormatter(logging.Formatter):
    """Formats a log record with control characters escaped. Only tracebacks have more than one line."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return printable(super().formatMessage(record).strip())

    def format(self, record: logging.LogRecord) -> str:
        return escape_controls(super().format(record))


@contextmanager
def log_to_stderr() -> Iterator[None]:
    """Write the log records of all libraries to standard error, escaped."""
    handler = logging.StreamHandler()
    handler.setFormatter(EscapingFormatter("regard: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
