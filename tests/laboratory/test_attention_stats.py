"""Attention statistics of maps written by hand."""

from __future__ import annotations

from math import isnan
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.corpora.alignments import GoldAlignment
from regard.data import Example
from regard.errors import UserError
from regard.evaluation.alignment import AlignmentCounts
from regard.laboratory.aligned_sentences import AlignedSentence, SegmentedText
from regard.laboratory.alignment import AttentionAlignment
from regard.laboratory.attention_stats import MEASURES, AttentionStats, named_maps
from regard.tasks import Pair
from regard.tasks.case import CaseSection, CaseTask
from regard.tasks.clauses import ClausesSection, ClausesTask
from regard.tasks.generated import GeneratedTask


def side(text: str, starts: tuple[bool, ...] = ()) -> SegmentedText:
    """Words with spaces between them; a comma is punctuation."""
    units = tuple(text.split())
    content = tuple(index for index, unit in enumerate(units) if unit != ",")
    return SegmentedText(units, (*starts, True) if starts else (True,) * (len(units) + 1), content)


def make_sentence(source: str, target: str, number: int = 1) -> AlignedSentence:
    return AlignedSentence(number, Pair(source, target), side(source), side(target))


def attending_to(*positions: int, sources: int, weight: float = 1.0) -> Tensor:
    """A map whose row i has `weight` at positions[i] and the rest spread evenly."""
    weights = torch.full((len(positions), sources), (1 - weight) / (sources - 1))
    weights[range(len(positions)), list(positions)] = weight
    return weights


def test_links_from_the_same_and_the_next_step() -> None:
    sentence = make_sentence("a b c d", "A B C")
    stats = AttentionStats.of_map(attending_to(3, 0, 1, 2, sources=5), sentence)
    assert stats.links == {(3, 0), (0, 1), (1, 2)}
    assert stats.next_step_links == {(0, 0), (1, 1), (2, 2)}, "the last output has the row of the target's end"


def test_attention_to_the_source_end_gives_no_link() -> None:
    stats = AttentionStats.of_map(attending_to(4, 0, 4, 1, sources=5), make_sentence("a b c d", "A B C"))
    assert stats.links == {(0, 1)}
    assert stats.next_step_links == {(0, 0), (1, 2)}


PIECES = AlignedSentence(
    1,
    Pair("Weinberge dort", "there vineyards"),
    SegmentedText(("Weinberge", "dort"), (True, False, False, True, True), (0, 1)),
    SegmentedText(("there", "vineyards"), (True, True, False, True), (0, 1)),
)


def test_pieces_are_merged_into_words() -> None:
    """Weights of pieces are summed over the source and averaged over the output."""
    weights = torch.tensor(
        [
            [0.25, 0.25, 0.1, 0.4, 0.0],  # there: 0.6 on Weinberge, though dort has the largest piece
            [0.1, 0.1, 0.1, 0.6, 0.1],  # vine
            [0.3, 0.3, 0.3, 0.0, 0.1],  # yards: together 0.6 on Weinberge, 0.3 on dort
            [0.0, 0.0, 0.0, 0.0, 1.0],
        ]
    )
    torch.testing.assert_close(PIECES.unit_map(weights[:-1]), torch.tensor([[0.6, 0.4, 0.0], [0.6, 0.3, 0.1]]))
    torch.testing.assert_close(PIECES.unit_map(weights)[-1], torch.tensor([0.0, 0.0, 1.0]))
    stats = AttentionStats.of_map(weights, PIECES)
    assert stats.links == {(0, 0), (0, 1)}


def test_the_next_step_is_the_next_token() -> None:
    """There: the row of vine. Vineyards: the rows of yards and the end."""
    stats = AttentionStats.of_map(attending_to(0, 3, 0, 1, sources=5), PIECES)
    assert stats.next_step_links == {(1, 0), (0, 1)}


