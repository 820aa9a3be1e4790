"""The importance of each source position for each output token, by three measures.

For the output y_1 … y_T of a model for a source x with embeddings z_1 … z_n, each measure is a map [output, source]:

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
from regard.errors import UserError
from regard.inference.translation import mean_attention
from regard.inference.translator import ProgressCallback, no_progress
from regard.laboratory.embeddings import encode_embeddings, model_device, source_embeddings
from regard.nn import Seq2Seq

MEASURES = ("attention", "occlusion", "gradient × input")
MAX_TOKENS = 2_000  # of a source and of an output: time and memory grow with their product
MAX_CELLS = 100_000  # rows × output steps × source positions in one forward pass


@dataclass(frozen=True)
class Importance:
    """The importance maps of one output.

    Args:
        log_probs: Log p(y_t | y_<t, x) of each output token [output].
        maps: One map per entry of `MEASURES` [measures, output, source].
    """

    log_probs: Tensor
    maps: Tensor

    def shares(self) -> Tensor:
        """The maps with rows normalized to sum to one; a row of zeros is unchanged."""
        total = self.maps.sum(-1, keepdim=True)
        return self.maps / total.masked_fill(total == 0, 1.0)


def compute_importance(model: Seq2Seq, example: Example, advance: ProgressCallback = no_progress) -> Importance:
    """All three measures for one source and its output, with the output teacher-forced.

    Args:
        model: The model, best in double precision (`double_precision_copy`).
        example: Token ids of the source and of the output.
        advance: Called with the number of source positions occluded, and of output steps differentiated.

    Raises:
        UserError: If the source or the output has more than `MAX_TOKENS` tokens.
    """
    longest = max(len(example.source), len(example.target))
    if longest > MAX_TOKENS:
        raise UserError(f"a text of {longest:,} tokens is too long for these measures; the limit is {MAX_TOKENS:,}")
    source, _ = _source_batch(model, example)
    embeddings = source_embeddings(model.encoder, source)  # [1, source, size]
    with torch.no_grad():
        log_probs, weights = _token_log_probs(model, example, embeddings)
        kept = 1 - torch.eye(source.shape[1], dtype=embeddings.dtype, device=embeddings.device)  # row i: all but i
        occluded = _occluded_log_probs(model, example, kept, embeddings, advance)
    occlusion = (log_probs - occluded).abs().T
    gradient = _gradient_times_input(model, example, embeddings, advance).abs()
    return Importance(log_probs, torch.stack([mean_attention(weights[0]), occlusion, gradient]))


def _source_batch(model: Seq2Seq, example: Example) -> tuple[Tensor, Tensor]:
    """Ids and valid mask of the source on the model's device, both [1, source]."""
    device = model_device(model)
    source, valid = pad([example.source])
    return source.to(device), valid.to(device)


def _token_log_probs(
    model: Seq2Seq, example: Example, embeddings: Tensor, steps: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """log p(y_t | y_<t, x) for each row of `embeddings` [rows, source, size], flattened, and the attention weights.

    `steps` [rows, output] selects the steps t; by default all.
    """
    rows = len(embeddings)
    source, valid = (part.expand(rows, *part.shape[1:]) for part in _source_batch(model, example))
    target = torch.tensor(example.target, device=source.device).expand(rows, -1)
    if steps is None:
        steps = torch.ones(rows, len(example.target) - 1, dtype=torch.bool, device=source.device)
    state = model.decoder.start(encode_embeddings(model.encoder, source, valid, embeddings))
    logits, weights = model.decoder.teacher_forced(target[:, :-1], state, steps)  # [selected steps, vocabulary]
    outputs = target[:, 1:][steps].unsqueeze(-1)
    return torch.log_softmax(logits, -1).gather(-1, outputs).squeeze(-1), weights


def _occluded_log_probs(
    model: Seq2Seq, example: Example, kept: Tensor, embeddings: Tensor, advance: ProgressCallback
) -> Tensor:
    """log p of every step for each row of `kept` [rows, source], which selects the embeddings: [rows, output]."""
    parts = []
    for some in kept.split(_rows_per_pass(example)):
        parts.append(_token_log_probs(model, example, some.unsqueeze(-1) * embeddings)[0])
        advance(len(some))
    return torch.cat(parts).unflatten(0, (len(kept), -1))


def _gradient_times_input(model: Seq2Seq, example: Example, embeddings: Tensor, advance: ProgressCallback) -> Tensor:
    """z_i · ∂ log p(y_t) / ∂z_i: [output, source]. Step t has its own row, so one backward pass covers many steps."""
    gradients: list[Tensor] = []
    own_step = torch.eye(len(example.target) - 1, dtype=torch.bool, device=embeddings.device)  # row t selects step t
    for steps in own_step.split(_rows_per_pass(example)):
        rows = embeddings.repeat(len(steps), 1, 1).requires_grad_()
        log_probs, _ = _token_log_probs(model, example, rows, steps)
        (gradient,) = torch.autograd.grad(log_probs.sum(), rows)
        gradients.append((gradient * embeddings).sum(-1))
        advance(len(steps))
    return torch.cat(gradients)


def _rows_per_pass(example: Example) -> int:
    return max(1, MAX_CELLS // (len(example.source) * len(example.target)))
