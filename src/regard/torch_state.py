"""The global state of PyTorch, which belongs to the program that calls Regard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch


@contextmanager
def private_torch_state(threads: int | None = None) -> Iterator[None]:
    """Run a block with PyTorch's defaults, whatever the caller has set, and restore the caller's state afterwards.

    Within the block, tensors are float32 on the CPU unless they name something else, and gradients are recorded. Random
    numbers that the block draws do not change those that the caller draws later.

    Args:
        threads: Number of threads within the block; None: it may set them itself.
    """
    dtype, before = torch.get_default_dtype(), torch.get_num_threads()
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[]))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        if torch.get_default_device().type != "cpu":  # otherwise not: it makes every call of PyTorch slower
            stack.enter_context(torch.device("cpu"))
        torch.set_default_dtype(torch.float32)
        if threads is not None:
            torch.set_num_threads(threads)
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            torch.set_num_threads(before)
