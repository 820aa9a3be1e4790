"""Logs a training to trackio, which has the functions of Weights & Biases and keeps all data on this machine.

    pip install trackio
    python examples/trackio_log.py FOLDER
    trackio show

A run that was interrupted continues when the same command is run again, in Regard and in trackio.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import trackio as wandb

import regard
from regard.training.trainer import Trainer


class TrackioLog(regard.Callback):
    """Logs the metrics of each validation, which `metrics.jsonl` has, too.

    A checkpoint follows each validation. The metrics are logged after it, so none are logged twice if the training is
    interrupted in between: it then continues from the checkpoint before, and the validation is repeated.

    Args:
        project: The project in trackio.
    """

    def __init__(self, project: str) -> None:
        self.project = project
        self.row: dict[str, Any] = {}

    def on_train_begin(self, trainer: Trainer) -> None:
        if trainer.group.is_first:  # of several processes that train together
            run = trainer.run_directory
            settings = run.experiment.model_dump()
            wandb.init(project=self.project, name=run.path.name, config=settings, resume="allow")

    def on_validation_end(self, trainer: Trainer, metrics: dict[str, Any], best: bool) -> None:
        self.row = dict(metrics)

    def on_checkpoint(self, trainer: Trainer) -> None:
        if trainer.group.is_first and self.row:
            wandb.log(self.row, step=self.row.pop("step"))
        self.row = {}

    def on_train_end(self, trainer: Trainer) -> None:
        if trainer.group.is_first:
            wandb.finish()


if __name__ == "__main__":
    settings = {"data.train": 2000, "training.epochs": 3, "training.validate_every": 10}
    out = Path(sys.argv[1]) / "copy"
    regard.train("copy", out, overrides=settings, callbacks=[TrackioLog("regard")])
