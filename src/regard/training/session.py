"""One training with all that surrounds the loop: progress, interrupts, and the scores of the test set."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from regard.config.schema import Experiment
from regard.errors import UserError
from regard.files import lock_folder
from regard.runs import EXAMPLES, Run
from regard.terminal.output import note, print_message, print_result
from regard.terminal.progress import InterruptHandler, ProgressMeter
from regard.terminal.tables import print_table
from regard.training.callbacks import Callback, CallbackList, TrainingStopped
from regard.training.progress_display import progress_display
from regard.training.trainer import Trainer, train_run

if TYPE_CHECKING:
    from regard.tasks import Split


class TrainingInterrupted(KeyboardInterrupt):
    """A signal has stopped the training. What was done is saved; the same call or command continues.

    Args:
        message: What was stopped, and how to continue.
        exit_code: 128 + the number of the signal.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class StopOnSignal(Callback):
    """Stops the training when a signal has been recorded: at once while data is read, later after the current step.

    Args:
        interrupts: Records signals.
    """

    def __init__(self, interrupts: InterruptHandler) -> None:
        self.interrupts = interrupts
        interrupts.waits_for_step = False

    def on_examples_read(self, split: Split, pairs: int) -> None:
        if self.interrupts.signal:  # a library has caught the exception that it raised
            raise TrainingStopped

    def on_train_begin(self, trainer: Trainer) -> None:
        self.interrupts.waits_for_step = True

    def should_stop(self) -> bool:
        return bool(self.interrupts.signal)


class TrainingSession:
    """Trains in one run directory, for the command `regard train` and for `regard.train`.

    Args:
        path: The run directory.
        shown: Whether to show progress and results.
        is_command: True in a process of its own, which SIGTERM or a second SIGINT may end.
    """

    def __init__(self, path: Path, *, shown: bool = True, is_command: bool = False) -> None:
        self.path = path
        self.shown = shown
        self.is_command = is_command
        self.interrupts = InterruptHandler(owns_process=is_command, quiet=not shown)

    def run(self, experiment: Experiment, callback: Callback) -> Run:
        """Train, or continue; when training is finished, score the test set if it is of real text.

        Args:
            experiment: The settings.
            callback: Is called during the training.

        Returns:
            The open run directory. Its `progress.finished` is empty if the callback stopped the training.

        Raises:
            TrainingInterrupted: A signal stopped it.
        """
        run = self.train(experiment, callback)
        progress = run.progress
        if not progress.finished:
            message = self.report_stop(f"stopped after step {progress.step:,}")
            if self.interrupts.signal:
                raise self.interruption(message)
            return run
        if self.shown:
            print_result(
                f"{self.path}: done ({progress.finished}), {progress.step:,} steps in {progress.seconds:.0f} s; "
                f"best validation loss {progress.best_loss:.4f}, after step {progress.best_step:,}"
            )
        from regard.evaluation.final import needs_final_evaluation

        if needs_final_evaluation(run):
            if self.interrupts.signal:
                raise self.interruption(self.report_stop("stopped before the evaluation on the test set"))
            self.score(run)
        elif self.interrupts.signal and not self.is_command:
            raise self.interruption(f"{self.path}: interrupted in the last step; training is finished")
        return run

    def train(self, experiment: Experiment, callback: Callback) -> Run:
        """Train to the end, or until the callback or a signal stops it, and show the progress.

        Args:
            experiment: The settings.
            callback: Is called during the training.
        """
        with self.interrupts:
            callbacks: list[Callback] = [StopOnSignal(self.interrupts), callback]
            display = progress_display() if self.shown else None
            if display is not None:
                callbacks.insert(0, display)
            try:
                run = train_run(experiment, self.path, CallbackList(callbacks))
            except (KeyboardInterrupt, TrainingStopped):
                if not self.interrupts.signal or self.interrupts.waits_for_step:
                    raise  # from a callback, or by a second signal
                raise self.interruption(self.report_stop("stopped while reading the data")) from None
        if display is not None:
            display.show_result(run)
        return run

    def score(self, run: Run) -> None:
        """Score the test set; print the scores, some examples, and where all of them are.

        Args:
            run: The run directory of a finished training.
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
            try:
                with ProgressMeter(None, self.shown) as meter:
                    evaluation = score_test_set(run, meter.advance)
                if self.shown and evaluation.changed:
                    note(changed_split_message(run, "test"))
                if self.shown:
                    print_table(*beam_table(evaluation.results))
                    print_result(
                        "\n".join(["", *example_lines(select_examples(evaluation.sentences, 1)), ""]), flush=True
                    )
                with ProgressMeter(None, self.shown, what="pictures") as meter:
                    write_test_examples(run, evaluation, meter.advance)
            except KeyboardInterrupt:
                raise self.interruption(self.report_stop("trained, but not scored yet")) from None
        if self.shown:
            print_result(f"{self.path / EXAMPLES / 'index.html'}: attention maps of example sentences")

    def report_stop(self, what: str) -> str:
        """Print, if progress is shown, and return what was stopped and how to continue.

        Args:
            what: What was stopped.
        """
        message = f"{self.path}: {what}; run the same {'command' if self.is_command else 'code'} to continue"
        if self.shown:
            print_message(message)
        return message

    def interruption(self, message: str) -> TrainingInterrupted:
        """The exception that ends an interrupted session.

        Args:
            message: What was stopped.
        """
        return TrainingInterrupted(message, 128 + (self.interrupts.signal or signal.SIGINT))
