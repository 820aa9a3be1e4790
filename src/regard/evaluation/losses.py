"""Loss, token accuracy and exact match against reference targets, teacher-forced or free-running."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from regard.data import Batch
from regard.nn import Seq2Seq
from regard.process_group import SINGLE, ProcessGroup
from regard.search import Ensemble


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
def compute_losses(
    model: Seq2Seq, batches: Iterable[Batch], *, teacher: bool, group: ProcessGroup = SINGLE
) -> LossMetrics:
    """Average loss, token accuracy and exact match.

    The difference between teacher-forced and free-running values is exposure bias: in training, the decoder only ever
    continued correct prefixes. A free-running exact match is a sentence that greedy search gets right.

    Args:
        model: The model, which is put into evaluation mode.
        batches: What to average over.
        teacher: The decoder reads reference tokens (teacher forcing) instead of its own output (free-running).
        group: Processes that average together, each over batches of its own.
    """
    model.eval()

    def predict(batch: Batch, reference: Tensor) -> tuple[Tensor, Tensor]:
        teacher_forcing_mask = None if teacher else torch.zeros_like(batch.valid)
        logits = model(batch.source, batch.source_valid, batch.inputs, batch.valid, teacher_forcing_mask)
        return cross_entropy(logits.float(), reference, reduction="sum"), logits

    return _average(predict, batches, next(model.parameters()).device, group)


@torch.inference_mode()
def compute_ensemble_losses(ensemble: Ensemble, batches: Iterable[Batch]) -> LossMetrics:
    """Average teacher-forced loss, token accuracy and exact match of the mean log-probabilities of several models.

    Args:
        ensemble: The models.
        batches: What to average over.
    """

    def predict(batch: Batch, reference: Tensor) -> tuple[Tensor, Tensor]:
        log_probs = ensemble.teacher_forced(batch)
        rows = torch.arange(len(reference), device=reference.device)
        return -log_probs.of_tokens(reference, rows).cpu().double().sum(), log_probs.logits

    return _average(predict, batches, next(ensemble.models[0].parameters()).device)


def _average(
    predict: Callable[[Batch, Tensor], tuple[Tensor, Tensor]],
    batches: Iterable[Batch],
    device: torch.device,
    group: ProcessGroup = SINGLE,
) -> LossMetrics:
    """`predict` returns the summed loss of the reference tokens of a batch, and the logits that it is computed from."""
    sums = torch.zeros(5, dtype=torch.float64, device="cpu")
    for batch in (each.to(device) for each in batches):
        reference = batch.outputs[batch.valid]
        summed, logits = predict(batch, reference)
        hits = logits.argmax(-1) == reference
        exact = int(_all_correct(hits, batch.valid).sum())
        values = [float(summed), len(reference), int(hits.sum()), len(batch.valid), exact]
        sums += torch.tensor(values, dtype=torch.float64, device="cpu")
    loss, tokens, correct, sentences, exact = group.sum(sums).tolist()
    return LossMetrics(loss / tokens, correct / tokens, exact / sentences)


def _all_correct(hits: Tensor, valid: Tensor) -> Tensor:
    """Rows that are correct at every valid step, [batch]; `hits` are those of the valid steps, in order."""
    return torch.ones_like(valid).masked_scatter(valid, hits).all(1)
