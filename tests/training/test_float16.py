"""Training in float16, whose gradients are scaled: on a CPU, which PyTorch can, although the command refuses it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

from pretend_device import CPU
from regard.config.schema import Experiment
from regard.data import Codec
from regard.devices import Precision
from regard.files import lock_folder
from regard.process_group import SINGLE, ProcessGroup
from regard.runs import Run
from regard.training.callbacks import Callback
from regard.training.encoded_splits import encode_splits
from regard.training.trainer import Trainer

Make = Callable[..., Experiment]
SCALE = 2.0**16  # of a new `GradScaler`
OVERFLOWS = 2, 6  # steps before those whose gradients overflow


class OtherRank(ProcessGroup):
    """A group of two processes, the other of which has the same gradients, loss and weight."""

    def sum(self, values: Tensor) -> Tensor:
        return values.mul_(2)


GROUPS = pytest.mark.parametrize("group", [SINGLE, OtherRank(size=2)], ids=["one-process", "two-processes"])


@contextmanager
def trainer_in(
    path: Path,
    experiment: Experiment,
    callback: Callback,
    group: ProcessGroup = SINGLE,
    precision: Precision = "float16",
) -> Iterator[Trainer]:
    """A trainer that starts or continues a run; gradients of the first parameter overflow after `OVERFLOWS` steps."""
    pairs = experiment.task.dataset.splits()
    codec = Codec.build(experiment.task.learn_tokenization(pairs["train"]), pairs["train"])
    with encode_splits(codec, pairs, path) as encoded:
        run = Run(path) if path.exists() else Run.create(path, experiment, codec, encoded.digests, precision)
        trainer = Trainer(run, encoded, callback, CPU, group)

        def overflow(gradient: Tensor) -> Tensor:
            return gradient * math.inf if trainer.progress.step in OVERFLOWS else gradient

        next(trainer.model.parameters()).register_hook(overflow)
        with lock_folder(path):  # which leaves a file
            yield trainer


def weights_of(trainer: Trainer) -> list[Tensor]:
    return [weight.detach().clone() for weight in trainer.model.parameters()]


@GROUPS
def test_a_step_whose_gradients_overflow_is_skipped_and_lowers_the_scale(
    brief: Make, new_callback: Any, tmp_path: Path, group: ProcessGroup
):
    with trainer_in(tmp_path / "run", brief(), new_callback(), group) as trainer:
        weights, scales, changed = weights_of(trainer), [], []
        for _ in range(4):
            trainer.step()
            before, weights = weights, weights_of(trainer)
            changed.append(any(not torch.equal(*pair) for pair in zip(before, weights, strict=True)))
            scales.append(trainer.scaler.get_scale())
    assert changed == [True, True, False, True]
    assert scales == [SCALE, SCALE, SCALE / 2, SCALE / 2]


@GROUPS
@pytest.mark.parametrize("clip", [1e-3, 1e3])
def test_gradients_are_unscaled_before_they_are_clipped(
    brief: Make, new_callback: Any, tmp_path: Path, group: ProcessGroup, clip: float
):
    norms = {}
    precisions: tuple[Precision, ...] = ("float32", "float16")
    for precision in precisions:
        experiment = brief(f"training.clip={clip}")
        with trainer_in(tmp_path / precision, experiment, new_callback(), group, precision) as trainer:
            trainer.step()
            norms[precision] = get_total_norm([each.grad for each in trainer.model.parameters()]).item()
    assert norms["float16"] == pytest.approx(norms["float32"], rel=0.02)
    assert norms["float16"] == pytest.approx(1e-3, rel=0.02) if clip == 1e-3 else norms["float16"] > 0.01


def test_a_stopped_training_continues_to_the_same_bits_and_the_same_scale(
    brief: Make, new_callback: Any, tmp_path: Path, same_training: Callable[[Path, Path], None], read_tensors: Any
):
    for name, stops in (("at-once", ()), ("stopped", (5, 3))):
        for stop in (*stops, None):
            with trainer_in(tmp_path / name, brief(), new_callback(stop_after=stop)) as trainer:
                trainer.run()
        assert trainer.progress.finished
    same_training(tmp_path / "at-once", tmp_path / "stopped")
    tensors, _ = read_tensors(tmp_path / "stopped" / "state.safetensors")
    assert tensors["scaler/scale"] == SCALE / 2 ** len(OVERFLOWS)
    assert tensors["scaler/_growth_tracker"] == 12 - 1 - max(OVERFLOWS)
