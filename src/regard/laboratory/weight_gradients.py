"""The gradient of the loss at each part of the weights, summed over all steps of all sentences.

    L = −1/N Σ_t log p(y_t | y_<t, x),   N target tokens, with teacher forcing: what training minimizes

    ∂L/∂W = Σ_t ∂L/∂W at step t          a weight of a recurrence is used at every step (backpropagation through time)

A part is a module of the encoder or the decoder: its embedding, its cell, its attention, its readout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data import Example, collate
from regard.inference.translator import ProgressCallback, no_progress
from regard.laboratory.embeddings import double_precision_copy, model_device
from regard.laboratory.gradients import BATCH_SIZE, by_source_length, sentence_losses
from regard.nn import Seq2Seq


@dataclass(frozen=True)
class WeightPart:
    """The weights of one part of a model.

    Args:
        part: Its name, such as `decoder.cell`.
        tensors: The number of weight tensors.
        elements: The number of their elements.
        norm: ‖W‖, of all elements.
        change: ‖W − W_0‖, the distance from the weights before training.
        gradient: ‖∂L/∂W‖.
    """

    part: str
    tensors: int
    elements: int
    norm: float
    change: float
    gradient: float


def weight_gradients(
    model: Seq2Seq, initial: Seq2Seq, examples: Sequence[Example], advance: ProgressCallback = no_progress
) -> list[WeightPart]:
    """Norms of the weights of each part and of the gradient of the mean loss per token, in double precision.

    Args:
        model: The model.
        initial: The same model before training.
        examples: The sentences as token ids.
        advance: Called with the number of sentences done.
    """
    model = double_precision_copy(model)
    tokens = sum(len(example.target) - 1 for example in examples)
    ordered = by_source_length(examples)
    for begin in range(0, len(ordered), BATCH_SIZE):
        batch = collate(ordered[begin : begin + BATCH_SIZE]).to(model_device(model))
        losses = sentence_losses(model, batch, model.encoder(batch.source, batch.source_valid))
        (losses.sum() / tokens).backward()  # adds to the gradients of the batches before
        advance(len(batch.source))
    before = dict(initial.named_parameters())
    parts: dict[str, list[tuple[Tensor, Tensor, Tensor]]] = {}
    for name, weight in model.named_parameters():
        gradient = torch.zeros_like(weight) if weight.grad is None else weight.grad
        change = weight.detach() - before[name].detach().to(weight)
        parts.setdefault(".".join(name.split(".")[:2]), []).append((weight.detach(), change, gradient))
    return [_summarize(part, *zip(*tensors, strict=True)) for part, tensors in parts.items()]


def _summarize(
    part: str, weights: tuple[Tensor, ...], changes: tuple[Tensor, ...], gradients: tuple[Tensor, ...]
) -> WeightPart:
    norms = (float(torch.cat([each.flatten() for each in group]).norm()) for group in (weights, changes, gradients))
    return WeightPart(part, len(weights), sum(weight.numel() for weight in weights), *norms)
