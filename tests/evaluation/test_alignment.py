"""Attention held against the truth, with weights made up by hand."""

from __future__ import annotations

import math
from random import Random
from typing import ClassVar, cast

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot, pad

from regard.data import Example
from regard.evaluation import alignment
from regard.evaluation.alignment import forced_attention, share_aligned
from regard.nn import Seq2Seq
from regard.tasks import Pair
from regard.tasks.generated import Generated
from regard.text import Spaced, Tokenizer


class Telling(Generated):
    """Words in, words out; `the` carries no meaning."""

    tokenizer: ClassVar[Tokenizer] = Spaced()
    function_words: ClassVar[frozenset[str]] = frozenset({"the"})

    def generate(self, random: Random) -> Pair:
        raise NotImplementedError


class Looking:
    """A stand-in for a model. At step t it looks where token t of the source tells it to; a second head, if there
    is one, to the right of that, and so on."""

    def __init__(self, axes: tuple[int, ...] = ()) -> None:
        self.axes = axes
        self.decoder = self

    def eval(self) -> None: ...

    def start(self, source: Tensor, valid: Tensor) -> Tensor:
        return source

    def unroll(self, inputs: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
        (batch, steps), positions = inputs.shape, source.shape[1]
        told = pad(source, (0, max(0, steps - positions)))[:, :steps]
        heads = [one_hot((told + head) % positions, positions) for head in range(math.prod(self.axes))]
        weights = torch.stack(heads, 1).float().view(batch, *self.axes, steps, positions)
        return torch.zeros(batch, steps, 9), weights


class Blind(Looking):
    def unroll(self, inputs: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
        logits, weights = super().unroll(inputs, source)
        return logits, torch.zeros_like(weights)


def maps(model: Looking, examples: list[Example]) -> list[Tensor]:
    return forced_attention(cast(Seq2Seq, model), examples)


def share(pairs: list[Pair], examples: list[Example], model: Looking | None = None) -> float | None:
    return share_aligned(cast(Seq2Seq, model or Looking()), Telling(), pairs, examples)


def example(looks: tuple[int, ...], outputs: int) -> Example:
    return Example(looks, (1, *[4] * outputs, 2))


def test_a_map_has_a_row_for_each_output_and_a_column_for_each_source_token() -> None:
    drawn = maps(Looking(), [example((2, 0, 1), 2), example((0, 4, 3, 1, 2), 3)])
    assert [tuple(weights.shape) for weights in drawn] == [(3, 3), (4, 5)]
    assert [weights.argmax(-1).tolist() for weights in drawn] == [[2, 0, 1], [0, 4, 3, 1]]


def test_more_sentences_than_one_batch_holds_stay_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    examples = [example((place % 3, 0, 1), 1) for place in range(8)]
    monkeypatch.setattr(alignment, "AT_ONCE", 3)
    assert [int(weights[0].argmax()) for weights in maps(Looking(), examples)] == [place % 3 for place in range(8)]


@pytest.mark.parametrize("axes", [(2,), (2, 3)], ids=["heads", "layers-and-heads"])
def test_layers_and_heads_are_averaged(axes: tuple[int, ...]) -> None:
    (drawn,) = maps(Looking(axes), [example((2, 0, 1, 6, 0, 0, 0), 3)])
    heads = math.prod(axes)
    for step, told in enumerate((2, 0, 1, 6)):
        expected = [sum((told + head) % 7 == place for head in range(heads)) / heads for place in range(7)]
        assert drawn[step].tolist() == pytest.approx(expected)


def test_the_share_is_of_words_that_look_where_they_belong() -> None:
    pair = Pair("a b c", "A B C", frozenset({(0, 0), (1, 1), (2, 2)}))
    assert share([pair], [example((0, 1, 2, 3), 3)]) == 1.0
    assert share([pair], [example((0, 2, 2, 3), 3)]) == pytest.approx(2 / 3)
    assert share([pair], [example((1, 2, 0, 3), 3)]) == 0.0


def test_a_pair_counts_by_its_words() -> None:
    pairs = [Pair("a", "A", frozenset({(0, 0)})), Pair("a b c", "A B C", frozenset({(0, 0), (1, 1), (2, 2)}))]
    assert share(pairs, [example((1, 0), 1), example((0, 1, 2, 3), 3)]) == pytest.approx(3 / 4)


def test_function_words_and_words_without_a_truth_do_not_count() -> None:
    pair = Pair("a b", "the A B", frozenset({(0, 1), (1, 0)}))
    assert share([pair], [example((0, 0, 0, 0), 3)]) == 1.0, "B has no truth, and `the` is not asked"


def test_a_word_may_belong_to_several() -> None:
    pair = Pair("a b", "A", frozenset({(0, 0), (0, 1)}))
    for place, expected in ((0, 1.0), (1, 1.0), (2, 0.0)):
        assert share([pair], [example((place, 0, 0), 1)]) == expected


def test_no_truth_is_no_share() -> None:
    assert share([Pair("a b", "A B")], [example((0, 1, 2), 2)]) is None


def test_a_model_that_looks_nowhere_has_no_share() -> None:
    assert share([Pair("a", "A", frozenset({(0, 0)}))], [example((0, 1), 1)], Blind()) is None
