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
END_ID, (A, B, C) = Vocabulary.end, VOCABULARY.to_ids("abc")
Generated = tuple[int, ...]


@dataclass(frozen=True)
class FakeState:
    """The state of a `FakeEnsemble`: the tokens of each row."""

    rows: tuple[Generated, ...]

    @property
    def weights(self) -> Tensor:
        return torch.ones(len(self.rows), 1)

    def select(self, index: Tensor) -> FakeState:
        return FakeState(tuple(self.rows[row] for row in index.flatten().tolist()))


class FakeEnsemble:
    """Replaces an ensemble: the tokens so far determine the probability of each token."""

    longest = None

    def probabilities(self, generated: Generated) -> dict[int, float]:
        random = Random(repr(generated))
        return {token: random.random() for token in range(len(VOCABULARY))}

    def start(self, source: Tensor, valid: Tensor) -> FakeState:
        return FakeState(((),) * len(source))

    def step(self, token: Tensor, state: FakeState) -> tuple[LogProbs, FakeState]:
        new_state = FakeState(
            tuple((*generated, read) for generated, read in zip(state.rows, token.tolist(), strict=True))
        )
        logits = torch.full((len(new_state.rows), len(VOCABULARY)), -math.inf)
        for row, generated in enumerate(new_state.rows):
            for each, probability in self.probabilities(generated[1:]).items():
                logits[row, each] = math.log(probability)
        return LogProbs.mean([logits]), new_state


def search_tree(
    ensemble: FakeEnsemble, beam: RecordingBeam, longest: int, **n_best: Any
) -> tuple[SearchResult, list[BeamNode]]:
    one = torch.ones(1, 1)
    batch = SearchBatch(one.long(), one.bool(), torch.tensor([Vocabulary.begin]), torch.tensor([longest]), **n_best)
    search_result = search(ensemble, batch, beam)
    return search_result, build_tree(search_result, beam, VOCABULARY)


# By hand


class Table(FakeEnsemble):
    rows = {  # noqa: RUF012
        (): {END_ID: 0.1, A: 0.5, B: 0.4},
        (A,): {END_ID: 0.2, A: 0.3, B: 0.5},
        (B,): {END_ID: 0.9, A: 0.1},
        (A, B): {END_ID: 0.1, A: 0.7, B: 0.2},
    }

    def probabilities(self, generated: Generated) -> dict[int, float]:
        return self.rows.get(generated, {A: 1.0})  # rows that have ended are stepped, too


def test_a_tree_by_hand() -> None:
    _, nodes = search_tree(Table(), RecordingBeam(2, runners_up=2), 3, n_best=2)
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


def test_hypotheses_that_cannot_win_are_not_extended() -> None:
    _, nodes = search_tree(Table(), RecordingBeam(2), 3)
    assert max(node.length for node in nodes) == 2, "0.36 is more than any open hypothesis"
    assert [(node.token, node.rank) for node in nodes if node.rank] == [(END, 1)]


# Against plain Python


@dataclass(frozen=True)
class Leaf:
    generated: Generated
    total: float
    node: int | None = None


def allowed(rules: Constraints, generated: Generated) -> list[int]:
    """The allowed tokens under constraints with a prefix, or with `block_ngrams` of 1."""
    if len(generated) < len(rules.prefix):
        return [rules.prefix[len(generated)]]
    allowed_tokens = [token for token in (END_ID, A, B, C) if not rules.block_ngrams or token not in generated]
    early = len(generated) < rules.min_length and len(allowed_tokens) > 1
    return [token for token in allowed_tokens if not (early and token == END_ID)]


def extensions(ensemble: FakeEnsemble, leaf: Leaf, rules: Constraints) -> list[Leaf]:
    probabilities = ensemble.probabilities(leaf.generated)
    total_probability = math.fsum(probabilities.values())
    return [
        Leaf(
            (*leaf.generated, token),
            leaf.total
            + math.log(probabilities[token] / total_probability)
            - math.log(rules.repetition_penalty)
            * (token in leaf.generated and len(leaf.generated) >= len(rules.prefix)),
            leaf.node,
        )
        for token in allowed(rules, leaf.generated)
    ]


