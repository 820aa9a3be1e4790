"""Data parallelism: the processes of a group divide each batch, and add up their gradients.

    ∇L = Σ_r n_r ∇L_r / Σ_r n_r        L_r: mean loss of the n_r target tokens of process r

is the gradient of the mean loss over the batch, whatever the number of processes. `DistributedDataParallel` averages
over processes instead, and rearranges its exchange after the first step, so that a continued training would differ in
the last bits.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import Parameter

from regard.devices import copy_to
from regard.process_group import ProcessGroup


def split_by_tokens(lengths: NDArray[np.integer], parts: int) -> list[slice]:
    """Consecutive parts of a batch with about equally many tokens; some are empty if there are too few sentences.

    Args:
        lengths: The number of tokens of each sentence.
        parts: The number of parts.
    """
    ends = lengths.cumsum()
    middles = ends - lengths / 2  # a sentence belongs to the part that has its middle
    cuts = np.searchsorted(middles, ends[-1] * np.arange(parts + 1) / parts).tolist()
    return [slice(begin, end) for begin, end in pairwise(cuts)]


def average_gradients(
    parameters: Iterable[Parameter], losses: Tensor, weight: int, group: ProcessGroup
) -> tuple[Tensor, int | Tensor]:
    """Replace gradients by their weighted mean over all processes, in one exchange.

    Args:
        parameters: Those of the model.
        losses: The mean losses of this process, [losses].
        weight: Its number of target tokens.
        group: The processes.

    Returns:
        The mean losses and the number of target tokens of all processes.
    """
    if group.size == 1:
        return losses, weight
    parameters = list(parameters)
    # A parameter has a gradient if it has one in some process: what a model uses may depend on the sentences.
    has_gradient = [parameter.grad is not None for parameter in parameters]
    gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in parameters]
    flags = copy_to(torch.tensor(has_gradient, dtype=losses.dtype, device="cpu"), losses.device, pin=True)
    parts = [losses.new_ones(1), losses, flags, *(gradient.flatten() for gradient in gradients)]
    values = group.buffer(sum(len(part) for part in parts), losses.device)
    torch.cat(parts, out=values)
    sums = group.sum(values.mul_(weight) if weight else values.zero_())  # 0 · ∞ is not 0
    tokens = sums[0].clone()
    means = torch.div(sums, tokens, out=values).split([len(part) for part in parts])
    if not (weight and all(has_gradient)):
        has_gradient = means[2].tolist()  # which waits for the device
    for parameter, mean, exists in zip(parameters, means[3:], has_gradient, strict=True):
        parameter.grad = mean.view_as(parameter) if exists else None
    return means[1].clone(), tokens
