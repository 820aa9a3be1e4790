"""A beam as a tree: which extensions were kept, which were pruned, and which finished."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Literal

import torch
from torch import Tensor

from regard.search.beam import SearchResult
from regard.search.selection import Beam, Selection, highest
from regard.text import Vocabulary

Fate = Literal["kept", "pruned", "finished", "truncated"]


@dataclass(frozen=True)
class BeamNode:
    """A hypothesis, named by its latest token."""

    length: int  # in tokens: the step at which it was looked at, from 1
    parent: int | None  # which node it extends, by its place in the list; None: the empty hypothesis
    token: str
    label: str  # the token as displayed
    score: float  # by which the beam compares: Σ log p, less penalties
    fate: Fate
    rank: int | None  # its place among the best hypotheses, from 1; None: it is not among them


@dataclass(frozen=True)
class RecordingBeam(Beam):
    """A beam that remembers the `runners_up`, those that came right after the ones that it kept."""

    runners_up: int = 3
    pruned: list[Selection] = field(default_factory=list)  # at each step

    def __call__(self, logits: Tensor, totals: Tensor, sentences: Tensor, step: int) -> Selection:
        kept = super().__call__(logits, totals, sentences, step)
        wider = Beam(self.width + self.runners_up)(logits, totals, sentences, step)
        pairs = [torch.stack([choice.rows, choice.tokens], -1) for choice in (wider, kept)]
        known = (pairs[0].unsqueeze(2) == pairs[1].unsqueeze(1)).all(-1).any(-1)  # [sentences, wider]
        others, places = highest(wider.totals.masked_fill(known, -math.inf), self.runners_up)
        self.pruned.append(Selection(wider.rows.gather(1, places), wider.tokens.gather(1, places), others))
        return kept


def build_tree(
    found: SearchResult,
    beam: RecordingBeam,
    vocabulary: Vocabulary,
    ranks: Sequence[int | None] | None = None,
    label: Callable[[str], str] = str,
) -> list[BeamNode]:
    """The tree of a search for one sentence: parents before their children, and the better before the worse.

    `ranks` are those of its hypotheses, where they are not simply counted; `label` returns a token as displayed.
    """
    count = int((found.best.ranks[0] > -math.inf).sum())
    ends = list(zip(found.best.steps[0].tolist(), found.best.places[0].tolist(), strict=True))[:count]
    rank_of = dict(zip(ends, range(1, count + 1) if ranks is None else ranks, strict=True))
    longest = int(found.question.longest[0])
    nodes: list[BeamNode] = []
    before: dict[int, int] = {}  # from places in the record before to nodes
    for step, (record, pruned) in enumerate(zip(found.history, beam.pruned, strict=True)):
        parents = [before.get(place) for place in record.parents.tolist()]  # of each row
        nodes_of: dict[int, int] = {}
        for place, (row, token, score) in enumerate(_entries(record.origins, record.tokens, record.totals)):
            fate: Fate = "finished" if token == Vocabulary.end else "truncated" if step + 1 == longest else "kept"
            rank = rank_of.get((step, place))
            nodes_of[place] = len(nodes)
            name = vocabulary.tokens[token]
            nodes.append(BeamNode(step + 1, parents[row], name, label(name), score, fate, rank))
        for row, token, score in _entries(pruned.rows[0], pruned.tokens[0], pruned.totals[0]):
            name = vocabulary.tokens[token]
            nodes.append(BeamNode(step + 1, parents[row], name, label(name), score, "pruned", None))
        before = nodes_of
    return nodes


def _entries(rows: Tensor, tokens: Tensor, totals: Tensor) -> Iterator[tuple[int, int, float]]:
    """What is extended, by what, and what it is then worth; what is worth -∞ is no hypothesis, and comes last."""
    entries = zip(rows.tolist(), tokens.tolist(), totals.tolist(), strict=True)
    return takewhile(lambda entry: entry[-1] > -math.inf, entries)
