"""How likely a model, or several together, think each token: here all searches and scores get their log p.

    log p(y_t | y_<t, x) = z_t[y_t] − log Σ exp z_t        z: logits

Within a row the order of tokens is that of their logits, so a search looks at those, and only what it chose is ever
made a probability. Shapes: [rows, vocabulary] for logits.
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


@dataclass(frozen=True)
class LogProbs:
    logits: Tensor  # z: [rows, vocabulary]
    total: Tensor  # log Σ exp z: [rows]

    @classmethod
    def mean(cls, logits: Sequence[Tensor]) -> LogProbs:
        """Several models vote: the mean of log p is that of z minus that of log Σ exp z."""
        totals = [each.logsumexp(-1) for each in logits]
        if not all(total.isfinite().all() for total in totals):
            raise UserError("a model gives no probabilities: its weights are not finite, or far too large")
        if len(logits) == 1:
            return cls(logits[0], totals[0])
        return cls(torch.stack(list(logits)).mean(0), torch.stack(totals).mean(0))

    def of(self, tokens: Tensor, rows: Tensor) -> Tensor:
        """log p of each of `tokens`, of any shape, said in the row of the same place in `rows`."""
        return self.logits[rows, tokens] - self.total[rows]


@dataclass(frozen=True)
class EnsembleState:
    """The states of several decoders that say the same; a `State` like theirs."""

    members: tuple[State, ...]

    @property
    def weights(self) -> Tensor | None:
        """Of one model its own, with layers and heads; of several the mean of those that look: [rows, positions]."""
        weights = [state.weights for state in self.members if state.weights is not None]
        if len(weights) < 2:
            return weights[0] if weights else None
        total = torch.stack([each.flatten(1, -2).mean(1) if each.dim() > 2 else each for each in weights]).sum(0)
        return total / total.sum(-1, keepdim=True).clamp(min=1)  # without attention, a model has no weights to add

    def select(self, index: Tensor) -> EnsembleState:
        return EnsembleState(tuple(state.select(index) for state in self.members))


class Ensemble:
    """One model, or several with the same vocabularies, driven like one decoder."""

    def __init__(self, models: Sequence[Seq2Seq]) -> None:
        self.models = tuple(models)
        # The longest source that all can read, and the longest target that all can produce; None: no limit.
        self.longest_source = _least(model.encoder.max_length for model in models)
        self.longest_target = _least(model.decoder.max_length for model in models)

    def start(self, source: Tensor, valid: Tensor) -> EnsembleState:
        return EnsembleState(tuple(model.start(source, valid) for model in self.models))

    def step(self, token: Tensor, state: EnsembleState) -> tuple[LogProbs, EnsembleState]:
        """One token a row, as `Decoder.step`."""
        steps = [model.decoder.step(token, own) for model, own in zip(self.models, state.members, strict=True)]
        return LogProbs.mean([logits for logits, _ in steps]), EnsembleState(tuple(state for _, state in steps))

    def read(self, batch: Batch) -> LogProbs:
        """What was thought of each token of each target, read all at once: a row for each real one."""
        state = self.start(batch.source, batch.source_valid)
        pairs = zip(self.models, state.members, strict=True)
        return LogProbs.mean([model.decoder.teacher_forced(batch.inputs, own, batch.valid)[0] for model, own in pairs])

    @torch.inference_mode()
    def score(self, batch: Batch) -> list[list[float]]:
        """log p of each token of each target."""
        truth = batch.outputs[batch.valid]
        chances = self.read(batch).of(truth, torch.arange(len(truth))).double()
        return [row.tolist() for row in chances.split(batch.valid.sum(1).tolist())]

    @torch.inference_mode()
    def likeliest(self, batch: Batch, count: int, banned_tokens: Sequence[int]) -> list[list[list[tuple[int, float]]]]:
        """For each token of each target the `count` likeliest in its place, except `banned_tokens`, with log p."""
        chances = self.read(batch)
        logits = chances.logits.index_fill(1, torch.tensor(banned_tokens), -torch.inf)
        best, tokens = logits.topk(min(count, logits.shape[1] - len(banned_tokens)))
        logs = (best - chances.total.unsqueeze(1)).double()
        rows = [list(zip(*row, strict=True)) for row in zip(tokens.tolist(), logs.tolist(), strict=True)]
        ends = batch.valid.sum(1).cumsum(0).tolist()
        return [rows[begin:end] for begin, end in pairwise([0, *ends])]


def _least(limits: Iterable[int | None]) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)
