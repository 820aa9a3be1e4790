"""A pretend GPU: it computes on the CPU, refuses what a GPU refuses, and records what the CPU would wait for.

A `DeviceTensor` holds the numbers of an ordinary tensor and reports the device `DEVICE`. Within `PretendDevice`,
whatever PyTorch creates there or copies to it becomes one, in backward passes, too. So models train and search with
real numbers, which are those of the CPU within rounding, and these are errors:

- an operation on tensors of different devices, except a tensor without axes, as on CUDA;
- random numbers from a generator on the CPU, as on CUDA;
- random integers of more than 32 bits, of which MPS draws 32;
- float64, as on MPS.

`DEVICE` is of the type "lazy": a build of PyTorch without CUDA computes no gradients for tensors that report "cuda".
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Self
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import regard

DEVICE = torch.device("lazy:0")
CPU = torch.device("cpu")
SOURCES = Path(regard.__file__).parent
aten = torch.ops.aten
COPIES = (aten._to_copy.default, aten.copy_.default)
READS = (aten._local_scalar_dense.default, aten.equal.default)
SHAPES_FROM_DATA = (aten.nonzero.default, aten.masked_select.default, aten.repeat_interleave.Tensor)
INDEXING = (aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._index_put_impl_.default)
# These take and return lengths on the CPU.
PACKING = (aten._pack_padded_sequence.default, aten._pad_packed_sequence.default)
RECURRENCES = (aten.rnn_tanh.data, aten.gru.data, aten.lstm.data)
TAKE_BOTH = (*COPIES, *PACKING, *RECURRENCES, aten._pack_padded_sequence_backward.default)


class RefusedError(RuntimeError):
    """An operation that a GPU refuses."""


class DeviceTensor(Tensor):
    """A tensor on the pretend device.

    Args:
        content: Its numbers, on the CPU.
    """

    content: Tensor

    @staticmethod
    def __new__(cls, content: Tensor) -> Self:
        tensor: Self = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            content.shape,
            strides=content.stride(),
            storage_offset=content.storage_offset(),
            dtype=content.dtype,
            device=DEVICE,
        )
        tensor.content = content
        return tensor

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.tolist:  # which PyTorch has for its own tensors only
            return args[0].detach().cpu().tolist()
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is aten._has_compatible_shallow_copy_type.default:  # by the assignment to `data` below
            return True
        raise RefusedError(f"{func} outside of PretendDevice")


class PretendDevice(TorchDispatchMode):
    """Within this context, tensors can be on `DEVICE`.

    Attributes:
        waits: What the CPU waits for, as operation and line: reading numbers, copies that are not `non_blocking`, and
            results whose shape depends on numbers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []
        self.depth = 0  # it enters itself again for the parts of composite operations
        fused_devices = "torch.optim.optimizer._get_fused_kernels_supported_devices"
        self.fused = patch(fused_devices, lambda: ["cpu", DEVICE.type])

    def __enter__(self) -> Self:
        if not self.depth:
            torch._C._set_only_lift_cpu_tensors(True)  # `torch.tensor` creates on the CPU, and copies
            self.fused.start()
        self.depth += 1
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.depth -= 1
        if not self.depth:
            self.fused.stop()
            torch._C._set_only_lift_cpu_tensors(False)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if is_composite(func):  # as it arrives here in inference mode only
            with self:
                return func.decompose(*args, **kwargs)
        tensors = list(tensors_in((args, kwargs)))
        here = [each for each in tensors if isinstance(each, DeviceTensor)]
        if here and func not in TAKE_BOTH and any(each.dim() for each in tensors if each.device != DEVICE):
            raise RefusedError(f"{func} on {[(tuple(each.shape), each.device.type) for each in tensors]} in {line()}")
        device = result_device(func, args, kwargs)
        if device == DEVICE and kwargs.get("generator") is not None:
            raise RefusedError(f"{func} with a generator on the CPU in {line()}")
        if device == DEVICE and func is aten.randint.low and args[1] - args[0] > 2**32:
            raise RefusedError(f"{func} of more than 32 bits in {line()}")
        if must_wait(func, args, kwargs, device):
            self.waits.append(f"{func} in {line()}")
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": CPU}
        args, kwargs = replace_tensors(content, (args, kwargs))
        results = func(*args, **kwargs)
        if device != DEVICE:
            return results
        if torch.Tag.inplace_view in func.tags:  # such as `transpose_`, which changes the shape of its argument
            here[0].data = DeviceTensor(here[0].content)
        if func in PACKING:  # lengths are on the CPU
            return on_device(func, results[0]), results[1]
        known = {id(each.content): each for each in here}  # what an operation in place returns
        return replace_tensors(lambda each: known[id(each)] if id(each) in known else on_device(func, each), results)


def tensors_in(values: Any) -> Iterator[Tensor]:
    """The tensors in nested tuples, lists and dictionaries."""
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, tuple | list | dict):
        for value in values.values() if isinstance(values, dict) else values:
            yield from tensors_in(value)


def replace_tensors(change: Callable[[Tensor], Tensor], values: Any) -> Any:
    """The same nested values with other tensors."""
    if isinstance(values, Tensor):
        return change(values)
    if isinstance(values, dict):
        return {key: replace_tensors(change, value) for key, value in values.items()}
    return (
        type(values)(replace_tensors(change, each) for each in values) if isinstance(values, tuple | list) else values
    )


@cache
def is_composite(func: Any) -> bool:
    """True if an operation consists of others, which are then checked."""
    return func not in (*PACKING, *RECURRENCES) and func._can_decompose()


def content(tensor: Tensor) -> Tensor:
    """The numbers of a tensor, on the CPU."""
    return tensor.content if isinstance(tensor, DeviceTensor) else tensor


def on_device(func: Any, result: Tensor) -> Tensor:
    """A result of an operation of the device."""
    if result.dtype == torch.float64:
        raise RefusedError(f"{func} has a result in float64 in {line()}")
    with torch.inference_mode(False):  # views of ordinary tensors are ordinary tensors in inference mode, too
        return DeviceTensor(result)


def result_device(func: Any, args: Any, kwargs: Any) -> torch.device:
    """The device of the results: that of a keyword, of the destination of a copy, or of the arguments."""
    if kwargs.get("device") is not None:
        return torch.device(kwargs["device"])
    sources = args[:1] if func is aten.copy_.default else (args, kwargs)
    return DEVICE if any(isinstance(each, DeviceTensor) for each in tensors_in(sources)) else CPU


def must_wait(func: Any, args: Any, kwargs: Any, device: torch.device) -> bool:
    """True if the CPU waits for a GPU in this operation."""
    here = any(isinstance(each, DeviceTensor) for each in tensors_in((args, kwargs)))
    if func in COPIES:
        source = args[1] if func is aten.copy_.default else args[0]
        non_blocking = kwargs.get("non_blocking") or (func is aten.copy_.default and args[2:] == (True,))
        return source.device != device and (device == CPU or not non_blocking)
    if func in INDEXING:  # by a mask, except to fill it with one number
        masks = [each for each in args[1] if each is not None and each.dtype == torch.bool]
        return here and bool(masks) and not (func is not aten.index.Tensor and args[2].numel() == 1)
    return here and func in (*READS, *SHAPES_FROM_DATA)


def line() -> str:
    """The innermost line of Regard that is being executed."""
    frame = sys._getframe()
    while frame.f_back is not None and SOURCES not in Path(frame.f_code.co_filename).parents:
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
