"""Measures over true targets: what the model would say next, given the truth or given what it said itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from regard.data import Batch
from regard.nn import Seq2Seq


@dataclass(frozen=True)
class LossMetrics:
    loss: float  # nats a token
    token_accuracy: float
    exact_match: float  # sentences in which every token was right, `<end>` included


@torch.inference_mode()
def compute_losses(model: Seq2Seq, batches: Iterable[Batch], *, teacher: bool) -> LossMetrics:
    """Over all `batches`. With a `teacher` the decoder reads true tokens, without one its own.

    The difference between the two is exposure bias: in training it only ever stood in right places. Without a
    teacher an exact match is a sentence that greedy search gets right.
    """
    model.eval()
    loss = 0.0
    tokens = right = sentences = exact = 0
    for batch in batches:
        given = None if teacher else torch.zeros_like(batch.valid)
        logits = model(batch.source, batch.source_valid, batch.inputs, batch.valid, given)
        truth = batch.outputs[batch.valid]
        hits = logits.argmax(-1) == truth
        loss += float(cross_entropy(logits, truth, reduction="sum"))
        tokens += len(truth)
        right += int(hits.sum())
        sentences += len(batch.valid)
        exact += int(_whole_rows(hits, batch.valid).sum())
    return LossMetrics(loss / tokens, right / tokens, exact / sentences)


def _whole_rows(hits: Tensor, valid: Tensor) -> Tensor:
    """Which rows have a hit at every valid step; `hits` are those of the valid steps in order."""
    return torch.ones_like(valid).masked_scatter(valid, hits).all(1)