def naive(
    ensemble: FakeEnsemble, width: int, runners_up: int, longest: int, n_best: int, rules: Constraints
) -> list[BeamNode]:
    """Rank all extensions of all open hypotheses at every step."""
    nodes: list[BeamNode] = []
    results: list[Leaf] = []
    leaves = [Leaf((), 0.0)]

    def by_rank(leaf: Leaf) -> tuple[bool, float]:
        return leaf.generated[-1] != END_ID, -leaf.total

    while leaves:
        every = [extension for leaf in leaves for extension in extensions(ensemble, leaf, rules)]
        every.sort(key=lambda leaf: -leaf.total)
        leaves = []
        for position, leaf in enumerate(every[: width + runners_up]):
            length, ended = len(leaf.generated), leaf.generated[-1] == END_ID
            done = ended or length == longest
            outcome = "pruned" if position >= width else "finished" if ended else "truncated" if done else "kept"
            if position < width:
                (results if done else leaves).append(Leaf(leaf.generated, leaf.total, len(nodes)))
            token = VOCABULARY.tokens[leaf.generated[-1]]
            nodes.append(BeamNode(length, leaf.node, token, token, leaf.total, outcome, None))
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
WIDTHS = [1, 2, 3, 5, 11]  # 4 tokens can be generated, so the first step has at most 4 hypotheses


@pytest.mark.parametrize("rules", EVERY_RULE.values(), ids=EVERY_RULE.keys())
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("longest", [1, 5])
def test_a_tree_equals_that_of_a_full_ranking(longest: int, width: int, rules: Constraints) -> None:
    for n_best, runners_up in {(1, 3), (width, 3), (width, 0), ((width + 1) // 2, 1)}:
        search_result, nodes = search_tree(
            FakeEnsemble(), RecordingBeam(width, runners_up), longest, n_best=n_best, constraints=rules
        )
        expected = naive(FakeEnsemble(), width, runners_up, longest, n_best, rules)
        assert [replace(node, score=0.0) for node in nodes] == [replace(node, score=0.0) for node in expected]
        assert [node.score for node in nodes] == pytest.approx([node.score for node in expected], abs=1e-5)
        assert_tree_matches(nodes, search_result, rules)


def assert_tree_matches(nodes: list[BeamNode], search_result: SearchResult, rules: Constraints) -> None:
    """Parents come first and lead back over the tokens of a result; ranks name the results in order."""
    assert all(
        node.parent is None if node.length == 1 else node.parent < position for position, node in enumerate(nodes)
    )
    results = sorted((node for node in nodes if node.rank), key=lambda node: node.rank)
    (hypotheses,) = search_result.hypotheses()
    assert [node.rank for node in results] == list(range(1, len(hypotheses) + 1))
    for node, hypothesis in zip(results, hypotheses, strict=True):
        spelled, position = [], nodes.index(node)
        while position is not None:
            spelled.append(nodes[position].token)
            position = nodes[position].parent
        assert spelled[::-1] == VOCABULARY.to_tokens(hypothesis.tokens)
        assert node.length == len(hypothesis.tokens)
        assert node.fate == ("finished" if hypothesis.finished else "truncated")
        if rules.repetition_penalty == 1:
            assert node.score == pytest.approx(hypothesis.score, abs=1e-5)


def test_nodes_of_one_length_are_sorted_by_score() -> None:
    _, nodes = search_tree(FakeEnsemble(), RecordingBeam(3), 5, n_best=3)
    for length in range(1, 6):
        scores = [node.score for node in nodes if node.length == length]
        assert len(scores) > 3
        assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("tokens", [5, 11, 101])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_a_recorded_beam_keeps_the_same_of_equal_extensions_and_prunes_the_others(width: int, tokens: int) -> None:
    beam = RecordingBeam(width, runners_up=2)
    step = torch.zeros(1, 1, tokens), torch.zeros(1, 1), torch.tensor([0]), 0
    kept, (pruned,) = beam(*step), beam.pruned
    assert torch.equal(kept.tokens, Beam(width)(*step).tokens)
    assert pruned.tokens.shape == pruned.rows.shape == pruned.totals.shape == (1, 2)
    assert not set(pruned.tokens.flatten().tolist()) & set(kept.tokens.flatten().tolist())
