"""One training with all that surrounds the loop: progress, interrupts, and the scores of the test set."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from regard.errors import UserError
from regard.evaluation.metrics import validation_metric
from regard.files import lock_folder
from regard.process_group import SINGLE, ProcessGroup, has_agent, restarts_after_errors
from regard.runs import EXAMPLES, Run, TrainingProgress
from regard.terminal.output import note, print_message, print_result
from regard.terminal.progress import InterruptHandler, ProgressMeter
from regard.terminal.tables import print_table
from regard.training.averaging import average_line
from regard.training.callbacks import Callback, CallbackList, TrainingStopped
from regard.training.plan import TrainingPlan
from regard.training.progress_display import progress_display
from regard.training.train_run import train_run
from regard.training.trainer import Trainer

if TYPE_CHECKING:
    from regard.tasks import Split


class TrainingInterrupted(KeyboardInterrupt):
    """A signal has stopped the training. What was done is saved; the same call or command continues.

    Args:
        message: What was stopped, and how to continue.
        exit_code: That of the process.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class StopOnSignal(Callback):
    """Stops the training when a signal has been recorded: at once while data is read, later after the current step.

    It also stops after the current step when the launcher was killed, which can then not pass a signal on. (On Windows,
    that is not noticed.)

    Args:
        interrupts: Records signals.
    """

    def __init__(self, interrupts: InterruptHandler) -> None:
        self.interrupts = interrupts
        self.parent = os.getppid()
        interrupts.waits_for_step = False

    def on_examples_read(self, split: Split, pairs: int) -> None:
        if self.interrupts.signal:  # a library has caught the exception that it raised
            raise TrainingStopped

    def on_train_begin(self, trainer: Trainer) -> None:
        self.interrupts.waits_for_step = True

    def should_stop(self) -> bool:
        return bool(self.interrupts.signal) or (has_agent() and os.getppid() != self.parent)


def best_score(run: Run, progress: TrainingProgress) -> str:
    """What determined the best validation, with its value: `loss 1.5730`.

    Args:
        run: The run directory, for the settings.
        progress: How far training has come.
    """
    metric = validation_metric(run.experiment.task, run.experiment.training.best)
    return f"{metric.title} {metric.form.format(progress.best_score)}"


