"""Devices and precisions: which hardware computes, how tensors get there, and in which type of numbers."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch
from torch import Tensor

from regard.config.base import unknown_device
from regard.errors import UserError

Precision = Literal["float32", "bfloat16", "float16"]
DTYPES: dict[Precision, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
# `auto` chooses bfloat16 on a CPU that multiplies it this many times as fast as float32. With hardware support it is 2
# to 8 times as fast; without, slower.
FASTER = 1.5
PROBE_SIZE, PROBE_REPETITIONS = 512, 4
# `auto` chooses float32 for smaller models: their time goes into small operations, to which bfloat16 adds conversions.
MIN_PARAMETERS = 1_000_000


def select_device(name: str) -> torch.device:
    """The device of a name.

    Args:
        name: `auto` (CUDA if there is a GPU, else MPS, else the CPU), `cpu`, `mps`, `cuda` or `cuda:N`.

    Raises:
        UserError: The name is not one of these, or this machine has no such device.
    """
    if problem := unknown_device(name):
        raise UserError(f"device: {problem}")
    has_mps = torch.backends.mps.is_available()
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if has_mps else "cpu")
    device = torch.device(name)
    count = {"cpu": 1, "mps": int(has_mps), "cuda": torch.cuda.device_count()}[device.type]
    if not count:
        raise UserError(f"device: this machine has no '{name}', or this PyTorch ({torch.__version__}) cannot use it")
    if (device.index or 0) >= count:
        raise UserError(f"device: there is no '{name}'; this machine has {count}, counted from {device.type}:0")
    return device


def describe_device(device: torch.device) -> str:
    """A device as it is printed: `cpu`, or `cuda:0 (NVIDIA A100-SXM4-80GB)`.

    Args:
        device: The device.
    """
    return f"{device} ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else str(device)


def copy_to(tensor: Tensor, device: torch.device | str, *, pin: bool = False) -> Tensor:
    """The tensor on a device. The program does not wait for a copy from the CPU to CUDA.

    On MPS it waits: PyTorch may otherwise read the memory of the source after it has been freed.

    Args:
        tensor: A tensor.
        device: A PyTorch device.
        pin: Copy from pinned memory to CUDA, while the GPU computes. Not in a model: `torch.compile` cannot pin.
    """
    kind = torch.device(device).type
    if tensor.device.type != "cpu" or kind in ("cpu", "mps"):
        return tensor.to(device)
    return (tensor.pin_memory() if pin and kind == "cuda" else tensor).to(device, non_blocking=True)


def float64_device(device: torch.device) -> torch.device:
    """The device, or the CPU if the device has no float64: MPS does not.

    Args:
        device: Where the values are.
    """
    return device if device.type in ("cpu", "cuda") else torch.device("cpu")


def select_precision(name: str, device: torch.device, parameters: int) -> Precision:
    """The precision of a name.

    Args:
        name: `float32`, `bfloat16`, `float16`, or `auto`: bfloat16 if the model has at least `MIN_PARAMETERS`
            parameters and the device multiplies bfloat16 in hardware, else float32.
        device: The device.
        parameters: The number of parameters of the model.

    Raises:
        UserError: The device cannot compute in it.
    """
    if name == "auto":
        return "bfloat16" if parameters >= MIN_PARAMETERS and _has_fast_bfloat16(device) else "float32"
    return check_precision(name, device)


def check_precision(name: str, device: torch.device) -> Precision:
    """The precision of a name, if a device can compute in it.

    Args:
        name: `float32`, `bfloat16` or `float16`.
        device: The device.

    Raises:
        UserError: The name is not one of these, or the device cannot compute in it.
    """
    if name == "float16" and device.type == "cpu":
        raise UserError("precision: float16 needs a GPU; on a CPU, choose bfloat16 or float32")
    if name not in DTYPES:
        raise UserError(f"precision: '{name}' is not a precision; choose {', '.join(DTYPES)}")
    return name


def _has_fast_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        with torch.cuda.device(device):  # PyTorch reports about the current device
            return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu":
        return False
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # on a busy machine, several threads wait for each other
    try:
        return _seconds(torch.float32) > FASTER * _seconds(torch.bfloat16)
    finally:
        torch.set_num_threads(threads)


def _seconds(dtype: torch.dtype) -> float:
    """The time of a matrix product on the CPU: the shortest of several, since other programs may interrupt one."""
    matrix = torch.ones(PROBE_SIZE, PROBE_SIZE, dtype=dtype, device="cpu")
    times = []
    for _ in range(PROBE_REPETITIONS):
        started_at = time.perf_counter()
        torch.mm(matrix, matrix)
        times.append(time.perf_counter() - started_at)
    return min(times)


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[None]:
    """Within this context, matrix products are computed in a precision. Weights, sums and norms stay in float32.

    Args:
        device: The device that computes.
        precision: The precision of the products; nothing changes for float32.
    """
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, DTYPES[precision])


def exact_products(device: torch.device) -> AbstractContextManager[None]:
    """Within this context, matrix products are computed in the type of their factors, also under autocast.

    Args:
        device: The device that computes.
    """
    if not torch.amp.is_autocast_available(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)
