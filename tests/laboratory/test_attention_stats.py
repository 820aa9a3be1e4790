"""Where outputs look, with weights made up by hand."""

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
from regard.laboratory.attention_stats import (
    MEASURES,
    AlignedSentence,
    Alignment,
    AttentionStats,
    TokenizedSide,
    named_maps,
)
from regard.tasks import Pair, Task
from regard.tasks.case import Case
from regard.tasks.clauses import Clauses


def side(text: str, starts: tuple[bool, ...] = ()) -> TokenizedSide:
    """Words with spaces between them; a comma is punctuation."""
    units = tuple(text.split())
    content = tuple(place for place, unit in enumerate(units) if unit != ",")
    return TokenizedSide(units, (*starts, True) if starts else (True,) * (len(units) + 1), content)


def a_sentence(source: str, target: str, number: int = 1) -> AlignedSentence:
    return AlignedSentence(number, Pair(source, target), side(source), side(target))


def looking_at(*places: int, sources: int, weight: float = 1.0) -> Tensor:
    """A map whose row i looks at places[i], with the rest spread over all others."""
    weights = torch.full((len(places), sources), (1 - weight) / (sources - 1))
    weights[range(len(places)), list(places)] = weight
    return weights


def test_a_link_at_the_step_itself_and_one_step_later() -> None:
    sentence = a_sentence("a b c d", "A B C")
    look = AttentionStats.of(looking_at(3, 0, 1, 2, sources=5), sentence)
    assert look.links == {(3, 0), (0, 1), (1, 2)}
    assert look.later == {(0, 0), (1, 1), (2, 2)}, "the last output has the row of the target's end"


def test_a_look_at_the_source_s_end_is_no_link() -> None:
    look = AttentionStats.of(looking_at(4, 0, 4, 1, sources=5), a_sentence("a b c d", "A B C"))
    assert look.links == {(0, 1)}
    assert look.later == {(0, 0), (1, 2)}


PIECES = AlignedSentence(
    1,
    Pair("Weinberge dort", "there vineyards"),
    TokenizedSide(("Weinberge", "dort"), (True, False, False, True, True), (0, 1)),
    TokenizedSide(("there", "vineyards"), (True, True, False, True), (0, 1)),
)


def test_pieces_are_put_together_to_words() -> None:
    """The pieces' weights are added up on the source's side, and averaged on the output's."""
    weights = torch.tensor(
        [
            [0.25, 0.25, 0.1, 0.4, 0.0],  # there: 0.6 on Weinberge, though dort has the largest piece
            [0.1, 0.1, 0.1, 0.6, 0.1],  # vine
            [0.3, 0.3, 0.3, 0.0, 0.1],  # yards: together 0.6 on Weinberge, 0.3 on dort
            [0.0, 0.0, 0.0, 0.0, 1.0],
        ]
    )
    torch.testing.assert_close(PIECES.map_units(weights[:-1]), torch.tensor([[0.6, 0.4, 0.0], [0.6, 0.3, 0.1]]))
    torch.testing.assert_close(PIECES.map_units(weights)[-1], torch.tensor([0.0, 0.0, 1.0]))
    look = AttentionStats.of(weights, PIECES)
    assert look.links == {(0, 0), (0, 1)}


def test_a_step_later_is_a_step_of_tokens() -> None:
    """There: the row of vine. Vineyards: the rows of yards and the end."""
    look = AttentionStats.of(looking_at(0, 3, 0, 1, sources=5), PIECES)
    assert look.later == {(1, 0), (0, 1)}


def test_attention_to_all_places_alike_has_no_links_whatever_the_pieces() -> None:
    look = AttentionStats.of(torch.full((4, 5), 1 / 5), PIECES)
    assert look.links == look.later == frozenset()
    assert isnan(look.values["backward"])
    assert look.values["way_back"] == 0
    assert look.values["monotonicity"] == pytest.approx(0, abs=1e-6)


def test_measures_by_hand() -> None:
    """From the fourth place back to the second, over a comma that does not count."""
    sentence = a_sentence("a , b c d", "A D B C")
    look = AttentionStats.of(looking_at(0, 4, 2, 3, 5, sources=6, weight=0.5), sentence)
    bits = 0.5 * 1 - 5 * 0.1 * torch.tensor(0.1).log2().item()
    assert look.values["entropy"] == pytest.approx(bits)
    assert look.values["entropy_share"] == pytest.approx(bits / torch.tensor(6.0).log2().item())
    assert look.values["coverage"] == pytest.approx((4 * 0.8 + 0.4) / 5)
    assert look.values["backward"] == pytest.approx(1 / 3)
    assert look.values["way_back"] == pytest.approx(0.5 * 2), "two words back, half sure"
    assert 0 < look.values["monotonicity"] < 0.5
    assert list(look.values) == list(MEASURES)


def test_a_glance_at_punctuation_is_no_step_back() -> None:
    sentence = a_sentence("a b c ,", "A B C")
    look = AttentionStats.of(looking_at(0, 3, 1, 4, sources=5), sentence)
    assert (3, 1) in look.links
    assert look.values["backward"] == look.values["way_back"] == 0


def test_an_empty_target_has_no_measures() -> None:
    look = AttentionStats.of(looking_at(1, sources=3), a_sentence("a b", ""))
    assert look.links == look.later == frozenset()
    assert all(isnan(value) for value in look.values.values())


def reading(task: Task) -> Any:
    """A stand-in for a translator of this task."""
    return SimpleNamespace(codec=SimpleNamespace(tokenization=task), experiment=SimpleNamespace(data=task))


