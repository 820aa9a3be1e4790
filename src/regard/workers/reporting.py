"""The worker's side of a job: a process that reads a request, reports progress and stops when requested.

The first line of standard input is the request; a line `stop` after it stops the worker. (A line, not a signal: it
works on Windows, too.) Progress is written to standard output, one JSON object per line. If nobody reads it any more,
the worker saves its state and stops.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from threading import Thread
from typing import BinaryIO, TypeVar

from regard.errors import failure_message
from regard.workers.job import STOPPED

REPORT_INTERVAL = 0.5  # seconds
STOP = "stop"


class WorkerStopped(Exception):  # noqa: N818 (nothing went wrong)
    """Raised by a worker that stops before its work is done. Its state is saved."""


class Reporter:
    """Reports progress, and stops when requested or when nobody reads its reports.

    Args:
        channel: Where to write progress.
    """

    def __init__(self, channel: BinaryIO) -> None:
        self.channel = channel
        self.stopping = False
        self.reported_at = 0.0

    def stop(self, *_: object) -> None:
        self.stopping = True

    def should_stop(self) -> bool:
        return self.stopping

    def send(self, phase: str, done: int, total: int | None, urgent: bool = False) -> None:
        """Write a line, unless the last one is recent and this one is not urgent."""
        if urgent or time.monotonic() - self.reported_at >= REPORT_INTERVAL:
            self.reported_at = time.monotonic()
            try:
                self.channel.write(json.dumps({"phase": phase, "done": done, "total": total}).encode() + b"\n")
            except OSError:  # a broken pipe
                self.stop()


AnyReporter = TypeVar("AnyReporter", bound=Reporter)


def worker_main(work: Callable[[str, AnyReporter], None], new_reporter: Callable[[BinaryIO], AnyReporter]) -> None:
    """Read a request from standard input and carry it out; the entry point of the process.

    Args:
        work: Carries out a request; it raises `WorkerStopped` if the reporter wanted to stop before the end.
        new_reporter: The class of the reporter.
    """
    # Standard output is for progress; what a library prints goes to standard error.
    reporter = new_reporter(os.fdopen(os.dup(1), "wb", buffering=0))
    os.dup2(2, 1)
    signal.signal(signal.SIGTERM, reporter.stop)
    lines = os.fdopen(os.dup(0), "rb", buffering=0)  # unbuffered: has no lock that a thread may hold at the end
    request = lines.readline().decode()
    Thread(target=_stop_on_request, args=(lines, reporter), daemon=True).start()
    try:
        work(request, reporter)
    except WorkerStopped:
        sys.exit(STOPPED)
    except Exception as error:
        sys.exit(failure_message(error) or traceback.format_exc())


def _stop_on_request(lines: BinaryIO, reporter: Reporter) -> None:
    for line in iter(lines.readline, b""):
        if line.strip() == STOP.encode():
            reporter.stop()
