"""A beam search as a tree: which extensions were kept, pruned, finished and truncated."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Literal

import torch
from torch import Tensor

from regard.search.beam import Beam, SearchResult
from regard.search.selection import Selection, top_values
from regard.text import Vocabulary

Fate = Literal["kept", "pruned", "finished", "truncated"]


@dataclass(frozen=True)
class BeamNode:
    """A hypothesis of a beam search, named by its last token.

    Args:
        length: Number of tokens, which is the step of the search, from 1.
        parent: Index of the node that it extends; None for the empty hypothesis.
        token: The last token.
        label: The last token as displayed.
        score: What the beam ranks by: Σ log p, less penalties.
        fate: Whether it was kept, pruned, finished or truncated.
        rank: Its rank among the results, from 1; None if it is not one of them.
    """

    length: int
    parent: int | None
    token: str
    label: str
    score: float
    fate: Fate
    rank: int | None


@dataclass(frozen=True)
class RecordingBeam(Beam):
    """A beam that records the best extensions that it pruned.

    Args:
        width: Beam width.
        runners_up: Number of pruned extensions to record at each step.
        pruned: Those of each step.
    """

    runners_up: int = 3
    pruned: list[Selection] = field(default_factory=list)

    def __call__(self, logits: Tensor, totals: Tensor, sentences: Tensor, step: int) -> Selection:
        kept = super().__call__(logits, totals, sentences, step)
        wider = Beam(self.width + self.runners_up)(logits, totals, sentences, step)
        pairs = [torch.stack([selection.rows, selection.tokens], -1) for selection in (wider, kept)]
        is_kept = (pairs[0].unsqueeze(2) == pairs[1].unsqueeze(1)).all(-1).any(-1)  # [sentences, wider]
        others, indices = top_values(wider.totals.masked_fill(is_kept, -math.inf), self.runners_up)
        self.pruned.append(Selection(wider.rows.gather(1, indices), wider.tokens.gather(1, indices), others))
        return kept


def build_tree(
    result: SearchResult,
    beam: RecordingBeam,
    vocabulary: Vocabulary,
    ranks: Sequence[int | None] | None = None,
    label: Callable[[str], str] = str,
) -> list[BeamNode]:
    """The tree of a search over one sentence: parents before their children, the better before the worse.

    Args:
        result: The result of the search.
        beam: The selector of the search.
        vocabulary: The target vocabulary.
        ranks: The rank of each of its hypotheses; by default they are counted.
        label: Returns a token as displayed.
    """
    finished = result.finished
    count = int((finished.ranks[0] > -math.inf).sum())
    ends = list(zip(finished.steps[0].tolist(), finished.indices[0].tolist(), strict=True))[:count]
    rank_of = dict(zip(ends, range(1, count + 1) if ranks is None else ranks, strict=True))
    max_length = int(result.batch.max_lengths[0])
    nodes: list[BeamNode] = []
    previous: dict[int, int] = {}  # from indices in the previous record to nodes
    for step, (record, pruned) in enumerate(zip(result.history, beam.pruned, strict=True)):
        parents = [previous.get(index) for index in record.parents.tolist()]  # of each row
        current: dict[int, int] = {}
        for index, (row, token, score) in enumerate(_entries(record.origins, record.tokens, record.totals)):
            fate: Fate = "finished" if token == Vocabulary.end else "truncated" if step + 1 == max_length else "kept"
            name = vocabulary.tokens[token]
            current[index] = len(nodes)
            nodes.append(BeamNode(step + 1, parents[row], name, label(name), score, fate, rank_of.get((step, index))))
        for row, token, score in _entries(pruned.rows[0], pruned.tokens[0], pruned.totals[0]):
            name = vocabulary.tokens[token]
            nodes.append(BeamNode(step + 1, parents[row], name, label(name), score, "pruned", None))
        previous = current
    return nodes


def _entries(rows: Tensor, tokens: Tensor, totals: Tensor) -> Iterator[tuple[int, int, float]]:
    """(row, token, total) of each hypothesis; entries with a total of -∞ come last and are none."""
    entries = zip(rows.tolist(), tokens.tolist(), totals.tolist(), strict=True)
    return takewhile(lambda entry: entry[-1] > -math.inf, entries)
