"""Progress of a training: a bar on a terminal, an updated display in a notebook, lines of text elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from regard.devices import describe_device
from regard.errors import escape_controls
from regard.runs import Run
from regard.terminal.notebook import in_notebook
from regard.terminal.output import print_message
from regard.terminal.progress import LOG_INTERVAL, new_bar, time_left
from regard.training.callbacks import Callback
from regard.training.fine_tuning import origin_line
from regard.training.pretrained_embeddings import embedding_lines

if TYPE_CHECKING:
    from torch import Tensor

    from regard.tasks import Split
    from regard.training.trainer import Trainer

# Seconds between two displays of the loss, each of which waits for the device.
UPDATE_INTERVAL = 0.2


class LineProgress(Callback):
    """Prints a line for each validation, and one every `LOG_INTERVAL` seconds in between."""

    def __init__(self) -> None:
        self.first_step = 0
        self.started_at = 0.0
        self.printed_at = time.monotonic()

    def on_examples_read(self, split: Split, pairs: int) -> None:
        if time.monotonic() - self.printed_at >= LOG_INTERVAL:
            self.print_line(f"reading the {split} split: {pairs:,} pairs")

    def on_tokenizer_training(self) -> None:
        self.print_line("training the tokenizer on the training split")

    def on_pairs_left_out(self, counts: Mapping[str, int]) -> None:
        reasons = ", ".join(f"{count:,} ({reason})" for reason, count in counts.items())
        self.print_line(f"pairs left out of training: {reasons}")

    def on_train_begin(self, trainer: Trainer) -> None:
        self.first_step = trainer.progress.step
        self.started_at = self.printed_at = time.monotonic()
        parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
        continuing = f", continuing after step {self.first_step:,}" if self.first_step else ""
        self.print_line(f"{parameters:,} parameters, {trainer.steps:,} steps{continuing}; {self.hardware(trainer)}")
        if not self.first_step and (origin := origin_line(trainer.run_directory.metadata)):
            self.print_line(origin)
        for line in () if self.first_step else embedding_lines(trainer.run_directory.metadata):
            self.print_line(line)

    def hardware(self, trainer: Trainer) -> str:
        """What computes: `cpu, float32`."""
        processes = f"{trainer.group.size} processes, " if trainer.group.size > 1 else ""
        return f"{processes}{describe_device(trainer.device)}, {trainer.precision}"

    def on_step_end(self, trainer: Trainer, loss: Tensor) -> None:
        if time.monotonic() - self.printed_at >= LOG_INTERVAL:
            self.print_line(self.format_step(trainer, loss))

    def on_validation_end(self, trainer: Trainer, metrics: dict[str, Any], best: bool) -> None:
        self.print_line(f"{self.format_step(trainer)}  {format_validation(trainer, metrics, best)}")

    def show_result(self, run: Run) -> None:
        """Show the learning curve, where pictures can be shown.

        Args:
            run: The run directory, when training has ended.
        """

    def rate(self, trainer: Trainer) -> float:
        """Steps per second since training began or continued."""
        return (trainer.progress.step - self.first_step) / (time.monotonic() - self.started_at)

    def format_step(self, trainer: Trainer, loss: Tensor | None = None) -> str:
        step, rate = trainer.progress.step, self.rate(trainer)
        left = time_left(trainer.steps - step, rate)
        return f"step {step:,}/{trainer.steps:,}  {rate:.1f} steps/s{left}" + (
            "" if loss is None else f"  loss {loss.item():.4f}"
        )

    def print_line(self, line: str) -> None:
        self.printed_at = time.monotonic()
        print_message(line)


def format_validation(trainer: Trainer, row: dict[str, Any], best: bool) -> str:
    """The results of a validation in one line.

    Args:
        trainer: The trainer.
        row: A line of `metrics.jsonl`.
        best: Whether this is the best validation so far.
    """
    shown = [f"loss {row['train_loss']:.4f}", f"validation {row['validation_loss']:.4f}"]
    for metric in trainer.validation.shown_metrics:
        shown.append(f"{metric.title} {metric.form.format(row[f'validation_{metric.name}'])}")
    return "  ".join([*shown, *["best"] * best])


class BarProgress(LineProgress):
    """The same lines for validations, above a bar with the steps, their rate and the time left."""

    def __init__(self) -> None:
        super().__init__()
        self.updated_at = 0.0
        self.bar = new_bar("training")
        self.task = self.bar.add_task("", total=None, rate="")

    def on_train_begin(self, trainer: Trainer) -> None:
        super().on_train_begin(trainer)
        self.bar.start()
        self.bar.update(self.task, total=trainer.steps, completed=trainer.progress.step)

    def on_step_end(self, trainer: Trainer, loss: Tensor) -> None:
        if time.monotonic() - self.updated_at >= UPDATE_INTERVAL:
            self.updated_at = time.monotonic()
            rate = f"{self.rate(trainer):.1f} steps/s  loss {loss.item():.4f}"
            self.bar.update(self.task, completed=trainer.progress.step, rate=rate)

    def on_validation_end(self, trainer: Trainer, metrics: dict[str, Any], best: bool) -> None:
        step = f"step {trainer.progress.step:,}/{trainer.steps:,}"
        self.print_line(f"{step}  {format_validation(trainer, metrics, best)}")

    def on_train_end(self, trainer: Trainer) -> None:
        self.bar.stop()

    def print_line(self, line: str) -> None:
        self.printed_at = time.monotonic()
        self.bar.console.print(escape_controls(line), highlight=False, markup=False)


def progress_display() -> LineProgress:
    """The display for the notebook, terminal or file in which this process prints."""
    if in_notebook():
        from regard.training.notebook_display import NotebookProgress

        return NotebookProgress()
    return BarProgress() if sys.stderr.isatty() else LineProgress()