def test_uniform_attention_has_no_links() -> None:
    stats = AttentionStats.of_map(torch.full((4, 5), 1 / 5), PIECES)
    assert stats.links == stats.next_step_links == frozenset()
    assert isnan(stats.values["backward"])
    assert stats.values["inversion"] == 0
    assert stats.values["monotonicity"] == pytest.approx(0, abs=1e-6)


def test_measures_by_hand() -> None:
    """From the fourth position back to the second, ignoring a comma."""
    sentence = make_sentence("a , b c d", "A D B C")
    stats = AttentionStats.of_map(attending_to(0, 4, 2, 3, 5, sources=6, weight=0.5), sentence)
    bits = 0.5 * 1 - 5 * 0.1 * torch.tensor(0.1).log2().item()
    assert stats.values["entropy"] == pytest.approx(bits)
    assert stats.values["entropy_share"] == pytest.approx(bits / torch.tensor(6.0).log2().item())
    assert stats.values["coverage"] == pytest.approx((4 * 0.8 + 0.4) / 5)
    assert stats.values["backward"] == pytest.approx(1 / 3)
    assert stats.values["inversion"] == pytest.approx(0.5 * 2), "two words back, with weight one half"
    assert 0 < stats.values["monotonicity"] < 0.5
    assert list(stats.values) == list(MEASURES)


def test_attention_to_punctuation_is_no_backward_step() -> None:
    sentence = make_sentence("a b c ,", "A B C")
    stats = AttentionStats.of_map(attending_to(0, 3, 1, 4, sources=5), sentence)
    assert (3, 1) in stats.links
    assert stats.values["backward"] == stats.values["inversion"] == 0


def test_an_empty_target_has_no_measures() -> None:
    stats = AttentionStats.of_map(attending_to(1, sources=3), make_sentence("a b", ""))
    assert stats.links == stats.next_step_links == frozenset()
    assert all(isnan(value) for value in stats.values.values())


def stub_translator(task: GeneratedTask[Any]) -> Any:
    """A stand-in for a translator of this task."""
    codec, experiment = SimpleNamespace(tokenization=task.tokenization), SimpleNamespace(task=task)
    return SimpleNamespace(codec=codec, experiment=experiment)


def test_units_are_tokens_or_words_between_white_space() -> None:
    pair = Pair("<U> ab, c", "AB, C")
    by_token = AlignedSentence.segment(stub_translator(CaseTask(CaseSection())), 3, pair, by_white_space=False)
    assert by_token.source.units == ("<U>", *"ab, c")
    assert by_token.source.content == tuple(range(6)), "in a task on characters, a comma is content"
    assert by_token.source.is_token_level
    by_word = AlignedSentence.segment(stub_translator(CaseTask(CaseSection())), 3, pair, by_white_space=True)
    assert (by_word.source.units, by_word.target.units) == (("<U>", "ab,", "c"), ("AB,", "C"))
    assert by_word.target.starts == (True, False, False, True, False, True), "a space belongs to the next word"
    assert (by_word.length, by_token.length) == (3, 6)


def test_punctuation_of_a_text_is_no_content() -> None:
    sentence = AlignedSentence.segment(
        stub_translator(ClausesTask(ClausesSection())), 1, Pair("er singt , .", "he sings , ."), by_white_space=False
    )
    assert sentence.source.content == sentence.target.content == (0, 1)


def test_tokens_that_do_not_spell_the_text_are_refused() -> None:
    """The prompt is the first word and the last token."""
    with pytest.raises(
        UserError, match=r"sentence 5: its source is tokenized as 'a b <L>', which does not spell the words of '<L> ab'"
    ):
        AlignedSentence.segment(
            stub_translator(CaseTask(CaseSection(prompt="last"))), 5, Pair("<L> ab", "ab"), by_white_space=True
        )


