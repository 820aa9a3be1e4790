"""Progress of long operations: a bar on a terminal, lines of text elsewhere; and a clean stop on Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from threading import current_thread, main_thread
from types import FrameType
from typing import TYPE_CHECKING, Self

from regard.terminal.output import detail, is_quiet, print_message

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

LOG_INTERVAL = 15.0  # seconds between two lines of text
# Not every platform has both.
SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM") if hasattr(signal, name)]
STOPPING = b"\nregard: stopping after the current step; a second signal stops immediately\n"
SAME_SIGNAL = 1.0  # seconds


def print_stopping() -> None:
    """Print that the first signal has arrived. Not by `print`: the signal may have arrived in the middle of one."""
    with suppress(OSError):  # the reader of our output may have ended already
        os.write(sys.stderr.fileno(), STOPPING)


class InterruptHandler:
    """Records the first SIGINT or SIGTERM, so that the current step can finish. A second one ends the process.

    Only the main thread can handle signals; in another thread, nothing is recorded.

    Args:
        owns_process: False in a program or notebook of the user: SIGTERM keeps its meaning, and a second SIGINT raises
            `KeyboardInterrupt` instead of ending the process.
        quiet: True to print nothing when a signal arrives.
        launched: True in a process whose launcher passes signals on. Those that arrive within `SAME_SIGNAL` are one,
            because a scheduler sends them to the launcher and to its processes.

    Attributes:
        signal: The number of the signal; 0: none so far.
        waits_for_step: False while there is no step to finish: the first signal raises `KeyboardInterrupt` at once.
    """

    def __init__(self, *, owns_process: bool = True, quiet: bool = False, launched: bool = False) -> None:
        self.signals = SIGNALS if owns_process else [signal.SIGINT]
        self.second = signal.SIG_DFL if owns_process else signal.default_int_handler
        self.quiet = quiet
        self.launched = launched
        self.signal = 0
        self.received_at = 0.0
        self.waits_for_step = True

    def __enter__(self) -> Self:
        signals = self.signals if current_thread() is main_thread() else []
        self._previous = {number: signal.signal(number, self._record) for number in signals}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _record(self, number: int, frame: FrameType | None) -> None:
        if self.launched and self.signal:
            if time.monotonic() - self.received_at >= SAME_SIGNAL:
                self._end_on_signals()
                signal.raise_signal(number)
            return
        self.signal, self.received_at = number, time.monotonic()
        if not self.waits_for_step:
            raise KeyboardInterrupt
        if not self.quiet:
            print_stopping()
        if not self.launched:
            self._end_on_signals()

    def _end_on_signals(self) -> None:
        for number in self.signals:
            signal.signal(number, self.second)

    @property
    def exit_code(self) -> int:
        """128 + the signal's number, as shells report it."""
        return 128 + self.signal


def new_console() -> Console:
    """The console of standard error, on which progress is drawn; it draws nothing if the command is quiet."""
    from rich.console import Console

    return Console(stderr=True, quiet=is_quiet())


def new_bar(what: str) -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=new_console(),
        redirect_stdout=False,  # results go to standard output, the bar to standard error
        transient=True,
    )


def time_left(remaining: int, rate: float) -> str:
    if not rate:
        return ""
    seconds = round(remaining / rate)
    return f"  {seconds // 60}:{seconds % 60:02d} left"


class ProgressMeter:
    """Counts finished items, such as sentences, and shows the count as a bar or as lines of text.

    Args:
        total: The number of items; None if it is not known yet.
        shown: False to show nothing.
        what: The plural name of the items.
    """

    def __init__(self, total: int | None, shown: bool = True, what: str = "sentences") -> None:
        self.total, self.what = total, what
        self.shown = shown
        self.done = 0
        self.started_at = self.printed_at = time.monotonic()
        self.bar = new_bar(what) if shown and sys.stderr.isatty() else None
        self.task = self.bar.add_task("", total=total, rate="") if self.bar else None

    def __enter__(self) -> Self:
        if self.bar:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar:
            self.bar.stop()
        seconds = time.monotonic() - self.started_at
        detail(f"{self.done:,} {self.what} in {seconds:.1f} s: {self.done / max(seconds, 1e-9):,.1f} {self.what}/s")

    def set_total(self, total: int) -> None:
        """Set the number of items, once it is known."""
        self.total = total
        if self.bar and self.task is not None:
            self.bar.update(self.task, total=total)

    def advance(self, count: int) -> None:
        """Report that `count` more items are finished."""
        self.done += count
        now = time.monotonic()
        rate = self.done / max(now - self.started_at, 1e-9)
        if self.bar and self.task is not None:
            self.bar.update(self.task, completed=self.done, rate=f"{rate:,.1f} {self.what}/s")
        elif self.shown and now - self.printed_at >= LOG_INTERVAL:
            self.printed_at = now
            of_total = f"/{self.total:,}" if self.total else ""
            left = time_left(self.total - self.done, rate) if self.total else ""
            print_message(f"{self.done:,}{of_total} {self.what}  {rate:,.1f} {self.what}/s{left}")
