from collections import Counter
from dataclasses import replace
from math import isnan, nan

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from regard.reports.example_selection import (
    CRITERIA,
    ExampleSentence,
    SelectedExample,
    diagonality,
    inversion,
    select_examples,
    spread,
)

WORD_FOR_WORD, CHANGE, ONE_PLACE, MANY, LONGEST, BEST, WORST = (reason.title for reason in CRITERIA)
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def attending_to(*positions: int, sources: int | None = None, weight: float = 1.0) -> Tensor:
    """A map whose row i attends to positions[i] with this weight, and uniformly to all others with the rest."""
    sources = max(positions) + 1 if sources is None else sources
    weights = torch.full((len(positions), sources), (1 - weight) / max(sources - 1, 1))
    weights[range(len(positions)), list(positions)] = weight
    return weights


def a_sentence(number: int, attention: Tensor, score: float = 50.0) -> ExampleSentence:
    """A sentence of single-letter words with this map, in which the ends attend to each other."""
    outputs, sources = attention.shape
    weights = torch.zeros(outputs + 1, sources + 1)
    weights[:-1, :-1] = attention
    weights[-1, -1] = 1
    tokens, source_tokens = tuple(LETTERS[:outputs]), tuple(LETTERS[:sources])
    texts = (" ".join(source_tokens), " ".join(tokens), "reference")
    return ExampleSentence(number, *texts, (*tokens, "<end>"), (*source_tokens, "<end>"), (), (), weights, score)


def selected_numbers(chosen: list[SelectedExample], title: str) -> list[int]:
    return [each.sentence.number for each in chosen if each.criterion.title == title]


def random_set(count: int, seed: int = 0) -> list[ExampleSentence]:
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(1, 12, (count, 2), generator=generator).tolist()
    maps = [torch.rand(outputs, sources, generator=generator) ** 4 for outputs, sources in sizes]
    scores = (100 * torch.rand(count, generator=generator)).tolist()
    return [
        a_sentence(n + 1, a / a.sum(1, keepdim=True), score)
        for n, (a, score) in enumerate(zip(maps, scores, strict=True))
    ]


class TestMeasures:
    def test_diagonality(self) -> None:
        assert diagonality(attending_to(0, 1, 2, 3, 4)) == pytest.approx(1)
        assert diagonality(attending_to(4, 3, 2, 1, 0)) == pytest.approx(-1)
        assert diagonality(torch.full((5, 6), 1 / 6)) == pytest.approx(0, abs=1e-6)
        assert diagonality(attending_to(0, 2, 4, 6, 8)) == pytest.approx(1), "a steeper line is as straight"
        swapped, blurred = (
            diagonality(attending_to(0, 2, 1, 3, 4)),
            diagonality(attending_to(0, 1, 2, 3, 4, weight=0.8)),
        )
        assert diagonality(attending_to(0, 4, 1, 2, 3)) < swapped < 1
        assert 0.5 < blurred < 1

    def test_inversion(self) -> None:
        assert inversion(attending_to(0, 1, 2, 3, 4)) == 0
        assert inversion(attending_to(0, 1, 5, 2, 3, 4)) == 3, "from 5 back to 2"
        assert inversion(attending_to(0, 5, 4, 1, 2, 3)) == 4, "the backward move may span several words"
        assert inversion(attending_to(0, 5, 1, 2, 3, 4, weight=0.5)) == pytest.approx(0.5 * 4), "half the weight"
        blurred_map = torch.cat([attending_to(0, 5), attending_to(1, 2, 3, 4, sources=6, weight=0.3)])
        assert inversion(blurred_map) == pytest.approx(0.3 * 4), "the lower of both weights"

    def test_spread(self) -> None:
        assert spread(attending_to(3, 1, 4, 1, 0)) == pytest.approx(0)
        assert spread(torch.full((3, 7), 1 / 7)) == pytest.approx(1)
        assert spread(torch.tensor([[0.5, 0.5, 0.0, 0.0]] * 3)) == pytest.approx(0.5), "2 of 4 is half the entropy"
        halves = torch.tensor([[0.5, 0.5, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
        assert spread(halves) == pytest.approx(0.25), "the mean of the rows"
        assert spread(0.5 * attending_to(3, 1, 4)) == pytest.approx(0), "attention to the end is no spread among words"

    @pytest.mark.parametrize("measure", [diagonality, inversion, spread])
    @pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0)])
    def test_an_empty_map_has_no_measures(self, measure, shape: tuple[int, int]) -> None:
        assert isnan(measure(torch.zeros(shape)))

    @given(st.integers(2, 8), st.integers(2, 8), st.integers(0, 2**32))
    def test_measures_stay_in_their_ranges(self, outputs: int, sources: int, seed: int) -> None:
        attention = torch.rand(outputs, sources, generator=torch.Generator().manual_seed(seed), dtype=torch.double)
        attention /= attention.sum(1, keepdim=True)
        assert -1 - 1e-9 <= diagonality(attention) <= 1 + 1e-9
        assert 0 <= inversion(attention) <= sources - 1
        assert 0 <= spread(attention) <= 1 + 1e-9


