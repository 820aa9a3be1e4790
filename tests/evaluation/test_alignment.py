"""Attention compared with gold alignments, with weights made by hand."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import cast

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot, pad

from regard.corpora.alignments import GoldAlignment
from regard.data import Example
from regard.evaluation import alignment
from regard.evaluation.alignment import (
    AlignmentCounts,
    AlignmentMetrics,
    alignment_metrics,
    attention_links,
    attention_peaks,
    backward_share,
    best_links,
    coverage,
    diagonal_links,
    entropy,
    forced_attention,
    teacher_forced_attention,
    white_space_starts,
)
from regard.nn import Seq2Seq
from regard.tasks import Pair
from regard.text import CharacterTokenizer, Tokenization, WhitespaceTokenizer, WordTokenizer


class ArticleTokenization(Tokenization):
    """Words on both sides; `the` is a function word."""

    tokenizer = WhitespaceTokenizer()
    function_words = frozenset({"the"})


class AttendingModel:
    """A fake model. At step t it attends to the position that source token t names; a second head, if there is one,
    to the position after it, and so on."""

    def __init__(self, axes: tuple[int, ...] = ()) -> None:
        self.axes = axes
        self.decoder = self

    def eval(self) -> None: ...

    def parameters(self) -> Iterator[Tensor]:
        yield torch.zeros(1)  # for its device

    def start(self, source: Tensor, valid: Tensor) -> Tensor:
        return source

    def forward_steps(self, inputs: Tensor, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        (batch, steps), positions = inputs.shape, source.shape[1]
        attended = pad(source, (0, max(0, steps - positions)))[:, :steps]
        heads = [one_hot((attended + head) % positions, positions) for head in range(math.prod(self.axes))]
        weights = torch.stack(heads, 1).float().view(batch, *self.axes, steps, positions)
        return torch.zeros(batch, steps, 9), weights, source


class ModelWithoutAttention(AttendingModel):
    def forward_steps(self, inputs: Tensor, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        features, weights, state = super().forward_steps(inputs, source)
        return features, torch.zeros_like(weights), state


class ModelInBfloat16(AttendingModel):
    def forward_steps(self, inputs: Tensor, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        features, weights, state = super().forward_steps(inputs, source)
        return features, weights.bfloat16(), state


def maps(model: AttendingModel, examples: list[Example]) -> list[Tensor]:
    return forced_attention(cast(Seq2Seq, model), examples)


def accuracy(pairs: list[Pair], examples: list[Example], model: AttendingModel | None = None) -> float | None:
    found = metrics(pairs, examples, model)
    return found and found.accuracy


def metrics(pairs: list[Pair], examples: list[Example], model: AttendingModel | None = None) -> AlignmentMetrics | None:
    return alignment_metrics(cast(Seq2Seq, model or AttendingModel()), ArticleTokenization(), pairs, examples)


def example(positions: tuple[int, ...], outputs: int) -> Example:
    return Example(positions, (1, *[4] * outputs, 2))


def test_a_map_has_a_row_for_each_output_and_a_column_for_each_source_token() -> None:
    maps_of_pairs = maps(AttendingModel(), [example((2, 0, 1), 2), example((0, 4, 3, 1, 2), 3)])
    assert [tuple(weights.shape) for weights in maps_of_pairs] == [(3, 3), (4, 5)]
    assert [weights.argmax(-1).tolist() for weights in maps_of_pairs] == [[2, 0, 1], [0, 4, 3, 1]]


def test_maps_are_float32_on_the_cpu_whatever_the_model_computes_in() -> None:
    (weights,) = maps(ModelInBfloat16((2,)), [example((2, 0, 1), 2)])
    assert (weights.dtype, weights.device.type) == (torch.float32, "cpu")


def test_more_sentences_than_one_batch_holds_stay_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    examples = [example((position % 3, 0, 1), 1) for position in range(8)]
    monkeypatch.setattr(alignment, "BATCH_SIZE", 3)
    assert [int(weights[0].argmax()) for weights in maps(AttendingModel(), examples)] == [
        position % 3 for position in range(8)
    ]


@pytest.mark.parametrize("axes", [(2,), (2, 3)], ids=["heads", "layers-and-heads"])
def test_layers_and_heads_are_averaged(axes: tuple[int, ...]) -> None:
    (maps_of_pairs,) = maps(AttendingModel(axes), [example((2, 0, 1, 6, 0, 0, 0), 3)])
    heads = math.prod(axes)
    for step, attended in enumerate((2, 0, 1, 6)):
        expected = [sum((attended + head) % 7 == position for head in range(heads)) / heads for position in range(7)]
        assert maps_of_pairs[step].tolist() == pytest.approx(expected)


def test_layers_and_heads_are_returned_separately() -> None:
    examples = [example((2, 0, 1, 6, 0, 0, 0), 3), example((1, 0, 2, 0, 0), 1)]
    first, second = teacher_forced_attention(cast(Seq2Seq, AttendingModel((2, 3))), examples)
    assert (first.shape, second.shape) == ((2, 3, 4, 7), (2, 3, 2, 5))
    for head, each in enumerate(first.flatten(0, 1)):
        assert each.argmax(-1).tolist() == [(attended + head) % 7 for attended in (2, 0, 1, 6)]


def test_accuracy_is_the_share_of_words_that_attend_to_an_aligned_token() -> None:
    pair = Pair("a b c", "A B C", frozenset({(0, 0), (1, 1), (2, 2)}))
    assert accuracy([pair], [example((0, 1, 2, 3), 3)]) == 1.0
    assert accuracy([pair], [example((0, 2, 2, 3), 3)]) == pytest.approx(2 / 3)
    assert accuracy([pair], [example((1, 2, 0, 3), 3)]) == 0.0


def test_every_word_has_the_same_weight() -> None:
    pairs = [Pair("a", "A", frozenset({(0, 0)})), Pair("a b c", "A B C", frozenset({(0, 0), (1, 1), (2, 2)}))]
    assert accuracy(pairs, [example((1, 0), 1), example((0, 1, 2, 3), 3)]) == pytest.approx(3 / 4)


def test_function_words_and_unaligned_words_do_not_count() -> None:
    pair = Pair("a b", "the A B", frozenset({(1, 0), (0, 1)}))
    assert accuracy([pair], [example((0, 0, 0, 0), 3)]) == 1.0, "B has no gold, and `the` is not scored"


def test_a_word_may_be_aligned_with_several() -> None:
    pair = Pair("a b", "A", frozenset({(0, 0), (1, 0)}))
    for position, expected in ((0, 1.0), (1, 1.0), (2, 0.0)):
        assert accuracy([pair], [example((position, 0, 0), 1)]) == expected


def test_the_error_rate_counts_links_of_all_sentences_and_the_entropy_is_a_mean_over_them() -> None:
    """Of 4 gold links and 4 found ones 3 agree: AER = 1 − (3 + 3) / (4 + 4). Two heads that differ have 1 bit."""
    pairs = [Pair("a", "A", frozenset({(0, 0)})), Pair("a b c", "A B C", frozenset({(0, 0), (1, 1), (2, 2)}))]
    examples = [example((0, 1), 1), example((0, 2, 2, 3), 3)]
    found = metrics(pairs, examples)
    assert found is not None
    assert (found.error_rate, found.entropy) == (pytest.approx(1 / 4), 0.0)
    two_heads = metrics(pairs[1:], examples[1:], AttendingModel((2,)))
    assert two_heads is not None
    assert two_heads.entropy == pytest.approx(1.0)


def test_without_gold_alignments_there_is_no_accuracy() -> None:
    assert accuracy([Pair("a b", "A B")], [example((0, 1, 2), 2)]) is None


def test_a_model_without_attention_has_no_accuracy() -> None:
    assert accuracy([Pair("a", "A", frozenset({(0, 0)}))], [example((0, 1), 1)], ModelWithoutAttention()) is None


def row(*weights: float) -> list[float]:
    return list(weights)


class TestLinks:
    def test_each_output_is_linked_to_its_most_attended_position(self) -> None:
        weights = torch.tensor([row(0.1, 0.2, 0.7, 0.0), row(0.5, 0.4, 0.0, 0.1), row(0.3, 0.4, 0.1, 0.2)])
        assert attention_links(weights) == {(2, 0), (0, 1), (1, 2)}

    def test_attention_to_the_end_or_to_nothing_is_no_link(self) -> None:
        weights = torch.tensor([row(0.1, 0.2, 0.7), row(0.0, 0.0, 0.0), row(0.2, 0.6, 0.2)])
        assert attention_links(weights) == {(1, 2)}

    def test_ties_are_broken_by_the_first_position(self) -> None:
        assert attention_links(torch.tensor([row(0.1, 0.4, 0.4, 0.1)])) == {(1, 0)}

    def test_no_output_has_no_link(self) -> None:
        assert attention_links(torch.zeros(0, 3)) == frozenset()

    def test_uniform_attention_has_no_link(self) -> None:
        even = torch.full((5,), 0.2) + torch.tensor([0, 3e-8, 0, -3e-8, 0])  # except for rounding
        weights = torch.stack([even, torch.tensor(row(0.2, 0.2, 0.21, 0.2, 0.19)), even])
        assert attention_links(weights) == {(1, 0), (2, 1), (1, 2)}
        assert attention_links(attention_peaks(weights)) == {(2, 1)}
        torch.testing.assert_close(attention_peaks(weights)[1], weights[1])

    def test_the_upper_bound_with_one_link_per_output(self) -> None:
        gold = GoldAlignment(frozenset({(2, 0), (5, 0), (1, 3)}), frozenset({(7, 0), (3, 1), (6, 3)}))
        found = best_links(gold)
        assert {output for _, output in found} == {0, 1, 3}
        assert AlignmentCounts.between(found, gold) == AlignmentCounts(found=3, sure=3, found_sure=2, found_possible=3)
        assert best_links(GoldAlignment(frozenset())) == frozenset()

    def test_the_diagonal(self) -> None:
        assert diagonal_links(3, 3) == {(0, 0), (1, 1), (2, 2)}
        assert diagonal_links(2, 5) == {(1, 0), (3, 1)}
        assert diagonal_links(5, 2) == {(0, 0), (0, 1), (1, 2), (1, 3), (1, 4)}
        assert diagonal_links(0, 3) == diagonal_links(3, 0) == frozenset()


class TestAgreement:
    GOLD = GoldAlignment(frozenset({(0, 0), (1, 1), (2, 2)}), frozenset({(2, 1), (4, 4), (1, 0)}))
    FOUND = frozenset({(0, 0), (2, 1), (2, 2), (1, 3), (4, 4)})

    def test_by_hand(self) -> None:
        """|A| = 5, |S| = 3, |A ∩ S| = 2, |A ∩ P| = 4."""
        agreement = AlignmentCounts.between(self.FOUND, self.GOLD)
        assert agreement == AlignmentCounts(5, 3, 2, 4)
        assert agreement.precision == 4 / 5
        assert agreement.recall == 2 / 3
        assert agreement.error_rate == pytest.approx(1 - 6 / 8)
        assert agreement.f1 == pytest.approx(8 / 11)

    def test_missing_possible_links_is_no_error(self) -> None:
        assert AlignmentCounts.between(self.GOLD.sure, self.GOLD).error_rate == 0
        assert AlignmentCounts.between(self.GOLD.possible, self.GOLD).error_rate == 0
        assert AlignmentCounts.between({(3, 3), (0, 4)}, self.GOLD).error_rate == 1

    def test_with_only_sure_links_the_error_rate_is_1_minus_f1(self) -> None:
        agreement = AlignmentCounts.between(self.FOUND, GoldAlignment(self.GOLD.sure))
        assert agreement.error_rate == pytest.approx(1 - agreement.f1) == pytest.approx(1 - 4 / 8)

    def test_counts_are_summed_and_rates_are_not(self) -> None:
        many = AlignmentCounts(found=7, sure=11, found_sure=5, found_possible=6)
        both = AlignmentCounts.between(self.FOUND, self.GOLD) + many
        assert both == AlignmentCounts(12, 14, 7, 10)
        assert both.error_rate == pytest.approx(1 - 17 / 26)
        assert sum([both, many], AlignmentCounts()) == both + many

    def test_empty_alignments_have_no_rates(self) -> None:
        nothing = AlignmentCounts()
        values = (nothing.precision, nothing.recall, nothing.f1, nothing.error_rate)
        assert all(math.isnan(value) for value in values)
        empty_alignment = AlignmentCounts.between((), self.GOLD)
        assert (empty_alignment.recall, empty_alignment.error_rate) == (0, 1)
        assert math.isnan(empty_alignment.precision)
        assert math.isnan(empty_alignment.f1)
        assert AlignmentCounts.between({(3, 3)}, self.GOLD).f1 == 0


class TestMovement:
    def test_entropy_by_hand(self) -> None:
        weights = torch.tensor([row(0.5, 0.25, 0.25), row(1.0, 0.0, 0.0)])  # 1.5 bits and none
        assert entropy(weights) == pytest.approx(0.75)
        assert entropy(torch.full((3, 8), 1 / 8)) == pytest.approx(3)

    def test_coverage_by_hand(self) -> None:
        weights = torch.tensor([row(0.9, 0.1, 0.0), row(0.8, 0.1, 0.1)])  # 1.7, which counts as 1, 0.2 and 0.1
        assert coverage(weights) == pytest.approx((1 + 0.2 + 0.1) / 3)
        assert coverage(torch.eye(5)) == 1

    def test_steps_backward(self) -> None:
        assert backward_share({(0, 0), (1, 1), (4, 2), (2, 3), (3, 4)}) == 1 / 4
        assert backward_share({(0, 2), (1, 1), (2, 0)}) == 1
        assert backward_share({(3, 0), (3, 1), (3, 2)}) == 0, "staying at a position is no backward step"
        assert backward_share({(5, 0), (1, 3), (6, 7)}) == 1 / 2, "outputs without a link are skipped"

    @pytest.mark.parametrize("shape", [(0, 5), (0, 0)])
    def test_an_empty_output_has_no_measures(self, shape: tuple[int, int]) -> None:
        assert math.isnan(entropy(torch.zeros(shape)))
        assert math.isnan(coverage(torch.zeros(shape)))

    @pytest.mark.parametrize("found", [set(), {(0, 0)}])
    def test_one_link_has_no_step(self, found: set[tuple[int, int]]) -> None:
        assert math.isnan(backward_share(found))


def words_of(text: str, tokens: list[str]) -> list[list[str]] | None:
    """The tokens, word by word."""
    starts = white_space_starts(text, tokens)
    if starts is None:
        return None
    found: list[list[str]] = []
    for begins, token in zip(starts, tokens, strict=True):
        if begins:
            found.append([])
        found[-1].append(token)
    return found


class TestWhiteSpaceWords:
    def test_pieces(self) -> None:
        tokens = ["▁Ein", "▁Wein", "berg", ".", "▁", "Ω", "▁(", "x", ")"]
        assert words_of("Ein Weinberg. Ω (x)", tokens) == [
            ["▁Ein"],
            ["▁Wein", "berg", "."],
            ["▁", "Ω"],
            ["▁(", "x", ")"],
        ]

    def test_words_split_from_their_punctuation(self) -> None:
        text = '"Ja", sagt  er. - So!'
        tokens = WordTokenizer().tokenize(text)
        assert words_of(text, tokens) == [['"￭', "Ja", '￭"', "￭,"], ["sagt"], ["er", "￭."], ["-"], ["So", "￭!"]]

    def test_characters_between_spaces(self) -> None:
        found = words_of("  ab c  de ", CharacterTokenizer().tokenize("  ab c  de "))
        assert found == [[" ", " ", "a", "b"], [" ", "c"], [" ", " ", "d", "e", " "]]

    def test_lowercase(self) -> None:
        assert words_of("Ein İglu", ["▁ein", "▁i̇", "glu"]) == [["▁ein"], ["▁i̇", "glu"]]

    def test_joiner_characters_in_a_text(self) -> None:
        text = "a￭b ■ c"
        assert words_of(text, WordTokenizer().tokenize(text)) == [["a", "￭■￭", "b"], ["■"], ["c"]]

    def test_other_white_space(self) -> None:
        assert words_of("a\u00a0b\tc", ["▁a", "\u00a0", "b", "\t", "c"]) == [["▁a"], ["\u00a0", "b"], ["\t", "c"]]

    def test_an_empty_text_has_no_words(self) -> None:
        assert white_space_starts("", []) == []

    @pytest.mark.parametrize(
        "tokens", [["a", "c"], ["a"], ["a", "b", "c"], ["<L>", "a", "b"], ["ab"], ["▁a b"], []], ids=str
    )
    def test_tokens_that_do_not_spell_the_words(self, tokens: list[str]) -> None:
        assert white_space_starts("a b", tokens) is None