def test_maps_have_names() -> None:
    assert list(named_maps(torch.rand(3, 5), ())) == ["attention"]
    assert list(named_maps(torch.rand(1, 3, 5), ("head",))) == ["attention"], "a single head is not named"
    weights = torch.rand(2, 3, 5, 7)
    maps = named_maps(weights, ("layer", "head"))
    assert list(maps)[:3] == ["mean", "layer 1 · head 1", "layer 1 · head 2"]
    assert len(maps) == 7
    torch.testing.assert_close(maps["mean"], weights.mean((0, 1)))
    torch.testing.assert_close(maps["layer 2 · head 3"], weights[1, 2])


def make_alignment(gold: list[GoldAlignment], *maps: Tensor) -> AttentionAlignment:
    """Sentences of letters with these maps of tokens."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    sentences = [
        make_sentence(" ".join(letters[: each.shape[1] - 1]), " ".join(letters[: len(each) - 1].upper()), number)
        for number, each in enumerate(maps, start=1)
    ]
    stats = [AttentionStats.of_map(each, sentence) for each, sentence in zip(maps, sentences, strict=True)]
    return AttentionAlignment(sentences, [Example((2,), (1, 2))] * len(maps), {"attention": stats}, gold, "hand")


class TestAlignment:
    STRAIGHT = attending_to(0, 1, 2, 3, 4, 5, 6, sources=7)
    BACK = attending_to(0, 4, 1, 2, 3, 5, sources=6)
    SHORT = attending_to(1, 0, 2, sources=3)

    def test_links_of_all_sentences_are_counted(self) -> None:
        diagonal = frozenset((position, position) for position in range(6))
        found = make_alignment([GoldAlignment(diagonal), GoldAlignment(frozenset({(4, 1)}))], self.STRAIGHT, self.BACK)
        ((own, following),) = found.counts.values()
        assert own == AlignmentCounts(found=11, sure=7, found_sure=7, found_possible=7)
        assert following == AlignmentCounts(found=9, sure=7, found_sure=0, found_possible=0)
        assert found.diagonal == AlignmentCounts(found=11, sure=7, found_sure=6, found_possible=6)

    def test_average_is_over_sentences_with_the_measure(self) -> None:
        single_output = attending_to(0, 1, sources=2)  # one output has no step to the next
        found = make_alignment([], self.STRAIGHT, self.BACK, single_output)
        assert found.average("attention", "backward") == pytest.approx((0 + 1 / 4) / 2)
        assert isnan(make_alignment([], single_output).average("attention", "backward"))

    def test_extreme_sentences(self) -> None:
        found = make_alignment([], self.STRAIGHT, self.BACK, self.SHORT, self.STRAIGHT)
        assert [(value, each.number) for value, each in found.extremes("inversion")] == [(3, 2)], "the third is short"
        assert [each.number for _, each in found.extremes("monotonicity")] == [2], "the least"
        only_short = make_alignment([], self.SHORT, attending_to(0, 1, 2, sources=3))
        assert [each.number for _, each in only_short.extremes("inversion")] == [1]
        assert make_alignment([], self.STRAIGHT, self.STRAIGHT).extremes("inversion") == [], "all are equal"

    def test_at_most_three_extreme_sentences(self) -> None:
        maps = [attending_to(0, direction, 1, 2, 3, 9, sources=10) for direction in (4, 8, 6, 7, 5)]
        found = make_alignment([], self.STRAIGHT, *maps)
        assert [(value, each.number) for value, each in found.extremes("inversion")] == [(7, 3), (6, 5), (5, 4)]

    def test_example_sentence_has_the_longest_inversion_and_is_readable(self) -> None:
        far = attending_to(0, 25, *range(1, 26), sources=27)
        assert make_alignment([], self.STRAIGHT, self.BACK, far).example_sentence.number == 2
        assert make_alignment([], far, far).example_sentence.number == 1, "there is no other"
        assert make_alignment([], self.SHORT[[0, 2]], self.STRAIGHT, self.STRAIGHT).example_sentence.number == 2, (
            "the longest"
        )


def test_undefined_measure_is_nan() -> None:
    found = make_alignment([], attending_to(0, 1, sources=2))
    assert found.extremes("backward") == []
    assert isnan(found.stats["attention"][0].values["backward"])
