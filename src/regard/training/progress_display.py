"""Progress of a training: a bar on a terminal, lines of text elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from regard.errors import escape_controls
from regard.tasks import Split
from regard.terminal.output import print_message
from regard.terminal.progress import LOG_INTERVAL, InterruptHandler, new_bar, time_left
from regard.training.checkpoints import TrainingProgress
from regard.training.trainer import TrainingObserver


class LineObserver:
    """A `TrainingObserver` that prints a line for each validation, and one every `LOG_INTERVAL` seconds in between.

    Args:
        interrupts: Whether a signal wants training to stop.
    """

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
    """The losses of a validation in one line.

    Args:
        row: A line of `metrics.jsonl`.
    """
    return (
        f"loss {row['train_loss']:.4f}  validation {row['validation_loss']:.4f}  "
        f"free-running {row['free_running_loss']:.4f}  exact {row['free_running_exact_match']:.1%}"
    )


class BarObserver(LineObserver):
    """The same lines for validations, above a bar with the steps, their rate and the time left.

    Args:
        interrupts: Whether a signal wants training to stop.
    """

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


@contextmanager
def training_observer(interrupts: InterruptHandler) -> Iterator[TrainingObserver]:
    """The observer for the terminal or file that standard error is.

    Args:
        interrupts: Whether a signal wants training to stop.
    """
    if not sys.stderr.isatty():
        yield LineObserver(interrupts)
        return
    observer = BarObserver(interrupts)
    try:
        yield observer
    finally:
        observer.bar.stop()