class TestMap:
    def test_a_map_is_over_words_without_ends_and_punctuation(self) -> None:
        weights = torch.tensor([[0.1, 0.2, 0.3, 0.3, 0.1], [0.3, 0.4, 0.1, 0.1, 0.1], [0.0, 0.0, 0.0, 0.5, 0.5]])
        shown = ExampleSentence(
            number=1,
            source="Ein Mann, spielt",
            output="",
            reference="",
            tokens=("▁play", "s", "<end>"),
            source_tokens=("▁Man", "n", ",", "▁spielt", "<end>"),
            starts=(True, False, False),  # the end still is a word of its own
            source_starts=(True, False, False, True, True),  # so is the comma
            weights=weights,
            score=0,
        )
        torch.testing.assert_close(shown.map, torch.tensor([[0.5, 0.2]]).double())

    def test_attention_to_the_full_stop_is_no_inversion(self) -> None:
        shown = a_sentence(1, attending_to(0, 6, 1, 2, 3, 4, 5))
        assert inversion(shown.map) == 5
        stop = replace(shown, source_tokens=(*"abcdef", ".", "<end>"))
        assert inversion(stop.map) == 0

    def test_a_sentence_without_attention_has_no_map(self) -> None:
        shown = replace(a_sentence(1, attending_to(0, 1, 2, 3, 4)), weights=torch.zeros(6, 6))
        assert not shown.has_attention
        assert shown.map.numel() == 0

    def test_truncated(self) -> None:
        whole = a_sentence(1, attending_to(0, 1))
        assert not whole.truncated
        assert replace(whole, tokens=("a", "b")).truncated
        assert not replace(whole, tokens=()).truncated, "an empty output is not truncated"


