"""The search loop, which greedy search, beam search and sampling share, over any decoder; and beam selection.

    extend every hypothesis by every token → the selector keeps some → those with `<end>` are finished, the others
    continue → a sentence leaves the batch when no hypothesis that continues can still enter its n best

At one step all hypotheses have the same length, and their totals (Σ log p, less penalties) rank them. Finished ones
differ in length and are ranked by total / lp(n), with lp(n) = ((5 + n) / 6)^α for n tokens; α is the length penalty.

Shapes: [sentences, width] for the hypotheses of a batch. Decoders see them as rows, those of a sentence together.
Hypotheses are ranked on the CPU: in float64, which MPS does not have, and because each step waits for them anyway.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.search.constraints import NO_CONSTRAINTS, Constraints
from regard.search.history import StepRecord, follow_backpointers, record_step
from regard.search.hypothesis import Hypothesis
from regard.search.log_probs import Ensemble, EnsembleState, LogProbs
from regard.search.selection import Selection, Selector, to_rows, top_values
from regard.text import Vocabulary

TRUNCATION_PENALTY = 1e9  # subtracted from the rank of a truncated hypothesis: all finished ones come first


class SearchStopped(Exception):  # noqa: N818 (nothing went wrong)
    """Raised by a search whose `should_stop` has returned True."""


def never_stop() -> bool:
    """Return False: the default of `should_stop`."""
    return False


@dataclass(frozen=True)
class Beam:
    """Selector that keeps the best extensions of all hypotheses of a sentence.

    Args:
        width: Beam width; 1 is greedy search.
    """

    width: int = 1

    def __call__(self, logits: Tensor, totals: Tensor, sentences: Tensor, step: int) -> Selection:
        best, tokens = top_values(logits, self.width)  # no hypothesis can contribute more than that
        totals, indices = top_values((totals.unsqueeze(-1) + best).flatten(1), self.width)
        hypotheses = indices // best.shape[-1]
        return Selection(to_rows(hypotheses, logits), tokens.flatten(1).gather(1, indices), totals)


@dataclass(frozen=True)
class SearchBatch:
    """A batch of sources, with the limits and constraints of their outputs.

    Args:
        source: [sentences, positions], source ids.
        valid: [sentences, positions], False at padding.
        start: [sentences], the decoder's first input.
        max_lengths: [sentences], the maximum number of output tokens, `<end>` included; at least 1. On the CPU.
        constraints: Which tokens are allowed.
        n_best: Number of hypotheses to return for each sentence.
        length_penalty: α, at least 0.
    """

    source: Tensor
    valid: Tensor
    start: Tensor
    max_lengths: Tensor
    constraints: Constraints = NO_CONSTRAINTS
    n_best: int = 1
    length_penalty: float = 0.0

    def rank(self, totals: Tensor, lengths: Tensor | int) -> Tensor:
        """total / lp(length), by which hypotheses of different length are compared.

        Args:
            totals: Σ log p, less penalties, of any shape, on the CPU.
            lengths: Numbers of tokens, of the same shape, or one for all.
        """
        lengths = torch.as_tensor(lengths, device="cpu").double()
        return totals.double() / ((5 + lengths) / 6) ** self.length_penalty

    def to(self, device: torch.device | str) -> SearchBatch:
        """The same batch on a device, except `max_lengths`.

        Args:
            device: A PyTorch device.
        """
        return replace(self, **{name: getattr(self, name).to(device) for name in ("source", "valid", "start")})


@dataclass(frozen=True)
class BeamState:
    """The hypotheses that continue, of the sentences that are still in the batch.

    Args:
        sentences: [sentences], their indices in the `SearchBatch`, on the CPU.
        totals: [sentences, width], Σ log p less penalties; -∞ where there are fewer hypotheses.
        inputs: [rows, 1 + steps], the decoder's inputs so far; the last column is its next input.
        parents: [rows], the indices of these hypotheses in the last `StepRecord`.
        state: The decoders' states.
    """

    sentences: Tensor
    totals: Tensor
    inputs: Tensor
    parents: Tensor
    state: EnsembleState

    @classmethod
    def start(cls, ensemble: Ensemble, batch: SearchBatch) -> BeamState:
        """One empty hypothesis for each sentence."""
        sentences, device = torch.arange(len(batch.source), device="cpu"), batch.source.device
        state = ensemble.start(batch.source, batch.valid)
        totals = torch.zeros(len(sentences), 1, device=device)
        return cls(sentences, totals, batch.start.unsqueeze(1), sentences.to(device), state)

    def select(self, log_probs: LogProbs, constraints: Constraints, selector: Selector) -> Selection:
        """The extensions to continue with."""
        shape, outputs = self.totals.shape, self.inputs[:, 1:]
        logits = constraints.apply(log_probs.logits, outputs).unflatten(0, shape)
        return selector(logits, self.totals - log_probs.normalizer.view(shape), self.sentences, outputs.shape[1])

    def advance(self, selection: Selection, totals: Tensor, state: EnsembleState, remaining: Tensor) -> BeamState:
        """The selected hypotheses of the sentences at the indices `remaining`, with these `totals`, both on the CPU."""
        device = self.inputs.device
        index = remaining.to(device)
        rows = selection.rows[index]  # [sentences, width]
        inputs = torch.cat([self.inputs[rows.flatten()], selection.tokens[index].view(-1, 1)], 1)
        parents = torch.arange(totals.numel(), device=device).view(totals.shape)[index].flatten()
        totals = totals[remaining].to(device)
        return BeamState(self.sentences[remaining], totals, inputs, parents, state.select(rows))


class FinishedHypotheses:
    """The n best finished or truncated hypotheses of each sentence, as indices into the history, on the CPU.

    Args:
        sentences: Number of sentences.
        n_best: Number of hypotheses to keep for each.
    """

    def __init__(self, sentences: int, n_best: int) -> None:
        shape = sentences, n_best
        self.ranks = torch.full(shape, -math.inf, dtype=torch.float64, device="cpu")  # -∞: not found yet
        self.steps = torch.zeros(shape, dtype=torch.long, device="cpu")
        self.indices = torch.zeros(shape, dtype=torch.long, device="cpu")

    def add(self, sentences: Tensor, ranks: Tensor, step: int) -> None:
        """Merge the hypotheses of a step record.

        Args:
            sentences: [sentences], their indices.
            ranks: [sentences, selected], -∞ for hypotheses that continue.
            step: The index of the record.
        """
        indices = torch.arange(ranks.numel(), device="cpu").view(ranks.shape)
        ranks = torch.cat([self.ranks[sentences], ranks], 1)
        steps = torch.cat([self.steps[sentences], torch.full_like(indices, step)], 1)
        indices = torch.cat([self.indices[sentences], indices], 1)
        self.ranks[sentences], order = ranks.topk(self.ranks.shape[1])
        self.steps[sentences], self.indices[sentences] = steps.gather(1, order), indices.gather(1, order)


@dataclass(frozen=True)
class SearchResult:
    """The n best hypotheses of each sentence, and every step of the search.

    Args:
        batch: What was searched.
        history: A record for each step.
        finished: The n best, as indices into the history.
    """

    batch: SearchBatch
    history: list[StepRecord]
    finished: FinishedHypotheses

    def hypotheses(self) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, best first, on the CPU; fewer than `n_best` if there are no more."""
        backtrace = follow_backpointers(self.history, self.finished.steps, self.finished.indices)
        tokens, log_probabilities = backtrace.tokens.tolist(), backtrace.log_probabilities.tolist()
        weights, lengths = backtrace.weights.float().cpu(), (self.finished.steps + 1).tolist()
        found = (self.finished.ranks > -math.inf).tolist()
        source_lengths = self.batch.valid.sum(1).tolist()
        return [
            [
                Hypothesis(
                    tokens=tokens[row][rank][:length],
                    log_probabilities=log_probabilities[row][rank][:length],
                    attention=weights[row, rank, ..., :length, : source_lengths[row]].clone(),
                    finished=tokens[row][rank][length - 1] == Vocabulary.end,
                )
                for rank, length in enumerate(lengths[row])
                if found[row][rank]
            ]
            for row in range(len(lengths))
        ]


