"""The log of a training for TensorBoard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regard.errors import UserError
from regard.training.callbacks import Callback

try:
    from tensorboardX import SummaryWriter
except ModuleNotFoundError:
    raise UserError("training.log: tensorboard needs tensorboardX: pip install 'regard[tensorboard]'") from None

if TYPE_CHECKING:
    from torch import Tensor

    from regard.training.trainer import Trainer

FOLDER = "tensorboard"  # in the run directory
INTERVAL = 10  # steps


class TensorBoardLog(Callback):
    """Writes losses, learning rates and validation metrics to event files in `RUN/tensorboard`.

    A loss is written `INTERVAL` steps later, when a GPU has computed it, so the program does not wait for it.
    """

    def __init__(self) -> None:
        self.writer: Any = None
        self.pending: tuple[int, Tensor, float] | None = None

    def on_train_begin(self, trainer: Trainer) -> None:
        step = trainer.progress.step
        # TensorBoard discards what an interrupted session has written about later steps. Two sessions may begin in the
        # same second, which names a file, but not after the same step.
        self.writer = SummaryWriter(
            str(trainer.run_directory.path / FOLDER), purge_step=step + 1, filename_suffix=f".{step}"
        )

    def on_step_end(self, trainer: Trainer, loss: Tensor) -> None:
        if trainer.progress.step % INTERVAL == 0:
            self.write_pending()
            self.pending = trainer.progress.step, loss, trainer.optimizer.param_groups[0]["lr"]

    def on_validation_end(self, trainer: Trainer, metrics: dict[str, Any], best: bool) -> None:
        for name, value in metrics.items():
            if name.startswith("validation_"):
                self.writer.add_scalar(name.replace("_", "/", 1), value, metrics["step"])

    def on_checkpoint(self, trainer: Trainer) -> None:
        self.write_pending()
        self.writer.flush()

    def on_train_end(self, trainer: Trainer) -> None:
        if self.writer is not None:  # another callback may have failed before this one has begun
            self.write_pending()
            self.writer.close()

    def write_pending(self) -> None:
        """Write the loss and the learning rate of an earlier step."""
        if self.pending is not None:
            step, loss, rate = self.pending
            self.writer.add_scalar("training/loss", loss.item(), step)
            self.writer.add_scalar("training/rate", rate, step)
            self.pending = None
