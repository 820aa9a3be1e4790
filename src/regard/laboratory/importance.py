"""What an output depends on: how much each source position counts for each output token, by three measures.

For the output y_1 … y_T that a model gave for a source x with the vectors z_1 … z_n, each is a map [output, source]:

    attention           α_ti, the mean over layers and heads
    occlusion           |log p(y_t | y_<t, x) − log p(y_t | y_<t, x with z_i = 0)|
    gradient × input    |∂ log p(y_t | y_<t, x) / ∂z_i · z_i|

Gradient × input is the first-order estimate of the difference that occlusion measures.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data import Example, pad
from regard.inference.translation import mean_attention
from regard.inference.translator import ProgressCallback, no_progress
from regard.laboratory.embeddings import encode, vectors_of
from regard.nn import Seq2Seq

MEASURES = ("attention", "occlusion", "gradient × input")
AT_ONCE = 100_000  # rows times output steps times source positions


@dataclass(frozen=True)
class Importance:
    """What each step of an output depends on."""

    log_probabilities: Tensor  # [output]
    maps: Tensor  # [measures, output, source]

    def shares(self) -> Tensor:
        """The maps with rows that sum to one; a row of zeros stays."""
        total = self.maps.sum(-1, keepdim=True)
        return self.maps / torch.where(total > 0, total, 1.0)


def importance_of(model: Seq2Seq, example: Example, advance: ProgressCallback = no_progress) -> Importance:
    """All three measures for one source and the output that was given for it, the model reading that output.

    `advance` is told of each source position that was occluded, and of each output step that was led back.
    """
    source, _ = pad([example.source])
    vectors = vectors_of(model.encoder, source)  # [1, source, size]
    with torch.no_grad():
        log_p, weights = _forced(model, example, vectors)
        kept = 1 - torch.eye(source.shape[1]).to(vectors)  # in row i, all positions but i
        without = _without(model, example, kept.unsqueeze(-1) * vectors, advance)
    occlusion = (log_p - without).abs().T
    gradient = (_slopes(model, example, vectors, advance) * vectors).sum(-1).abs()
    return Importance(log_p, torch.stack([mean_attention(weights[0]), occlusion, gradient]))


def _forced(model: Seq2Seq, example: Example, vectors: Tensor, steps: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """log p(y_t | y_<t, x) for each row of `vectors` [rows, source, size] at each of the steps t, all in one row.

    `steps` [rows, output] is True where it is wanted, if not everywhere. The second result is where the model looked.
    """
    rows = len(vectors)
    source, valid = (part.expand(rows, -1) for part in pad([example.source]))
    target = torch.tensor(example.target).expand(rows, -1)
    if steps is None:
        steps = torch.ones(rows, len(example.target) - 1, dtype=torch.bool)
    state = model.decoder.start(encode(model.encoder, source, valid, vectors))
    logits, weights = model.decoder.teacher_forced(target[:, :-1], state, steps)  # [steps in all rows, vocabulary]
    said = target[:, 1:][steps].unsqueeze(-1)
    return torch.log_softmax(logits, -1).gather(-1, said).squeeze(-1), weights


def _without(model: Seq2Seq, example: Example, vectors: Tensor, advance: ProgressCallback) -> Tensor:
    """log p of each step for each row of `vectors`: [rows, output]."""
    parts = []
    for some in vectors.split(_rows_at_once(example)):
        parts.append(_forced(model, example, some)[0])
        advance(len(some))
    return torch.cat(parts).unflatten(0, (len(vectors), -1))


def _slopes(model: Seq2Seq, example: Example, vectors: Tensor, advance: ProgressCallback) -> Tensor:
    """∂ log p(y_t) / ∂z_i: [output, source, size]. Each t has a row of its own, so one way back serves many."""
    slopes: list[Tensor] = []
    own_step = torch.eye(len(example.target) - 1, dtype=torch.bool)  # row t is asked for step t alone
    for steps in own_step.split(_rows_at_once(example)):
        rows = vectors.repeat(len(steps), 1, 1).requires_grad_()
        log_p, _ = _forced(model, example, rows, steps)
        slopes += torch.autograd.grad(log_p.sum(), rows)
        advance(len(steps))
    return torch.cat(slopes)


def _rows_at_once(example: Example) -> int:
    return max(1, AT_ONCE // (len(example.source) * len(example.target)))
