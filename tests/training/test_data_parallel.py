"""Data parallelism in one process: parts of batches, random numbers of ranks, gradients of several processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import Parameter

from regard.config.schema import Experiment
from regard.errors import UserError
from regard.process_group import SINGLE, ProcessGroup
from regard.training.data_parallel import average_gradients, split_by_tokens
from regard.training.group_checks import check_equal, training_device
from regard.training.train_run import train_run
from regard.training.trainer import Trainer


@given(lengths=st.lists(st.integers(1, 50), min_size=1, max_size=40), parts=st.integers(1, 7))
def test_parts_are_the_batch_and_have_about_equally_many_tokens(lengths: list[int], parts: int):
    slices = split_by_tokens(np.array(lengths), parts)
    assert len(slices) == parts
    assert [length for part in slices for length in lengths[part]] == lengths
    assert all(sum(lengths[part]) <= sum(lengths) / parts + max(lengths) for part in slices)


@pytest.mark.parametrize("size", [2, 3, 101])
def test_the_processes_divide_the_sentences_of_a_step(
    size: int, brief: Callable[..., Experiment], new_trainer: Callable[..., Trainer]
):
    trainer = new_trainer(brief())
    ((batch, tokens),) = trainer.batches.own(0, SINGLE)
    parts = [each for rank in range(size) for each in trainer.batches.own(0, ProcessGroup(rank, size))]
    assert [example for part, weight in parts if weight for example in part] == batch
    assert sum(weight for _, weight in parts) == tokens
    assert all(part for part, _ in parts), "a process without sentences computes a gradient, too"
    assert any(weight == 0 for _, weight in parts) == (size > len(batch))


def test_random_numbers_differ_between_steps_and_ranks(
    brief: Callable[..., Experiment], new_trainer: Callable[..., Trainer]
):
    trainer = new_trainer(brief())
    single = [trainer.step_seed()]
    seeds = []
    for trainer.progress.step in range(3):
        for rank in range(5):
            trainer.group = ProcessGroup(rank, size=5)
            seeds.append(trainer.step_seed())
    assert len(set(seeds)) == 15
    assert seeds[:1] == single, "the first process has the random numbers of a single one"


def test_a_parameter_that_one_process_does_not_use_has_the_gradient_of_the_others():
    gradients: list[list[list[float] | None]] = [[[7.0] * 3, [7.0], None, None], [None, [14.0], [3.5] * 2, None]]
    sizes, losses, weights = (3, 1, 2, 1), (1.0, 4.5), (5, 2)

    def average(rank: int, received: Tensor | float) -> tuple[list[Parameter], Tensor, Tensor]:
        """What one of two processes has afterwards, and what it sends."""
        sent: list[Tensor] = []

        class Exchange(ProcessGroup):
            def sum(self, values: Tensor) -> Tensor:
                sent.append(values.clone())
                return values + received

        parameters = [Parameter(torch.zeros(size)) for size in sizes]
        for parameter, gradient in zip(parameters, gradients[rank], strict=True):
            parameter.grad = None if gradient is None else torch.tensor(gradient)
        loss, _ = average_gradients(parameters, torch.tensor([losses[rank]]), weights[rank], Exchange(rank, 2))
        return parameters, loss, sent[0]

    sent = [average(rank, 0.0)[-1] for rank in (0, 1)]
    for rank in (0, 1):
        parameters, loss, _ = average(rank, sent[1 - rank])
        assert loss.tolist() == [2]
        means = [None if each.grad is None else each.grad.tolist() for each in parameters]
        assert means == [[5] * 3, [9], [1] * 2, None]


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> list[torch.device]:
    """A machine that seems to have three GPUs; those that were made the current one."""
    current: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    return current


@pytest.mark.parametrize("name", ["auto", "cuda"])
def test_each_process_of_a_machine_has_its_own_gpu(name: str, gpus: list[torch.device]):
    groups = [ProcessGroup(rank=5, size=7, local_rank=rank, local_size=3) for rank in range(3)]
    assert [training_device(name, group) for group in groups] == [torch.device("cuda", rank) for rank in range(3)]
    assert gpus == [torch.device("cuda", rank) for rank in range(3)]


@pytest.mark.parametrize(
    ("name", "processes", "message"),
    [
        ("cuda", 5, "this machine has 3 GPUs for 5 processes; start one process per GPU, or choose"),
        ("cuda:1", 2, "training.device: cuda:1 is one GPU; with several processes, choose cuda, cpu or auto"),
    ],
)
def test_too_few_gpus_are_refused(name: str, processes: int, message: str, gpus: list[torch.device]):
    with pytest.raises(UserError, match=message):
        training_device(name, ProcessGroup(local_rank=1, size=processes, local_size=processes))
    assert gpus == []


@pytest.mark.parametrize("local_size", [1, 2])
def test_several_processes_on_mps_are_refused(local_size: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert training_device("mps", ProcessGroup()).type == "mps"
    with pytest.raises(UserError, match="several processes cannot train on mps; choose cpu"):
        training_device("auto", ProcessGroup(size=2, local_size=local_size))


def test_machines_with_different_devices_are_refused(brief: Callable[..., Experiment], tmp_path: Path):
    class OtherMachine(ProcessGroup):
        def gather(self, value: Any) -> list[Any]:
            return [value, ["other", {**value[1], "the device": "cuda"}]]

    with pytest.raises(
        UserError, match=r"process 1 \(on other\) differs .* in the device: cuda, not cpu; all processes"
    ):
        check_equal(OtherMachine(), brief(), tmp_path, None, torch.device("cpu"))


def test_too_many_processes_are_refused_before_anything_is_written(
    brief: Callable[..., Experiment], new_callback: Any, tmp_path: Path
):
    class Alone(ProcessGroup):
        def gather(self, value: Any) -> list[Any]:
            return [value]

    with pytest.raises(UserError, match=r"101 processes are too many: batches of .* sentences on average"):
        train_run(brief(), tmp_path / "run", new_callback(), Alone(size=101))
    assert list(tmp_path.iterdir()) == []


def test_a_single_process_has_the_gpu_that_is_named(gpus: list[torch.device]):
    assert training_device("cuda:2", ProcessGroup()) == torch.device("cuda:2")
    assert gpus == [], "the current GPU is that of the caller"
