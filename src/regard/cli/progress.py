"""Progress of long operations: a bar on a terminal, lines of text elsewhere; and a clean stop on Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

from regard.cli.output import print_message
from regard.errors import escape_controls

if TYPE_CHECKING:
    from rich.progress import Progress

    from regard.tasks import Split
    from regard.training import TrainingObserver, TrainingProgress

LOG_INTERVAL = 15.0  # seconds between two lines of text
# Not every platform has both.
SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM") if hasattr(signal, name)]
STOPPING = b"\nregard: stopping after the current step; a second signal stops immediately\n"


class InterruptHandler:
    """Records the first SIGINT or SIGTERM, so that the current step can finish. A second one ends the process.

    Attributes:
        signal: The number of the signal; 0: none so far.
        waits_for_step: False while there is no step to finish: the first signal raises `KeyboardInterrupt` at once.
    """

    def __init__(self) -> None:
        self.signal = 0
        self.waits_for_step = True

    def __enter__(self) -> Self:
        self._previous = {number: signal.signal(number, self._record) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _record(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        if not self.waits_for_step:
            raise KeyboardInterrupt
        # Not `print`: the signal may have arrived in the middle of one.
        with suppress(OSError):  # the reader of our output may have ended already
            os.write(sys.stderr.fileno(), STOPPING)
        signal.signal(number, signal.SIG_DFL)

    @property
    def exit_code(self) -> int:
        """128 + the signal's number, as shells report it."""
        return 128 + self.signal


class LineObserver:
    """A `TrainingObserver` that prints a line for each validation, and one every `LOG_INTERVAL` seconds in between."""

    def __init__(self, interrupts: InterruptHandler) -> None:
        self.interrupts = interrupts
        self.steps = 0
        self.first_step = 0
        self.started_at = 0.0
        self.printed_at = time.monotonic()

    def on_examples_read(self, split: Split, pairs: int) -> None:
        if time.monotonic() - self.printed_at >= LOG_INTERVAL:
            self.print_line(f"reading the {split} split: {pairs:,} pairs")

    def on_tokenizer_training(self) -> None:
        self.print_line("training the tokenizer on the training split")

    def on_train_begin(self, progress: TrainingProgress, steps: int, parameters: int) -> None:
        self.interrupts.waits_for_step = True
        self.steps, self.first_step = steps, progress.step
        self.started_at = self.printed_at = time.monotonic()
        continuing = f", continuing after step {progress.step:,}" if progress.step else ""
        self.print_line(f"{parameters:,} parameters, {steps:,} steps{continuing}")

    def on_step_end(self, progress: TrainingProgress, loss: float) -> None:
        if time.monotonic() - self.printed_at >= LOG_INTERVAL:
            self.print_line(f"{self.format_step(progress.step)}  loss {loss:.4f}")

    def on_validation_end(self, row: dict[str, Any], best: bool) -> None:
        self.print_line(f"{self.format_step(row['step'])}  {format_validation(row)}{'  best' if best else ''}")

    def should_stop(self) -> bool:
        return bool(self.interrupts.signal)

    def format_step(self, step: int) -> str:
        rate = (step - self.first_step) / (time.monotonic() - self.started_at)
        return f"step {step:,}/{self.steps:,}  {rate:.1f} steps/s{time_left(self.steps - step, rate)}"

    def print_line(self, line: str) -> None:
        self.printed_at = time.monotonic()
        print_message(line)


def format_validation(row: dict[str, Any]) -> str:
    return (
        f"loss {row['train_loss']:.4f}  validation {row['validation_loss']:.4f}  "
        f"free-running {row['free_running_loss']:.4f}  exact {row['free_running_exact_match']:.1%}"
    )


class BarObserver(LineObserver):
    """The same lines for validations, above a bar with the steps, their rate and the time left."""

    def __init__(self, interrupts: InterruptHandler) -> None:
        super().__init__(interrupts)
        self.bar = new_bar("training")
        self.task = self.bar.add_task("", total=None, rate="")

    def on_train_begin(self, progress: TrainingProgress, steps: int, parameters: int) -> None:
        super().on_train_begin(progress, steps, parameters)
        self.bar.start()
        self.bar.update(self.task, total=steps, completed=progress.step)

    def on_step_end(self, progress: TrainingProgress, loss: float) -> None:
        rate = (progress.step - self.first_step) / (time.monotonic() - self.started_at)
        self.bar.update(self.task, completed=progress.step, rate=f"{rate:.1f} steps/s  loss {loss:.4f}")

    def on_validation_end(self, row: dict[str, Any], best: bool) -> None:
        self.print_line(f"step {row['step']:,}/{self.steps:,}  {format_validation(row)}{'  best' if best else ''}")

    def print_line(self, line: str) -> None:
        self.printed_at = time.monotonic()
        self.bar.console.print(escape_controls(line), highlight=False, markup=False)


def new_bar(what: str) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        redirect_stdout=False,  # results go to standard output, the bar to standard error
        transient=True,
    )


def time_left(remaining: int, rate: float) -> str:
    seconds = round(remaining / rate) if rate else 0
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


@contextmanager
def training_observer(interrupts: InterruptHandler) -> Iterator[TrainingObserver]:
    """The observer for the terminal or file that standard error is."""
    if not sys.stderr.isatty():
        yield LineObserver(interrupts)
        return
    observer = BarObserver(interrupts)
    try:
        yield observer
    finally:
        observer.bar.stop()