@torch.inference_mode()
def search(
    ensemble: Ensemble, batch: SearchBatch, selector: Selector, should_stop: Callable[[], bool] = never_stop
) -> SearchResult:
    """Search until no hypothesis that continues can still enter the `n_best` of its sentence.

    The models are used as they are: call `eval()` on each before, or dropout is active during the search.

    Args:
        ensemble: One model or several.
        batch: The sources, on the device of the models.
        selector: `Beam` or `Sampling`.
        should_stop: Called before each step.

    Raises:
        SearchStopped: If `should_stop` returns True.
    """
    history: list[StepRecord] = []
    finished = FinishedHypotheses(len(batch.source), batch.n_best)
    beam = BeamState.start(ensemble, batch)
    while True:
        if should_stop():
            raise SearchStopped
        log_probs, state = ensemble.step(beam.inputs[:, -1], beam.state)
        selection = beam.select(log_probs, batch.constraints, selector)
        history.append(record_step(selection, log_probs, beam.parents, state))
        totals = collect_finished(selection, beam.sentences, batch, finished, len(history))
        # A total can only decrease, and lp(max length) is the largest divisor: no continuation can rank above this.
        bound = batch.rank(totals.amax(1), batch.max_lengths[beam.sentences])
        remaining = (finished.ranks[beam.sentences, -1] < bound).nonzero().squeeze(1)
        if len(remaining) == 0:
            return SearchResult(batch, history, finished)
        beam = beam.advance(selection, totals, state, remaining)


def collect_finished(
    selection: Selection, sentences: Tensor, batch: SearchBatch, finished: FinishedHypotheses, length: int
) -> Tensor:
    """Add the hypotheses that end after `length` tokens to `finished`.

    Args:
        selection: The extensions of this step.
        sentences: Indices of the sentences in the batch, [sentences].
        batch: The batch.
        finished: Receives the hypotheses that end.
        length: Number of tokens, the last one included.

    Returns:
        The totals of the other hypotheses, -∞ for those that end, [sentences, selected], on the CPU.
    """
    totals = selection.totals.cpu()
    ended = selection.tokens.cpu() == Vocabulary.end
    done = ended | (batch.max_lengths[sentences] == length).unsqueeze(1)
    if done.any():
        ranks = batch.rank(totals, length) - TRUNCATION_PENALTY * ~ended
        finished.add(sentences, ranks.masked_fill(~done, -math.inf), length - 1)
    return totals.masked_fill(done, -math.inf)
