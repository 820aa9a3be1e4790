"""What a person sees of long work: a bar on a terminal, plain lines elsewhere; and how Ctrl-C is heard."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from regard.tasks import Split
    from regard.training import TrainingObserver, TrainingProgress

PLAIN_EVERY = 15.0  # seconds between two plain lines
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruptions:
    """Remembers that the user wants to stop, so that the step under way can end; asked twice, it ends at once."""

    def __init__(self) -> None:
        self.signal = 0

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._remember) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        # Not print: the signal may have come in the middle of one.
        with suppress(OSError):  # whoever reads our lines may have heard the signal first, and be gone
            os.write(sys.stderr.fileno(), b"\nregard: stopping as soon as this step is done; once more stops at once\n")
        signal.signal(number, signal.SIG_DFL)

    @property
    def exit_code(self) -> int:
        return 128 + self.signal


class PlainObserver:
    """A line for each validation, and one now and then in between."""

    def __init__(self, interruptions: Interruptions) -> None:
        self.interruptions = interruptions
        self.steps = 0
        self.first_step = 0
        self.began_at = 0.0
        self.told_at = time.monotonic()

    def reading(self, split: Split, pairs: int) -> None:
        if time.monotonic() - self.told_at >= PLAIN_EVERY:
            self.tell(f"reading the {split} split: {pairs:,} pairs")

    def learning(self) -> None:
        self.tell("learning from the training split what its texts are made of")

    def began(self, progress: TrainingProgress, steps: int, parameters: int) -> None:
        self.steps, self.first_step = steps, progress.step
        self.began_at = self.told_at = time.monotonic()
        going_on = f", going on after step {progress.step:,}" if progress.step else ""
        self.tell(f"{parameters:,} weights, {steps:,} steps{going_on}")

    def stepped(self, progress: TrainingProgress, loss: float) -> None:
        if time.monotonic() - self.told_at >= PLAIN_EVERY:
            self.tell(f"{self.place(progress.step)}  loss {loss:.4f}")

    def validated(self, row: dict[str, Any], best: bool) -> None:
        self.tell(f"{self.place(row['step'])}  {validation_line(row)}{'  best' if best else ''}")

    def wants_to_stop(self) -> bool:
        return bool(self.interruptions.signal)

    def place(self, step: int) -> str:
        rate = (step - self.first_step) / (time.monotonic() - self.began_at)
        return f"step {step:,}/{self.steps:,}  {rate:.1f} steps/s{time_left(self.steps - step, rate)}"

    def tell(self, line: str) -> None:
        self.told_at = time.monotonic()
        print(line, file=sys.stderr, flush=True)


def validation_line(row: dict[str, Any]) -> str:
    return (
        f"loss {row['train_loss']:.4f}  validation {row['validation_loss']:.4f}  "
        f"free-running {row['free_running_loss']:.4f}  exact {row['free_running_exact_match']:.1%}"
    )


class BarObserver(PlainObserver):
    """The same validations above a bar that shows the steps, their rate and the time left."""

    def __init__(self, interruptions: Interruptions) -> None:
        super().__init__(interruptions)
        self.bar = new_bar("training")
        self.task = self.bar.add_task("", total=None, rate="")

    def began(self, progress: TrainingProgress, steps: int, parameters: int) -> None:
        super().began(progress, steps, parameters)
        self.bar.start()
        self.bar.update(self.task, total=steps, completed=progress.step)

    def stepped(self, progress: TrainingProgress, loss: float) -> None:
        rate = (progress.step - self.first_step) / (time.monotonic() - self.began_at)
        self.bar.update(self.task, completed=progress.step, rate=f"{rate:.1f} steps/s  loss {loss:.4f}")

    def validated(self, row: dict[str, Any], best: bool) -> None:
        self.tell(f"step {row['step']:,}/{self.steps:,}  {validation_line(row)}{'  best' if best else ''}")

    def tell(self, line: str) -> None:
        self.told_at = time.monotonic()
        self.bar.console.print(line, highlight=False, markup=False)


def new_bar(what: str) -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        redirect_stdout=False,  # answers go where the user has sent them, not to the bar
        transient=True,
    )


def time_left(work: int, rate: float) -> str:
    left = round(work / rate) if rate else 0
    return f"  {left // 60}:{left % 60:02d} left"


class Counter:
    """Counts `what` is done, and tells of it now and then; `total` may be unknown."""

    def __init__(self, total: int | None, shown: bool = True, what: str = "sentences") -> None:
        self.total, self.what = total, what
        self.shown = shown
        self.done = 0
        self.began_at = self.told_at = time.monotonic()
        self.bar = new_bar(what) if shown and sys.stderr.isatty() else None
        self.task = self.bar.add_task("", total=total, rate="") if self.bar else None

    def __enter__(self) -> Self:
        if self.bar:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar:
            self.bar.stop()

    def expect(self, total: int) -> None:
        """From now on it is known how many there will be."""
        self.total = total
        if self.bar and self.task is not None:
            self.bar.update(self.task, total=total)

    def advance(self, count: int) -> None:
        self.done += count
        now = time.monotonic()
        rate = self.done / max(now - self.began_at, 1e-9)
        if self.bar and self.task is not None:
            self.bar.update(self.task, completed=self.done, rate=f"{rate:,.1f} {self.what}/s")
        elif self.shown and now - self.told_at >= PLAIN_EVERY:
            self.told_at = now
            of_total = f"/{self.total:,}" if self.total else ""
            left = time_left(self.total - self.done, rate) if self.total else ""
            print(f"{self.done:,}{of_total} {self.what}  {rate:,.1f} {self.what}/s{left}", file=sys.stderr, flush=True)


@contextmanager
def observer(interruptions: Interruptions) -> Iterator[TrainingObserver]:
    if not sys.stderr.isatty():
        yield PlainObserver(interruptions)
        return
    watching = BarObserver(interruptions)
    try:
        yield watching
    finally:
        watching.bar.stop()
