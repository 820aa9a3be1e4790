"""A dry run: what a training would need, measured on a few of its steps in a temporary folder."""

from __future__ import annotations

import re
import shutil
import time
from collections import Counter
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from regard.data import OnDiskExamples, example_lengths
from regard.devices import describe_device
from regard.errors import UserError
from regard.process_group import SINGLE
from regard.runs import MODEL, STATE, Run
from regard.runs.weights import named_weights
from regard.terminal.tables import format_table
from regard.training.callbacks import Callback
from regard.training.group_checks import training_device
from regard.training.plan import TrainingPlan
from regard.training.train_run import check_start, data_of_machine, open_existing
from regard.training.trainer import Trainer

MEASURED_STEPS, MEASURED_SECONDS = 20, 15.0  # whichever is reached first, after one step that is not counted
NEEDED = ("run.json", "config.yaml", "vocabulary.json", "*.model", MODEL, STATE, "metrics.jsonl")  # of a run


@dataclass(frozen=True)
class Lengths:
    """The lengths of the texts of one side of a split, in tokens, including `<end>`.

    Args:
        tokens: Their sum.
        mean: Their mean.
        longest: The largest one.
    """

    tokens: int
    mean: float
    longest: int

    def cells(self) -> list[str]:
        """As cells of a table."""
        return [f"{self.tokens:,}", f"{self.mean:.1f}", f"{self.longest:,}"]


@dataclass(frozen=True)
class SplitSize:
    """The size of a split.

    Args:
        sentences: The number of pairs.
        source: The lengths of the sources.
        target: The lengths of the targets.
    """

    sentences: int
    source: Lengths
    target: Lengths


@dataclass(frozen=True)
class DryRun:
    """What a training would need. The time and the memory are estimates, measured on a few steps.

    Args:
        splits: For each split, the number of sentences and the lengths of both sides.
        vocabularies: The sizes of the vocabularies; None for pictures.
        unknown_tokens: The share of the training tokens that a reused vocabulary does not have.
        parameters: The number of parameters of each part of the model.
        batches_per_epoch: The number of batches.
        steps_done: Steps that were taken before, if a run is continued.
        steps: The number of steps in all.
        validations: The number of validations to come.
        device: What computes.
        precision: The precision of matrix products.
        steps_per_second: Measured.
        validation_seconds: The time of a validation, measured.
        seconds: The estimated time of all steps and validations to come, without the final evaluation.
        state_bytes: The size of weights, gradients and the optimizer's state.
        peak_bytes: The most memory that this process has used, the data included; None if the system does not tell.
    """

    splits: dict[str, SplitSize]
    vocabularies: dict[str, int | None]
    unknown_tokens: float | None
    parameters: dict[str, int]
    batches_per_epoch: int
    steps_done: int
    steps: int
    validations: int
    device: str
    precision: str
    steps_per_second: float
    validation_seconds: float
    seconds: float
    state_bytes: int
    peak_bytes: int | None

    def to_dict(self) -> dict[str, Any]:
        """All values as JSON."""
        return asdict(self)

    def __str__(self) -> str:
        """Two tables, and lines of text."""
        return "\n".join([self._split_table(), "", self._parameter_table(), "", *self._lines()])

    def _split_table(self) -> str:
        columns = ["split", "sentences"]
        columns += [f"{side} {field.name}" for side in ("source", "target") for field in fields(Lengths)]
        rows = [
            [name, f"{split.sentences:,}", *split.source.cells(), *split.target.cells()]
            for name, split in self.splits.items()
        ]
        return format_table(columns, rows)

    def _parameter_table(self) -> str:
        rows = [*self.parameters.items(), ("all", sum(self.parameters.values()))]
        return format_table(["part of the model", "parameters"], [[name, f"{count:,}"] for name, count in rows])

    def _lines(self) -> list[str]:
        sizes = [f"{side} {'pictures' if size is None else f'{size:,}'}" for side, size in self.vocabularies.items()]
        unknown = "" if self.unknown_tokens is None else f"; {self.unknown_tokens:.1%} of the training tokens unknown"
        done = f", {self.steps_done:,} of them done" if self.steps_done else ""
        peak = "" if self.peak_bytes is None else f"; at most {_megabytes(self.peak_bytes)} in use so far"
        return [
            f"vocabularies: {', '.join(sizes)}{unknown}",
            f"steps: {self.steps:,}{done}; validations: {self.validations:,}",
            f"batches per epoch: {self.batches_per_epoch:,}",
            f"device: {self.device}, {self.precision}",
            f"memory: {_megabytes(self.state_bytes)} for weights, gradients and optimizer{peak}",
            f"time: about {_duration(self.seconds)}: an estimate from {self.steps_per_second:.1f} steps/s and "
            f"{self.validation_seconds:.1f} s per validation, without the final evaluation",
        ]


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


