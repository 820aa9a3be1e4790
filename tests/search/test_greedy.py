"""Greedy search against a loop over one row that knows neither steps nor batches."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from regard.data.batches import pad
from regard.nn import Seq2Seq
from regard.search import Hypothesis, greedy
from regard.text import Vocabulary

LONGEST = 7


@dataclass(frozen=True)
class Bench:
    """A model and what it is asked, by the number of a row."""

    model: Seq2Seq
    sources: list[list[int]]
    firsts: list[int]

    @property
    def rows(self) -> list[int]:
        return list(range(len(self.sources)))

    def search(self, rows: list[int], *, padding: int = 0, longest: list[int] | None = None) -> list[Hypothesis]:
        source, valid = pad([self.sources[row] for row in rows])
        source, valid = (torch.nn.functional.pad(tensor, (0, padding)) for tensor in (source, valid))
        first = torch.tensor([self.firsts[row] for row in rows])
        return greedy(self.model, source, valid, first, torch.tensor(longest or [LONGEST] * len(rows)))

    @torch.inference_mode()
    def unroll(self, row: int, said: list[int]) -> tuple[Tensor, Tensor]:
        """Log-probabilities [steps, vocabulary] of what follows each token read, and weights, without a search."""
        state = self.model.start(*pad([self.sources[row]]))
        logits, weights = self.model.decoder.unroll(torch.tensor([[self.firsts[row], *said]]), state)
        return logits[0].log_softmax(-1), weights[0]


@pytest.fixture(scope="module")
def bench(model: Seq2Seq, sources: list[list[int]], firsts: list[int]) -> Bench:
    return Bench(model, sources, firsts)


@pytest.fixture(scope="module")
def found(bench: Bench) -> list[Hypothesis]:
    return bench.search(bench.rows)


def same(one: Hypothesis, other: Hypothesis) -> None:
    assert one.tokens == other.tokens
    assert one.finished == other.finished
    assert one.score == pytest.approx(other.score, abs=1e-5, rel=1e-5)
    torch.testing.assert_close(one.attention, other.attention, rtol=1e-5, atol=1e-5)


def test_it_says_what_a_naive_loop_says(bench: Bench, found: list[Hypothesis]) -> None:
    for row, hypothesis in enumerate(found):
        said: list[int] = []
        while len(said) < LONGEST and Vocabulary.end not in said:
            chances, _ = bench.unroll(row, said)
            said.append(int(chances[-1].argmax()))
        assert hypothesis.tokens == said
        assert hypothesis.finished == (said[-1] == Vocabulary.end)


def test_a_score_is_that_of_scoring_the_output_again(bench: Bench, found: list[Hypothesis]) -> None:
    for row, hypothesis in enumerate(found):
        chances, weights = bench.unroll(row, hypothesis.tokens[:-1])
        again = sum(float(chances[step, token]) for step, token in enumerate(hypothesis.tokens))  # `<end>` included
        assert hypothesis.score == pytest.approx(again, abs=1e-5, rel=1e-5)
        torch.testing.assert_close(hypothesis.attention, weights, rtol=1e-5, atol=1e-5)


def test_attention_has_a_row_for_each_token_said_and_a_column_for_each_token_read(
    bench: Bench, found: list[Hypothesis]
) -> None:
    sizes = {"layer": 2, "head": 3}
    axes = [sizes[axis] for axis in bench.model.decoder.weight_axes]
    for source, hypothesis in zip(bench.sources, found, strict=True):
        assert hypothesis.attention.shape == (*axes, len(hypothesis.tokens), len(source))


def test_a_batch_changes_nothing(bench: Bench, found: list[Hypothesis]) -> None:
    everything = bench.rows
    for row in everything:
        same(bench.search([row])[0], found[row])
    for order in (everything[::-1], everything[3:] + everything[:3], [2, 2, 5]):
        for row, hypothesis in zip(order, bench.search(order), strict=True):
            same(hypothesis, found[row])


def test_padding_changes_nothing(bench: Bench, found: list[Hypothesis]) -> None:
    for hypothesis, expected in zip(bench.search(bench.rows, padding=6), found, strict=True):
        same(hypothesis, expected)


def test_each_row_stops_at_its_own_longest(bench: Bench, found: list[Hypothesis]) -> None:
    limits = [1, 2, 3, 4, 5, 1, 2, 3]
    for full, cut, limit in zip(found, bench.search(bench.rows, longest=limits), limits, strict=True):
        assert cut.tokens == full.tokens[:limit]
        assert cut.finished == (full.finished and len(full.tokens) <= limit)
        assert cut.attention.shape[-2] == len(cut.tokens)
        torch.testing.assert_close(cut.attention, full.attention[..., :limit, :], rtol=1e-5, atol=1e-5)


def test_end_is_said_once_and_last(found: list[Hypothesis]) -> None:
    for hypothesis in found:
        assert Vocabulary.end not in hypothesis.tokens[:-1]
        assert hypothesis.finished or len(hypothesis.tokens) == LONGEST
