"""The tree of a beam: by hand on a small table, and against a search that ranks every extension in plain Python."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.search import (
    Beam,
    BeamNode,
    Constraints,
    LogProbs,
    RecordingBeam,
    SearchBatch,
    SearchResult,
    build_tree,
    search,
)
from regard.text import END, Vocabulary

VOCABULARY = Vocabulary.build([list("abc")])
END_NUMBER, (A, B, C) = Vocabulary.end, VOCABULARY.to_ids("abc")
Said = tuple[int, ...]


@dataclass(frozen=True)
class Told:
    """The state of a teller: what each row has said."""

    rows: tuple[Said, ...]

    @property
    def weights(self) -> Tensor:
        return torch.ones(len(self.rows), 1)

    def select(self, index: Tensor) -> Told:
        return Told(tuple(self.rows[row] for row in index.flatten().tolist()))


class Teller:
    """In place of models: what has been said determines how likely each token is."""

    longest = None

    def probabilities(self, said: Said) -> dict[int, float]:
        random = Random(repr(said))
        return {token: random.random() for token in range(len(VOCABULARY))}

    def start(self, source: Tensor, valid: Tensor) -> Told:
        return Told(((),) * len(source))

    def step(self, token: Tensor, state: Told) -> tuple[LogProbs, Told]:
        told = Told(tuple((*said, read) for said, read in zip(state.rows, token.tolist(), strict=True)))
        logits = torch.full((len(told.rows), len(VOCABULARY)), -math.inf)
        for row, said in enumerate(told.rows):
            for each, probability in self.probabilities(said[1:]).items():
                logits[row, each] = math.log(probability)
        return LogProbs.mean([logits]), told


def grown(teller: Teller, beam: RecordingBeam, longest: int, **wanted: Any) -> tuple[SearchResult, list[BeamNode]]:
    one = torch.ones(1, 1)
    question = SearchBatch(one.long(), one.bool(), torch.tensor([Vocabulary.begin]), torch.tensor([longest]), **wanted)
    found = search(teller, question, beam)
    return found, build_tree(found, beam, VOCABULARY)


# By hand


class Table(Teller):
    rows = {  # noqa: RUF012
        (): {END_NUMBER: 0.1, A: 0.5, B: 0.4},
        (A,): {END_NUMBER: 0.2, A: 0.3, B: 0.5},
        (B,): {END_NUMBER: 0.9, A: 0.1},
        (A, B): {END_NUMBER: 0.1, A: 0.7, B: 0.2},
    }

    def probabilities(self, said: Said) -> dict[int, float]:
        return self.rows.get(said, {A: 1.0})  # rows that have ended are asked, too


def test_a_tree_written_out() -> None:
    _, nodes = grown(Table(), RecordingBeam(2, runners_up=2), 3, n_best=2)
    assert [(n.length, n.parent, n.token, round(math.exp(n.score), 4), n.fate, n.rank) for n in nodes] == [
        (1, None, "a", 0.5, "kept", None),
        (1, None, "b", 0.4, "kept", None),
        (1, None, END, 0.1, "pruned", None),
        (2, 1, END, 0.36, "finished", 1),
        (2, 0, "b", 0.25, "kept", None),
        (2, 0, "a", 0.15, "pruned", None),
        (2, 0, END, 0.1, "pruned", None),
        (3, 4, "a", 0.175, "truncated", 2),
        (3, 4, "b", 0.05, "truncated", None),
        (3, 4, END, 0.025, "pruned", None),
    ]


def test_what_can_no_longer_win_is_not_looked_at() -> None:
    _, nodes = grown(Table(), RecordingBeam(2), 3)
    assert max(node.length for node in nodes) == 2, "0.36 is more than anything that goes on"
    assert [(node.token, node.rank) for node in nodes if node.rank] == [(END, 1)]


# Against plain Python


@dataclass(frozen=True)
class Leaf:
    said: Said
    total: float
    node: int | None = None


def allowed(rules: Constraints, said: Said) -> list[int]:
    """For rules with a prefix, and for `block_ngrams` of 1."""
    if len(said) < len(rules.prefix):
        return [rules.prefix[len(said)]]
    fine = [token for token in (END_NUMBER, A, B, C) if not rules.block_ngrams or token not in said]
    early = len(said) < rules.min_length and len(fine) > 1
    return [token for token in fine if not (early and token == END_NUMBER)]


def extensions(teller: Teller, leaf: Leaf, rules: Constraints) -> list[Leaf]:
    probabilities = teller.probabilities(leaf.said)
    whole = math.fsum(probabilities.values())
    return [
        Leaf(
            (*leaf.said, token),
            leaf.total
            + math.log(probabilities[token] / whole)
            - math.log(rules.repetition_penalty) * (token in leaf.said and len(leaf.said) >= len(rules.prefix)),
            leaf.node,
        )
        for token in allowed(rules, leaf.said)
    ]


def naive(teller: Teller, width: int, runners_up: int, longest: int, n_best: int, rules: Constraints) -> list[BeamNode]:
    """Rank all extensions of all that goes on, at every step."""
    nodes: list[BeamNode] = []
    results: list[Leaf] = []
    leaves = [Leaf((), 0.0)]

    def by_rank(leaf: Leaf) -> tuple[bool, float]:
        return leaf.said[-1] != END_NUMBER, -leaf.total

    while leaves:
        every = [extension for leaf in leaves for extension in extensions(teller, leaf, rules)]
        every.sort(key=lambda leaf: -leaf.total)
        leaves = []
        for place, leaf in enumerate(every[: width + runners_up]):
            length, ended = len(leaf.said), leaf.said[-1] == END_NUMBER
            over = ended or length == longest
            fate = "pruned" if place >= width else "finished" if ended else "truncated" if over else "kept"
            if place < width:
                (results if over else leaves).append(Leaf(leaf.said, leaf.total, len(nodes)))
            token = VOCABULARY.tokens[leaf.said[-1]]
            nodes.append(BeamNode(length, leaf.node, token, token, leaf.total, fate, None))
        results = sorted(results, key=by_rank)[:n_best]
        if len(results) == n_best and all(results[-1].total >= leaf.total for leaf in leaves):
            break
    for rank, leaf in enumerate(results, start=1):
        nodes[leaf.node] = replace(nodes[leaf.node], rank=rank)
    return nodes


EVERY_RULE = {
    "none": Constraints(),
    "prefix": Constraints(prefix=(B, A)),
    "no-token-twice": Constraints(block_ngrams=1),
    "least-length": Constraints(min_length=3),
    "repetition": Constraints(repetition_penalty=2.0),
    "several": Constraints(prefix=(C,), min_length=3, repetition_penalty=1.5),
}
WIDTHS = [1, 2, 3, 5, 11]  # there are 4 tokens to say: at first no more than so many hypotheses


@pytest.mark.parametrize("rules", EVERY_RULE.values(), ids=EVERY_RULE.keys())
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("longest", [1, 5])
def test_a_tree_is_that_of_ranking_every_extension(longest: int, width: int, rules: Constraints) -> None:
    for n_best, runners_up in {(1, 3), (width, 3), (width, 0), ((width + 1) // 2, 1)}:
        found, nodes = grown(Teller(), RecordingBeam(width, runners_up), longest, n_best=n_best, constraints=rules)
        expected = naive(Teller(), width, runners_up, longest, n_best, rules)
        assert [replace(node, score=0.0) for node in nodes] == [replace(node, score=0.0) for node in expected]
        assert [node.score for node in nodes] == pytest.approx([node.score for node in expected], abs=1e-5)
        agree(nodes, found, rules)


def agree(nodes: list[BeamNode], found: SearchResult, rules: Constraints) -> None:
    """Parents come first and lead back over the tokens of a result; ranks name the results in order."""
    assert all(node.parent is None if node.length == 1 else node.parent < place for place, node in enumerate(nodes))
    results = sorted((node for node in nodes if node.rank), key=lambda node: node.rank)
    (hypotheses,) = found.hypotheses()
    assert [node.rank for node in results] == list(range(1, len(hypotheses) + 1))
    for node, hypothesis in zip(results, hypotheses, strict=True):
        spelled, place = [], nodes.index(node)
        while place is not None:
            spelled.append(nodes[place].token)
            place = nodes[place].parent
        assert spelled[::-1] == VOCABULARY.to_tokens(hypothesis.tokens)
        assert node.length == len(hypothesis.tokens)
        assert node.fate == ("finished" if hypothesis.finished else "truncated")
        if rules.repetition_penalty == 1:
            assert node.score == pytest.approx(hypothesis.score, abs=1e-5)


def test_the_better_stand_before_the_worse_among_those_of_one_length() -> None:
    _, nodes = grown(Teller(), RecordingBeam(3), 5, n_best=3)
    for length in range(1, 6):
        scores = [node.score for node in nodes if node.length == length]
        assert len(scores) > 3
        assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("tokens", [5, 11, 101])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_among_equals_too_a_watched_beam_keeps_what_a_beam_keeps_and_prunes_others(width: int, tokens: int) -> None:
    beam = RecordingBeam(width, runners_up=2)
    step = torch.zeros(1, 1, tokens), torch.zeros(1, 1), torch.tensor([0]), 0
    kept, (pruned,) = beam(*step), beam.pruned
    assert torch.equal(kept.tokens, Beam(width)(*step).tokens)
    assert pruned.tokens.shape == pruned.rows.shape == pruned.totals.shape == (1, 2)
    assert not set(pruned.tokens.flatten().tolist()) & set(kept.tokens.flatten().tolist())