def measure_training(plan: TrainingPlan, callback: Callback) -> DryRun:
    """Read and encode the data, build the model, take a few steps, and validate once. Nothing of it remains.

    Args:
        plan: What would be trained. If its run directory exists, how it would continue.
        callback: Is called while the data is read; it can stop the dry run.

    Raises:
        UserError: The training could not start, or would have nothing to do.
    """
    device = training_device(plan.experiment.training.device, SINGLE)
    run = open_existing(plan.path)
    start = check_start(plan.experiment, plan.path, run, device, plan.pretrained)
    if start.is_finished:
        raise UserError(f"{plan.path}: this run is finished; there is nothing to train")
    with TemporaryDirectory(prefix="regard-") as folder:
        scratch = Path(folder) / "run"
        if run is not None:
            scratch.mkdir()
            for file in (file for name in NEEDED for file in run.path.glob(name)):
                shutil.copyfile(file, scratch / file.name)
            run = Run(scratch)
        try:
            with data_of_machine(replace(start, path=scratch, run=run), device, callback, SINGLE) as (run, encoded):
                trainer = Trainer(run, encoded, Callback(), device)  # whose steps and validation are not shown
                return _measure_trainer(
                    trainer, {split: _split_size(examples) for split, examples in encoded.splits.items()}
                )
        except UserError as error:  # about the run directory that it would be
            raise UserError(str(error).replace(str(scratch), str(plan.path))) from None


def _measure_trainer(trainer: Trainer, splits: dict[str, SplitSize]) -> DryRun:
    done, steps, every = trainer.progress.step, trainer.steps, trainer.validate_every
    if trainer.progress.finished:
        raise UserError(f"{trainer.run_directory.path}: {trainer.progress.finished}; there is nothing to train")
    rate = _steps_per_second(trainer)
    started_at = time.monotonic()
    trainer.validate()
    validation_seconds = time.monotonic() - started_at
    validations = steps // every - done // every + (steps % every != 0)
    source, target = trainer.codec.sizes
    weights = named_weights(trainer.model)
    parameters = Counter[str]()
    for name, weight in weights.items():
        parameters[".".join(name.split(".")[:2])] += weight.numel()
    origin = trainer.run_directory.metadata.get("from", {})
    return DryRun(
        splits=splits,
        vocabularies={"source": source if isinstance(source, int) else None, "target": target},
        unknown_tokens=origin.get("unknown_tokens"),
        parameters=dict(parameters),
        batches_per_epoch=trainer.batches.per_epoch,
        steps_done=done,
        steps=steps,
        validations=validations,
        device=describe_device(trainer.device),
        precision=trainer.precision,
        steps_per_second=rate,
        validation_seconds=validation_seconds,
        seconds=(steps - done) / rate + validations * validation_seconds,
        state_bytes=16 * sum(parameters.values()),  # float32: weight, gradient, and two means of Adam
        peak_bytes=_peak_bytes(trainer.device),
    )


def _steps_per_second(trainer: Trainer) -> float:
    """Measured on a few steps, each of which has another batch. The first one also allocates memory."""
    trainer.step()
    trainer.collect_losses()  # waits for the device
    started_at, count = time.monotonic(), 0
    while count < MEASURED_STEPS and time.monotonic() - started_at < MEASURED_SECONDS:
        trainer.step()
        count += 1
    trainer.collect_losses()
    return count / (time.monotonic() - started_at)


def _split_size(examples: OnDiskExamples) -> SplitSize:
    lengths = example_lengths(examples)
    source, target = (Lengths(int(side.sum()), float(side.mean()), int(side.max())) for side in lengths.T)
    return SplitSize(len(lengths), source, target)


def _peak_bytes(device: torch.device) -> int | None:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    status = Path("/proc/self/status")  # of Linux
    match = (
        re.search(r"^VmHWM:\s+(\d+) kB$", status.read_text(encoding="ascii", errors="replace"), re.MULTILINE)
        if status.exists()
        else None
    )
    return 1024 * int(match[1]) if match else None