class TrainingSession:
    """Trains in one run directory, for the command `regard train` and for `regard.train`.

    Args:
        plan: What is trained, and in which run directory.
        shown: Whether to show progress and results.
        is_command: True in a process of its own, which SIGTERM or a second SIGINT may end.
        group: The processes that train together. Only the first one prints.
    """

    def __init__(
        self, plan: TrainingPlan, *, shown: bool = True, is_command: bool = False, group: ProcessGroup = SINGLE
    ) -> None:
        self.plan, self.path = plan, plan.path
        self.shown = shown and group.is_first
        self.group = group
        self.is_command = is_command
        self.interrupts = InterruptHandler(
            owns_process=is_command, quiet=not self.shown or has_agent(), launched=has_agent()
        )

    def run(self, callback: Callback) -> Run:
        """Train, or continue; when training is finished, score the test set if it is of real text.

        Args:
            callback: Is called during the training.

        Returns:
            The open run directory. Its `progress.finished` is empty if the callback stopped the training.

        Raises:
            TrainingInterrupted: A signal stopped it.
        """
        run = self.train(callback)
        # On a shared folder, an earlier checkpoint may still be visible to others than the first process.
        progress = TrainingProgress(**self.group.gather(run.progress.model_dump())[0])
        # A signal to one process stops all of them.
        self.interrupts.signal = max(self.group.gather(self.interrupts.signal))
        if not progress.finished:
            what = f"stopped after step {progress.step:,}"
            if self.interrupts.signal:
                raise self.interruption(what)
            if self.shown:
                print_message(self.stop_message(what))
            return run
        if self.shown:
            print_result(
                f"{self.path}: done ({progress.finished}), {progress.step:,} steps in {progress.seconds:.0f} s; "
                f"best validation {best_score(run, progress)}, after step {progress.best_step:,}{average_line(run)}"
            )
        from regard.evaluation.final import needs_final_evaluation

        is_needed = self.group.gather(needs_final_evaluation(run))[0]
        if self.interrupts.signal and is_needed:
            raise self.interruption("stopped before the evaluation on the test set")
        if self.interrupts.signal and not self.is_command:
            raise TrainingInterrupted(
                f"{self.path}: interrupted in the last step; training is finished", self.exit_code
            )
        if is_needed:
            self.evaluate(run, self.plan.experiment.training.device)
        return run

    def train(self, callback: Callback) -> Run:
        """Train to the end, or until the callback or a signal stops it, and show the progress.

        Args:
            callback: Is called during the training.
        """
        plan = self.plan
        with self.interrupts:
            callbacks: list[Callback] = [StopOnSignal(self.interrupts), callback]
            display = progress_display() if self.shown else None
            if display is not None:
                callbacks.insert(0, display)
            try:
                run = train_run(plan.experiment, plan.path, CallbackList(callbacks), self.group, plan.pretrained)
            except (KeyboardInterrupt, TrainingStopped):
                if not self.interrupts.signal or self.interrupts.waits_for_step:
                    raise  # from a callback, or by a second signal
                raise self.interruption("stopped while reading the data") from None
        if display is not None:
            display.show_result(run)
        return run

    def evaluate(self, run: Run, device: str) -> None:
        """The final evaluation: the first process scores the test set, while the others wait.

        Args:
            run: The run directory of a finished training.
            device: The name of the device that computes.
        """
        # One of several processes must not miss a signal in code that catches the exception which the handler raises:
        # the first one checks for signals between batches.
        self.interrupts.waits_for_step = self.group.is_first and self.group.size > 1
        try:
            with self.interrupts:
                if self.group.is_first:
                    self.score(run, device)
                self.group.gather(None)
        except KeyboardInterrupt:
            raise self.interruption("trained, but not scored yet") from None

    def score(self, run: Run, device: str) -> None:
        """Score the test set; print the scores, some examples, and where all of them are.

        Args:
            run: The run directory of a finished training.
            device: The name of the device that computes.
        """
        from regard.evaluation.data_files import check_data_files
        from regard.evaluation.evaluation_result import beam_table
        from regard.evaluation.evaluator import changed_split_message
        from regard.evaluation.final import score_test_set, write_test_examples
        from regard.reports.example_selection import select_examples
        from regard.reports.example_text import example_lines

        check_data_files("evaluate", self.path, run.experiment, ["test"])
        with lock_folder(self.path) as alone:
            if not alone:
                raise UserError(f"{self.path}: another process is using this run directory")
            run.remove_temporary_files()
            torch.set_num_threads(run.experiment.training.threads)
            with ProgressMeter(None, self.shown) as meter:
                evaluation = score_test_set(run, device, self.check_signals(meter))
            if self.shown and evaluation.changed:
                note(changed_split_message(run, "test"))
            if self.shown:
                print_table(*beam_table(evaluation.results))
                print_result("\n".join(["", *example_lines(select_examples(evaluation.sentences, 1)), ""]), flush=True)
            with ProgressMeter(None, self.shown, what="pictures") as meter:
                write_test_examples(run, evaluation, self.check_signals(meter))
        if self.shown:
            print_result(f"{self.path / EXAMPLES / 'index.html'}: attention maps of example sentences")

    def check_signals(self, meter: ProgressMeter) -> Callable[[int], None]:
        """A function that advances the meter, and raises `KeyboardInterrupt` if a signal has been recorded.

        Args:
            meter: Counts what is finished.
        """

        def advance(count: int) -> None:
            meter.advance(count)
            if self.interrupts.signal:
                raise KeyboardInterrupt

        return advance

    def stop_message(self, what: str) -> str:
        """What was stopped and how to continue.

        Args:
            what: What was stopped.
        """
        return f"{self.path}: {what}; run the same {'command' if self.is_command else 'code'} to continue"

    def interruption(self, what: str) -> TrainingInterrupted:
        """The exception that ends an interrupted session. A command prints its message; here it is printed for callers.

        Args:
            what: What was stopped.
        """
        message = self.stop_message(what)
        if self.shown and not self.is_command:
            print_message(message)
        return TrainingInterrupted(message, self.exit_code)

    @property
    def exit_code(self) -> int:
        """128 + the number of the signal; 0 if the launcher would otherwise start all processes again."""
        return 0 if restarts_after_errors() else 128 + (self.interrupts.signal or signal.SIGINT)
