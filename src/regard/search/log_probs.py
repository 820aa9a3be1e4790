"""Next-token log-probabilities of one model or an ensemble; all searches and scores use them.

    log p(y_t | y_<t, x) = z_t[y_t] − log Σ exp z_t        z: logits

Within a row, logits and log-probabilities have the same order, so a search compares logits and normalizes only the
tokens that it selects. Shapes: [rows, vocabulary] for logits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from regard.data import Batch
from regard.errors import UserError
from regard.nn import Seq2Seq, State
from regard.nn.normalizers import at_least_float32


@dataclass(frozen=True)
class LogProbs:
    """Unnormalized log-probabilities with their normalizers.

    Args:
        logits: z, [rows, vocabulary].
        normalizer: Log Σ exp z, [rows].
    """

    logits: Tensor
    normalizer: Tensor

    @classmethod
    def mean(cls, logits: Sequence[Tensor]) -> LogProbs:
        """The mean log-probabilities of several models: the mean of z, and the mean of log Σ exp z.

        Args:
            logits: [rows, vocabulary] of each model.

        Raises:
            UserError: If a model's logits are not finite.
        """
        logits = [at_least_float32(each) for each in logits]
        normalizers = [each.logsumexp(-1) for each in logits]
        if not all(each.isfinite().all() for each in normalizers):
            raise UserError("the model's probabilities are not finite: its weights are not finite, or too large")
        if len(logits) == 1:
            return cls(logits[0], normalizers[0])
        return cls(torch.stack(logits).mean(0), torch.stack(normalizers).mean(0))

    def of_tokens(self, tokens: Tensor, rows: Tensor) -> Tensor:
        """log p of tokens.

        Args:
            tokens: Token ids, of any shape.
            rows: The row of each token, of the same shape.
        """
        return self.logits[rows, tokens] - self.normalizer[rows]


@dataclass(frozen=True)
class EnsembleState:
    """The states of several decoders with the same inputs; a `State` like theirs.

    Args:
        members: The state of each decoder.
    """

    members: tuple[State, ...]

    @property
    def weights(self) -> Tensor | None:
        """Attention weights: of one model its own, with layers and heads; of several the mean, [rows, positions]."""
        weights = [state.weights for state in self.members if state.weights is not None]
        if len(weights) < 2:
            return weights[0] if weights else None
        total = torch.stack([each.flatten(1, -2).mean(1) if each.dim() > 2 else each for each in weights]).sum(0)
        return total / total.sum(-1, keepdim=True).clamp(min=1)  # a model without attention adds zeros

    def select(self, index: Tensor) -> EnsembleState:
        """The states of the rows `index`, of any shape.

        Args:
            index: Indices of rows.
        """
        return EnsembleState(tuple(state.select(index) for state in self.members))


class Ensemble:
    """One model, or several with the same vocabularies, used like one decoder.

    Args:
        models: The models, in evaluation mode and on one device.
    """

    def __init__(self, models: Sequence[Seq2Seq]) -> None:
        self.models = tuple(models)
        # The shortest limits of all members; None: no limit.
        self.max_source_length = _minimum(model.encoder.max_length for model in models)
        self.max_target_length = _minimum(model.decoder.max_length for model in models)

    def start(self, source: Tensor, valid: Tensor) -> EnsembleState:
        """The decoders' initial states.

        Args:
            source: [rows, positions], source ids.
            valid: [rows, positions], False at padding.
        """
        return EnsembleState(tuple(model.start(source, valid) for model in self.models))

    def step(self, token: Tensor, state: EnsembleState) -> tuple[LogProbs, EnsembleState]:
        """One step of all decoders, as `Decoder.step`.

        Args:
            token: [rows], the decoders' input.
            state: Their states.
        """
        steps = [model.decoder.step(token, own) for model, own in zip(self.models, state.members, strict=True)]
        return LogProbs.mean([logits for logits, _ in steps]), EnsembleState(tuple(state for _, state in steps))

    def teacher_forced(self, batch: Batch) -> LogProbs:
        """Log-probabilities at all target positions at once, a row for each token that is not padding.

        Args:
            batch: Sources and targets, on the device of the models.
        """
        state = self.start(batch.source, batch.source_valid)
        pairs = zip(self.models, state.members, strict=True)
        return LogProbs.mean([model.decoder.teacher_forced(batch.inputs, own, batch.valid)[0] for model, own in pairs])

    @torch.inference_mode()
    def score(self, batch: Batch) -> list[list[float]]:
        """log p of each token of each target.

        Args:
            batch: Sources and targets, on the device of the models.
        """
        targets = batch.outputs[batch.valid]
        rows = torch.arange(len(targets), device=targets.device)
        log_probs = self.teacher_forced(batch).of_tokens(targets, rows)
        return [row.tolist() for row in log_probs.split(batch.valid.sum(1).tolist())]

    @torch.inference_mode()
    def top_tokens(self, batch: Batch, count: int, banned_tokens: Sequence[int]) -> list[list[list[tuple[int, float]]]]:
        """The most probable tokens with their log p, for each position of each target.

        Args:
            batch: Sources and targets, on the device of the models.
            count: Number of tokens for each position.
            banned_tokens: Token ids to leave out.
        """
        log_probs = self.teacher_forced(batch)
        banned = torch.tensor(banned_tokens, device=log_probs.logits.device)
        logits = log_probs.logits.index_fill(1, banned, -torch.inf)
        best, tokens = logits.topk(min(count, logits.shape[1] - len(banned_tokens)))
        values = best - log_probs.normalizer.unsqueeze(1)
        rows = [list(zip(*row, strict=True)) for row in zip(tokens.tolist(), values.tolist(), strict=True)]
        ends = batch.valid.sum(1).cumsum(0).tolist()
        return [rows[begin:end] for begin, end in pairwise([0, *ends])]


def _minimum(limits: Iterable[int | None]) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)