class TestSelection:
    def test_each_criterion_selects_the_sentence_made_for_it(self) -> None:
        others = [a_sentence(n, attending_to(1, 0, 2, 4, 3, 5, weight=0.6), 50 + n / 100) for n in range(10, 30)]
        targets = [
            a_sentence(1, attending_to(0, 1, 2, 3, 4, 5, weight=0.95), 60),
            a_sentence(2, attending_to(0, 5, 1, 2, 3, 4, weight=0.9), 60),
            a_sentence(3, attending_to(2, 1, 2, 1, 2, 1, sources=6), 40),
            a_sentence(4, torch.full((6, 6), 1 / 6), 40),
            a_sentence(5, attending_to(*[1, 0, 3, 2, 5, 4] * 3, sources=18, weight=0.6), 40),
            a_sentence(6, attending_to(1, 0, 2), 99),
            a_sentence(7, attending_to(1, 0, 2), 1),
        ]
        chosen = select_examples([*others, *targets], per_criterion=1)
        assert [(each.criterion.title, each.sentence.number) for each in chosen] == [
            (WORD_FOR_WORD, 1),
            (CHANGE, 2),
            (ONE_PLACE, 3),
            (MANY, 4),
            (LONGEST, 5),
            (BEST, 6),
            (WORST, 7),
        ]
        values = [each.caption.partition(" · ")[0] for each in chosen]
        assert values[1:] == ["3.6 words back", "spread 0 %", "spread 100 %", "18 words", "score 99.0", "score 1.0"]
        assert chosen[4].caption == "18 words · score 40.0"
        assert chosen[1].value == pytest.approx(0.9 * 4)

    def test_short_sentences_are_selected_only_by_score(self) -> None:
        short = [a_sentence(n, attending_to(*range(n % 4 + 1))) for n in range(1, 30)]
        assert {each.criterion.title for each in select_examples(short)} == {BEST, WORST}
        five = [a_sentence(99, attending_to(0, 1, 2, 3, 4))]
        assert selected_numbers(select_examples(short + five), WORD_FOR_WORD) == [99]

    def test_reordering_selects_only_good_translations(self) -> None:
        good = [a_sentence(n, attending_to(0, 2, 1, 3, 4, 5), 60 + n) for n in range(1, 9)]
        bad = [a_sentence(n, attending_to(5, 4, 3, 2, 1, 0), 20) for n in range(11, 17)]
        assert all(number < 10 for number in selected_numbers(select_examples(good + bad), CHANGE))

    def test_ties_are_broken_by_length_and_then_by_number(self) -> None:
        sentences = [a_sentence(n, attending_to(*range(size))) for n, size in [(1, 2), (3, 4), (2, 4)]]
        assert [each.number for _, each in CRITERIA[5].candidates(sentences)] == [2, 3, 1]

    def test_each_criterion_selects_five_and_no_sentence_twice(self) -> None:
        chosen = select_examples(random_set(300))
        assert Counter(each.criterion.title for each in chosen) == {reason.title: 5 for reason in CRITERIA}
        assert len({each.sentence.number for each in chosen}) == len(chosen) == 35
        order = [each.criterion for each in chosen]
        assert order == sorted(order, key=CRITERIA.index)

    def test_the_order_of_the_sentences_does_not_matter(self) -> None:
        sentences = random_set(60)
        first = [(each.criterion.title, each.value, each.sentence.number) for each in select_examples(sentences)]
        again = [(each.criterion.title, each.value, each.sentence.number) for each in select_examples(sentences[::-1])]
        assert first == again

    @given(st.integers(0, 12), st.integers(0, 6), st.integers(0, 100))
    def test_any_number_of_sentences_is_accepted(self, count: int, each: int, seed: int) -> None:
        sentences = random_set(count, seed)
        chosen = select_examples(sentences, each)
        assert len({one.sentence.number for one in chosen}) == len(chosen) <= min(count, 7 * each)
        if each * 2 >= count:
            assert len(chosen) == count, "the score criteria select all that are left"

    def test_without_attention_only_score_criteria_select(self) -> None:
        sentences = [replace(each, weights=torch.zeros_like(each.weights)) for each in random_set(50)]
        assert Counter(each.criterion.title for each in select_examples(sentences)) == {BEST: 5, WORST: 5}

    def test_empty_and_truncated_outputs_and_undefined_scores_are_accepted(self) -> None:
        nothing = ExampleSentence(1, "x", "", "y", (), ("x", "<end>"), (), (), torch.zeros(0, 2), 0.0)
        only_end = ExampleSentence(2, "x", "", "y", ("<end>",), ("x", "<end>"), (), (), torch.tensor([[0.0, 1.0]]), 0.0)
        lost = ExampleSentence(3, "", "", "", (), (), (), (), torch.zeros(0, 0), nan)
        whole = a_sentence(4, attending_to(0, 1, 2, 3, 4))
        unfinished = replace(whole, number=5, tokens=whole.tokens[:-1], weights=whole.weights[:-1])
        chosen = select_examples([nothing, only_end, lost, whole, unfinished])
        assert sorted(each.sentence.number for each in chosen) == [1, 2, 4, 5]