def test_units_are_tokens_or_words_between_white_space() -> None:
    pair = Pair("<U> ab, c", "AB, C")
    by_token = AlignedSentence.cut(reading(Case()), 3, pair, by_white_space=False)
    assert by_token.source.units == ("<U>", *"ab, c")
    assert by_token.source.content == tuple(range(6)), "among characters, a comma is as good as any"
    assert by_token.source.each_token_is_one
    by_word = AlignedSentence.cut(reading(Case()), 3, pair, by_white_space=True)
    assert (by_word.source.units, by_word.target.units) == (("<U>", "ab,", "c"), ("AB,", "C"))
    assert by_word.target.starts == (True, False, False, True, False, True), "the space is of the word behind it"
    assert (by_word.length, by_token.length) == (3, 6)


def test_punctuation_of_a_text_is_no_content() -> None:
    sentence = AlignedSentence.cut(reading(Clauses()), 1, Pair("er singt , .", "he sings , ."), by_white_space=False)
    assert sentence.source.content == sentence.target.content == (0, 1)


def test_tokens_that_do_not_spell_the_text_are_refused() -> None:
    """The prompt is read last, and stands first."""
    with pytest.raises(
        UserError, match=r"sentence 5: its source is read as 'a b <L>', from which the words of '<L> ab'"
    ):
        AlignedSentence.cut(reading(Case(prompt="last")), 5, Pair("<L> ab", "ab"), by_white_space=True)


def test_maps_have_names() -> None:
    assert list(named_maps(torch.rand(3, 5), ())) == ["attention"]
    assert list(named_maps(torch.rand(1, 3, 5), ("head",))) == ["attention"], "one head is no several"
    weights = torch.rand(2, 3, 5, 7)
    maps = named_maps(weights, ("layer", "head"))
    assert list(maps)[:3] == ["mean", "layer 1 · head 1", "layer 1 · head 2"]
    assert len(maps) == 7
    torch.testing.assert_close(maps["mean"], weights.mean((0, 1)))
    torch.testing.assert_close(maps["layer 2 · head 3"], weights[1, 2])


def an_alignment(truths: list[GoldAlignment], *maps: Tensor) -> Alignment:
    """Sentences of letters with these maps of tokens."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    sentences = [
        a_sentence(" ".join(letters[: each.shape[1] - 1]), " ".join(letters[: len(each) - 1].upper()), number)
        for number, each in enumerate(maps, start=1)
    ]
    looks = [AttentionStats.of(each, sentence) for each, sentence in zip(maps, sentences, strict=True)]
    return Alignment(sentences, [Example((2,), (1, 2))] * len(maps), {"attention": looks}, truths, "hand")


class TestAlignment:
    STRAIGHT = looking_at(0, 1, 2, 3, 4, 5, 6, sources=7)
    BACK = looking_at(0, 4, 1, 2, 3, 5, sources=6)
    SHORT = looking_at(1, 0, 2, sources=3)

    def test_links_of_all_sentences_are_counted(self) -> None:
        diagonal = frozenset((place, place) for place in range(6))
        found = an_alignment([GoldAlignment(diagonal), GoldAlignment(frozenset({(4, 1)}))], self.STRAIGHT, self.BACK)
        ((here, later),) = found.agreements.values()
        assert here == AlignmentCounts(found=11, sure=7, found_sure=7, found_possible=7)
        assert later == AlignmentCounts(found=9, sure=7, found_sure=0, found_possible=0)
        assert found.diagonal == AlignmentCounts(found=11, sure=7, found_sure=6, found_possible=6)

    def test_an_average_is_over_sentences_that_have_the_measure(self) -> None:
        lonely = looking_at(0, 1, sources=2)  # one output makes no step
        found = an_alignment([], self.STRAIGHT, self.BACK, lonely)
        assert found.average("attention", "backward") == pytest.approx((0 + 1 / 4) / 2)
        assert isnan(an_alignment([], lonely).average("attention", "backward"))

    def test_the_sentences_that_show_a_measure_most(self) -> None:
        found = an_alignment([], self.STRAIGHT, self.BACK, self.SHORT, self.STRAIGHT)
        assert [(value, each.number) for value, each in found.extremes("way_back")] == [(3, 2)], "the third is short"
        assert [each.number for _, each in found.extremes("monotonicity")] == [2], "the least"
        only_short = an_alignment([], self.SHORT, looking_at(0, 1, 2, sources=3))
        assert [each.number for _, each in only_short.extremes("way_back")] == [1]
        assert an_alignment([], self.STRAIGHT, self.STRAIGHT).extremes("way_back") == [], "none stands out"

    def test_no_more_than_three(self) -> None:
        maps = [looking_at(0, way, 1, 2, 3, 9, sources=10) for way in (4, 8, 6, 7, 5)]
        found = an_alignment([], self.STRAIGHT, *maps)
        assert [(value, each.number) for value, each in found.extremes("way_back")] == [(7, 3), (6, 5), (5, 4)]

    def test_the_telling_sentence_goes_back_farthest_and_can_be_read(self) -> None:
        far = looking_at(0, 25, *range(1, 26), sources=27)
        assert an_alignment([], self.STRAIGHT, self.BACK, far).telling.number == 2
        assert an_alignment([], far, far).telling.number == 1, "there is no other"
        assert an_alignment([], self.SHORT[[0, 2]], self.STRAIGHT, self.STRAIGHT).telling.number == 2, "the longest"


def test_nothing_to_measure_is_not_a_number() -> None:
    found = an_alignment([], looking_at(0, 1, sources=2))
    assert found.extremes("backward") == []
    assert isnan(found.looks["attention"][0].values["backward"])
