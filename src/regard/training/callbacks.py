"""Callbacks: methods that are called while a model is trained, and that can stop the training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from reprlib import repr as short_repr
from typing import TYPE_CHECKING, Any

from regard.errors import UserError, suggest

if TYPE_CHECKING:  # importing torch takes a second
    from torch import Tensor

    from regard.tasks import Split
    from regard.training.trainer import Trainer


class TrainingStopped(Exception):  # noqa: N818 (nothing went wrong)
    """Raised by a callback in `on_examples_read` or `on_tokenizer_training` to stop before the first step."""


class Callback:
    """Base class of callbacks. All methods do nothing; a subclass defines those that it needs.

    A `trainer` has, among others, `progress` (step, losses, best step, reason of the end), `steps` (the number of steps
    in all), `model`, `optimizer`, `settings`, `run_directory`, `device` and `group`. If several processes train, each
    calls its own callbacks; `trainer.group.is_first` is True in one of them. An exception in a callback ends the
    training; it continues later from the last checkpoint.
    """

    def on_tokenizer_training(self) -> None:
        """Before a tokenizer is trained on the training split."""

    def on_examples_read(self, split: Split, pairs: int) -> None:
        """Every 1,000 pairs while a split is read, and at its end.

        Args:
            split: The name of the split.
            pairs: How many of its pairs have been read.
        """

    def on_pairs_left_out(self, counts: Mapping[str, int]) -> None:
        """After the data has been read, if pairs of the training split were left out (`data.limits`, `data.skip`).

        Args:
            counts: How many pairs, by the reason.
        """

    def on_train_begin(self, trainer: Trainer) -> None:
        """Before the first step, of a new training or of one that continues.

        Args:
            trainer: The trainer; `trainer.progress.step` steps were taken before.
        """

    def on_step_end(self, trainer: Trainer, loss: Tensor) -> None:
        """After each step.

        Args:
            trainer: The trainer; the number of the step is `trainer.progress.step`.
            loss: The training loss of the batch, per target token: a tensor without axes. `loss.item()` is the number;
                on a GPU it waits until the step is computed.
        """

    def on_validation_end(self, trainer: Trainer, metrics: dict[str, Any], best: bool) -> None:
        """After each validation.

        Args:
            trainer: The trainer.
            metrics: The line that was added to `metrics.jsonl`.
            best: Whether this is the best validation so far by `training.best`. If so, the weights have been saved.
        """

    def on_checkpoint(self, trainer: Trainer) -> None:
        """After a checkpoint has been written.

        Args:
            trainer: The trainer.
        """

    def on_train_end(self, trainer: Trainer) -> None:
        """After the last step, whether training is finished, was stopped or failed with an exception.

        Args:
            trainer: The trainer; `trainer.progress.finished` is empty if training is not finished.
        """

    def __init_subclass__(cls, **options: Any) -> None:
        """Refuse a misspelled method, which would never be called."""
        super().__init_subclass__(**options)
        known = [name for name in vars(Callback) if name.startswith("on_")]
        for name in vars(cls):
            if name.startswith("on_") and name not in known:
                raise UserError(f"{cls.__name__}.{name} is not a method of a callback; {suggest(name, known)}")

    def should_stop(self) -> bool:
        """Return True to stop after the current step and its validation, with a checkpoint to continue from."""
        return False


class CallbackList(Callback):
    """Several callbacks as one, called in their order.

    Args:
        callbacks: The callbacks.

    Raises:
        UserError: One of them is not an instance of `Callback`.
    """

    def __init__(self, callbacks: Iterable[Callback]) -> None:
        self.callbacks = [_check_callback(callback) for callback in _check_iterable(callbacks)]

    def on_tokenizer_training(self) -> None:
        for callback in self.callbacks:
            callback.on_tokenizer_training()

    def on_examples_read(self, split: Split, pairs: int) -> None:
        for callback in self.callbacks:
            callback.on_examples_read(split, pairs)

    def on_pairs_left_out(self, counts: Mapping[str, int]) -> None:
        for callback in self.callbacks:
            callback.on_pairs_left_out(counts)

    def on_train_begin(self, trainer: Trainer) -> None:
        for callback in self.callbacks:
            callback.on_train_begin(trainer)

    def on_step_end(self, trainer: Trainer, loss: Tensor) -> None:
        for callback in self.callbacks:
            callback.on_step_end(trainer, loss)

    def on_validation_end(self, trainer: Trainer, metrics: dict[str, Any], best: bool) -> None:
        for callback in self.callbacks:
            callback.on_validation_end(trainer, metrics, best)

    def on_checkpoint(self, trainer: Trainer) -> None:
        for callback in self.callbacks:
            callback.on_checkpoint(trainer)

    def on_train_end(self, trainer: Trainer) -> None:
        for callback in self.callbacks:
            callback.on_train_end(trainer)

    def should_stop(self) -> bool:
        return any(callback.should_stop() for callback in self.callbacks)


def _check_iterable(callbacks: object) -> Iterable[object]:
    if isinstance(callbacks, Iterable):
        return callbacks
    given = f"a single {type(callbacks).__name__}" if isinstance(callbacks, Callback) else short_repr(callbacks)
    raise UserError(f"callbacks: give a list of callbacks, not {given}")


def _check_callback(callback: object) -> Callback:
    if isinstance(callback, Callback):
        return callback
    if isinstance(callback, type) and issubclass(callback, Callback):
        name = callback.__name__
        raise UserError(f"callbacks: {name} is a class; give an instance of it: {name}()")
    raise UserError(
        f"callbacks: {short_repr(callback)} is not a callback; a callback is an instance of a subclass of "
        "regard.Callback"
    )
