"""How far training has come, as the header of `state.safetensors` records it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from regard.errors import UserError
from regard.runs.weights import DIGEST, TensorFile

MAX_COUNT = 2**53  # beyond which a float does not have every number
# Fields that checkpoints have since a format of run directories, and not before.
ADDED_IN = {"consistency_sum": 6, "best_score": 6, "validations_since_best": 6}


class TrainingProgress(BaseModel):
    """How far training has come. It is stored in the header of `state.safetensors`.

    Args:
        step: Steps taken.
        seconds: Time spent on them, validation included.
        loss_sum: Sum of the training loss over the target tokens since the last validation.
        tokens: The number of these tokens.
        consistency_sum: Sum of the consistency of predictions over these tokens; 0 if it is not regularized.
        validation_losses: The loss of each validation so far.
        best_step: The step with the best validation.
        best_score: What `training.best` names, at that validation; None before the first one.
        validations_since_best: The number of validations after it.
        finished: The reason why training is over; empty if it is not.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    step: Annotated[int, Field(ge=0, le=MAX_COUNT)] = 0
    seconds: float = 0.0
    loss_sum: float = 0.0
    tokens: Annotated[int, Field(ge=0, le=MAX_COUNT)] = 0
    consistency_sum: float = 0.0
    validation_losses: list[float] = []
    best_step: Annotated[int, Field(ge=0, le=MAX_COUNT)] = 0
    best_score: float | None = None
    validations_since_best: Annotated[int, Field(ge=0, le=MAX_COUNT)] = 0
    finished: str = ""

    def add_validation(self, loss: float, score: float, is_better: Callable[[float, float], bool]) -> bool:
        """Record a validation after the present step; True if it is the best one so far.

        Args:
            loss: Its loss.
            score: What `training.best` names.
            is_better: True if a score is better than another one.
        """
        best = self.best_score is None or is_better(score, self.best_score)
        self.validation_losses.append(loss)
        self.validations_since_best = 0 if best else self.validations_since_best + 1
        if best:
            self.best_score, self.best_step = score, self.step
        return best

    @model_validator(mode="after")
    def _judge_by_loss(self) -> Self:
        """Before checkpoints had a best score, it was the lowest loss."""
        losses = self.validation_losses
        if losses and "best_score" not in self.model_fields_set:
            self.best_score = min(losses)
            self.validations_since_best = len(losses) - 1 - losses.index(self.best_score)
        return self


def read_progress(file: Path) -> TrainingProgress:
    """The progress in a checkpoint, without the settings of its run; step 0 if there is none.

    Args:
        file: A `state.safetensors`.

    Raises:
        UserError: It is damaged.
    """
    try:
        with TensorFile.open(file) as state:
            return parse_progress(state, format=1)
    except FileNotFoundError:
        return TrainingProgress()


def parse_progress(state: TensorFile, format: int) -> TrainingProgress:
    """The progress in the header of a checkpoint.

    Args:
        state: The open `state.safetensors`.
        format: The format of its run directory. Fields that were added later may be missing.

    Raises:
        UserError: The header is damaged.
    """
    try:
        values = {key: value for key, value in state.metadata.items() if key != DIGEST}
        progress = TrainingProgress.model_validate(values)
    except ValidationError as error:
        raise UserError(f"{state.path}: this file is damaged: {error.errors()[0]['msg']}") from None
    required = {name for name in TrainingProgress.model_fields if ADDED_IN.get(name, 1) <= format}
    missing = required - progress.model_fields_set
    if missing:
        raise UserError(f"{state.path}: this file is damaged: its header lacks {', '.join(sorted(missing))}")
    return progress
