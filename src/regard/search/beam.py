"""The search itself: one loop for greedy search, beams and sampling, over any decoder.

    every hypothesis is extended by every token → a chooser takes some → those that say `<end>` are finished and the
    others go on → a sentence leaves the batch when nothing that goes on can still win

At one step all hypotheses are equally long, and their total log-probabilities rank them. Finished ones differ in
length and are ranked by total / lp(n), with lp(n) = ((5 + n) / 6)^α for n tokens; α is the length penalty.

Shapes: [sentences, width] for the hypotheses of a batch; decoders see them as rows, those of a sentence together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.search.constraints import NO_CONSTRAINTS, Constraints
from regard.search.history import StepRecord, follow_backpointers, record_step
from regard.search.hypothesis import Hypothesis
from regard.search.log_probs import Ensemble, EnsembleState, LogProbs
from regard.search.selection import Selection, Selector
from regard.text import Vocabulary

UNFINISHED = 1e9  # what a rank loses by being cut off: whatever is finished comes first


class SearchStopped(Exception):  # noqa: N818 (nothing went wrong)
    """Raised by a search whose `should_stop` has returned True."""


def never_stop() -> bool:
    """Return False: the default of `should_stop`."""
    return False


@dataclass(frozen=True)
class SearchBatch:
    """A batch of sources, and what kind of answers is wanted."""

    source: Tensor  # [sentences, positions]
    valid: Tensor  # [sentences, positions]; True: a real token
    first: Tensor  # [sentences]: what the decoder reads first
    longest: Tensor  # [sentences]: how many tokens an answer may have, `<end>` included; at least 1
    rules: Constraints = NO_CONSTRAINTS
    n_best: int = 1
    length_penalty: float = 0.0  # α, at least 0

    def rank(self, totals: Tensor, lengths: Tensor | int) -> Tensor:
        """total / lp(length), by which hypotheses of different length are compared."""
        return totals.double() / ((5 + torch.as_tensor(lengths).double()) / 6) ** self.length_penalty


@dataclass(frozen=True)
class BeamState:
    """The hypotheses that go on, those of the sentences that are still in the batch."""

    sentences: Tensor  # [sentences]: their places in the question
    totals: Tensor  # [sentences, width]: Σ log p, less penalties; -∞ where there are fewer hypotheses than that
    read: Tensor  # [rows, 1 + steps]: what the decoder has read, and at last what it reads next
    places: Tensor  # [rows]: their places in the latest record
    state: EnsembleState

    @classmethod
    def start(cls, ensemble: Ensemble, question: SearchBatch) -> BeamState:
        sentences = torch.arange(len(question.source))
        state = ensemble.start(question.source, question.valid)
        return cls(sentences, torch.zeros(len(sentences), 1), question.first.unsqueeze(1), sentences, state)

    def choose(self, chances: LogProbs, rules: Constraints, choose: Selector) -> Selection:
        shape, said = self.totals.shape, self.read[:, 1:]
        logits = rules.apply(chances.logits, said).unflatten(0, shape)
        return choose(logits, self.totals - chances.total.view(shape), self.sentences, said.shape[1])

    def advance(self, choice: Selection, totals: Tensor, state: EnsembleState, staying: Tensor) -> BeamState:
        """What was chosen, in the sentences that stay, with these `totals`."""
        rows = choice.rows[staying]  # [sentences, width]
        read = torch.cat([self.read[rows.flatten()], choice.tokens[staying].view(-1, 1)], 1)
        places = torch.arange(totals.numel()).view(totals.shape)[staying]
        return BeamState(self.sentences[staying], totals[staying], read, places.flatten(), state.select(rows))


class FinishedHypotheses:
    """The best hypotheses of each sentence that have come to their end, by their places in the history."""

    def __init__(self, sentences: int, n_best: int) -> None:
        self.ranks = torch.full((sentences, n_best), -math.inf, dtype=torch.float64)  # -∞: not found yet
        self.steps = torch.zeros(sentences, n_best, dtype=torch.long)
        self.places = torch.zeros(sentences, n_best, dtype=torch.long)

    def add(self, sentences: Tensor, ranks: Tensor, step: int) -> None:
        """Let all hypotheses of a record compete: `ranks` [sentences, chosen], -∞ for those that do not."""
        places = torch.arange(ranks.numel()).view(ranks.shape)
        ranks = torch.cat([self.ranks[sentences], ranks], 1)
        steps = torch.cat([self.steps[sentences], torch.full_like(places, step)], 1)
        places = torch.cat([self.places[sentences], places], 1)
        self.ranks[sentences], order = ranks.topk(self.ranks.shape[1])
        self.steps[sentences], self.places[sentences] = steps.gather(1, order), places.gather(1, order)


@dataclass(frozen=True)
class SearchResult:
    """What a search has found, and how."""

    question: SearchBatch
    history: list[StepRecord]
    best: FinishedHypotheses

    def hypotheses(self) -> list[list[Hypothesis]]:
        """For each sentence its best, the very best first; fewer than `n_best` if there are no more."""
        steps = self.best.steps
        traced = follow_backpointers(self.history, steps, self.best.places)
        tokens, log_probabilities = traced.tokens.tolist(), traced.log_probabilities.double().tolist()
        found = (self.best.ranks > -math.inf).tolist()
        sources = self.question.valid.sum(1).tolist()
        return [
            [
                Hypothesis(
                    tokens=tokens[row][place][:length],
                    log_probabilities=log_probabilities[row][place][:length],
                    attention=traced.weights[row, place, ..., :length, : sources[row]].clone(),
                    finished=tokens[row][place][length - 1] == Vocabulary.end,
                )
                for place, length in enumerate((steps[row] + 1).tolist())
                if found[row][place]
            ]
            for row in range(len(steps))
        ]


@torch.inference_mode()
def search(
    ensemble: Ensemble, question: SearchBatch, choose: Selector, should_stop: Callable[[], bool] = never_stop
) -> SearchResult:
    """Search until no hypothesis that goes on can still come among the `n_best`.

    The models are taken as they are: call `eval` on each before, or dropout joins the search. `should_stop` is called
    before each step; if it returns True, the search ends with `SearchStopped`.
    """
    history: list[StepRecord] = []
    best = FinishedHypotheses(len(question.source), question.n_best)
    front = BeamState.start(ensemble, question)
    while True:
        if should_stop():
            raise SearchStopped
        chances, state = ensemble.step(front.read[:, -1], front.state)
        choice = front.choose(chances, question.rules, choose)
        history.append(record_step(choice, chances, front.places, state))
        totals = collect_finished(choice, front.sentences, question, best, len(history))
        # A total only falls, and lp(longest) is the most that it will be divided by: more a hypothesis cannot reach.
        hope = question.rank(totals.amax(1), question.longest[front.sentences])
        staying = (best.ranks[front.sentences, -1] < hope).nonzero().squeeze(1)
        if len(staying) == 0:
            return SearchResult(question, history, best)
        front = front.advance(choice, totals, state, staying)


def collect_finished(
    choice: Selection, sentences: Tensor, question: SearchBatch, best: FinishedHypotheses, length: int
) -> Tensor:
    """Put what has come to its end, after `length` tokens, among the `best`; the totals of what has not, else -∞."""
    finished = choice.tokens == Vocabulary.end
    over = finished | (question.longest[sentences] == length).unsqueeze(1)
    if over.any():
        ranks = question.rank(choice.totals, length) - UNFINISHED * ~finished
        best.add(sentences, ranks.masked_fill(~over, -math.inf), length - 1)
    return choice.totals.masked_fill(over, -math.inf)
