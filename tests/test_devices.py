"""Devices and precisions by name. No test needs a GPU: what PyTorch reports about the machine is replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch

from regard import devices
from regard.config.schema import Experiment
from regard.devices import check_precision, describe_device, select_device, select_precision
from regard.errors import UserError
from regard.torch_state import private_torch_state

Machine = Callable[..., None]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Resemble a machine with some GPUs."""

    def set_gpus(cuda: int = 0, mps: bool = False) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"GPU {device.index or 0}")
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return set_gpus


def test_auto_is_cuda_then_mps_then_the_cpu(machine: Machine):
    for cuda, mps, expected in ((2, True, "cuda"), (1, False, "cuda"), (0, True, "mps"), (0, False, "cpu")):
        machine(cuda, mps)
        assert select_device("auto") == torch.device(expected)


def test_a_device_is_selected_and_described_by_its_name(machine: Machine):
    machine(cuda=2, mps=True)
    assert [str(select_device(name)) for name in ("cpu", "mps", "cuda", "cuda:1")] == ["cpu", "mps", "cuda", "cuda:1"]
    assert describe_device(torch.device("cpu")) == "cpu"
    assert describe_device(torch.device("cuda", 1)) == "cuda:1 (GPU 1)"


@pytest.mark.parametrize("name", ["tpu", "meta", "", "cuda:256", "cuda:07", "cuda:1\n", "CPU"])
def test_settings_and_commands_refuse_the_same_names_by_the_same_text(machine: Machine, name: str):
    machine(cuda=2)
    problem = f"'{name}' is not a device; choose auto, cpu, mps, cuda or cuda:N"
    with pytest.raises(UserError) as command:
        select_device(name)
    assert str(command.value) == f"device: {problem}"
    with pytest.raises(UserError) as setting:
        Experiment.load("copy", {"training.device": name})
    assert str(setting.value).endswith(f": training.device: {problem}")


@pytest.mark.parametrize("name", ["auto", "cpu", "cpu:0", "mps", "mps:0", "cuda", "cuda:1"])
def test_settings_accept_what_a_machine_may_have(machine: Machine, name: str):
    machine(cuda=2, mps=True)
    assert Experiment.load("copy", {"training.device": name}).training.device == name
    assert str(select_device(name)) in (name, "cuda")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpu", "device: 'gpu' is not a device; choose auto, cpu, mps, cuda or cuda:N"),
        ("meta", "device: 'meta' is not a device; choose"),
        ("", "device: '' is not a device; choose"),
        ("cuda:256", "device: 'cuda:256' is not a device; choose"),  # PyTorch reads it as cuda:0
        ("mps", "device: this machine has no 'mps', or this PyTorch"),
        ("cuda:2", "device: there is no 'cuda:2'; this machine has 2, counted from cuda:0"),
        ("cpu:1", "device: there is no 'cpu:1'; this machine has 1, counted from cpu:0"),
    ],
)
def test_a_device_that_is_not_there_is_refused(machine: Machine, name: str, message: str):
    machine(cuda=2)
    with pytest.raises(UserError, match=f"^{message}"):
        select_device(name)


def test_without_a_gpu_cuda_is_refused(machine: Machine):
    machine()
    with pytest.raises(UserError, match=r"^device: this machine has no 'cuda', or this PyTorch"):
        select_device("cuda")


@pytest.mark.parametrize("check", [check_precision, lambda name, device: select_precision(name, device, 1)])
def test_a_precision_that_the_device_does_not_have_is_refused(check: Callable[[str, torch.device], str]):
    assert [check(name, torch.device("cuda")) for name in devices.DTYPES] == ["float32", "bfloat16", "float16"]
    assert check("bfloat16", torch.device("cpu")) == "bfloat16"
    with pytest.raises(UserError, match=r"^precision: float16 needs a GPU; on a CPU, choose bfloat16 or float32$"):
        check("float16", torch.device("cpu"))
    with pytest.raises(UserError, match=r"^precision: 'half' is not a precision; choose float32, bfloat16, float16$"):
        check("half", torch.device("cuda"))


@pytest.mark.parametrize(
    ("device", "pin", "expected"),
    [
        ("cuda", True, ["pin", ("cuda", True)]),
        ("cuda:1", True, ["pin", ("cuda:1", True)]),
        ("cuda", False, [("cuda", True)]),
        ("mps", True, [("mps", False)]),
        ("cpu", True, [("cpu", False)]),
    ],
)
def test_a_copy_to_cuda_is_pinned_if_requested_and_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, device: str, pin: bool, expected: list[object]
):
    calls: list[object] = []

    def copy(tensor: torch.Tensor, device: object, non_blocking: bool = False) -> torch.Tensor:
        calls.append((str(device), non_blocking))
        return tensor

    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: calls.append("pin") or tensor)
    monkeypatch.setattr(torch.Tensor, "to", copy)
    devices.copy_to(torch.ones(3), torch.device(device), pin=pin)
    assert calls == expected


@pytest.mark.parametrize("index", [0, 1])
def test_the_gpu_that_computes_is_asked_for_bfloat16(monkeypatch: pytest.MonkeyPatch, index: int):
    current = [0]

    @contextmanager
    def within(device: torch.device) -> Iterator[None]:
        current.append(device.index)
        yield
        current.pop()

    monkeypatch.setattr(torch.cuda, "device", within)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: current[-1] == 1)
    precision = select_precision("auto", torch.device("cuda", index), devices.MIN_PARAMETERS)
    assert precision == ("bfloat16" if index else "float32")


def test_one_thread_measures_the_cpu(monkeypatch: pytest.MonkeyPatch):
    threads: set[int] = set()
    multiply = torch.mm
    monkeypatch.setattr(torch, "mm", lambda *matrices: threads.add(torch.get_num_threads()) or multiply(*matrices))
    monkeypatch.setattr(devices, "MIN_PARAMETERS", 1)
    with private_torch_state(threads=3):
        assert select_precision("auto", torch.device("cpu"), 1) in ("float32", "bfloat16")
        assert torch.get_num_threads() == 3
    assert threads == {1}
