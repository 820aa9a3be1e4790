"""Loss, token accuracy and exact match against reference targets, teacher-forced or free-running."""

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
    """Averages over tokens or sentences.

    Args:
        loss: Cross-entropy, nats per token.
        token_accuracy: Share of tokens that are correct.
        exact_match: Share of sentences in which every token is correct, `<end>` included.
    """

    loss: float
    token_accuracy: float
    exact_match: float


@torch.inference_mode()
def compute_losses(model: Seq2Seq, batches: Iterable[Batch], *, teacher: bool) -> LossMetrics:
    """Average loss, token accuracy and exact match.

    The difference between teacher-forced and free-running values is exposure bias: in training, the decoder only ever
    continued correct prefixes. A free-running exact match is a sentence that greedy search gets right.

    Args:
        model: The model, which is put into evaluation mode.
        batches: What to average over.
        teacher: The decoder reads reference tokens (teacher forcing) instead of its own output (free-running).
    """
    model.eval()
    device = next(model.parameters()).device
    loss = 0.0
    tokens = correct = sentences = exact = 0
    for batch in (each.to(device) for each in batches):
        teacher_forcing_mask = None if teacher else torch.zeros_like(batch.valid)
        logits = model(batch.source, batch.source_valid, batch.inputs, batch.valid, teacher_forcing_mask)
        reference = batch.outputs[batch.valid]
        hits = logits.argmax(-1) == reference
        loss += float(cross_entropy(logits, reference, reduction="sum"))
        tokens += len(reference)
        correct += int(hits.sum())
        sentences += len(batch.valid)
        exact += int(_all_correct(hits, batch.valid).sum())
    return LossMetrics(loss / tokens, correct / tokens, exact / sentences)


def _all_correct(hits: Tensor, valid: Tensor) -> Tensor:
    """Rows that are correct at every valid step, [batch]; `hits` are those of the valid steps, in order."""
    return torch.ones_like(valid).masked_scatter(valid, hits).all(1)
