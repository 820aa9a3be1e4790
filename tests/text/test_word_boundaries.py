import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from regard.text.word_boundaries import bare, token_text, word_attention, word_spans, word_starts

GERMAN = ["▁Ein", "▁Mann", "▁spiel", "t", "▁Git", "ar", "re", ".", "<end>"]
BEGINS = [True, True, True, False, True, False, False, True, True]


@st.composite
def cut_maps(draw: st.DrawFn) -> tuple[Tensor, list[bool], list[bool]]:
    """Weights [output, source] whose rows sum to 1, and the word starts of both, which may be missing."""
    outputs, sources = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    weights = torch.rand(outputs, sources, generator=torch.Generator().manual_seed(draw(st.integers(0, 2**32))))
    starts = draw(st.sampled_from([[], st.lists(st.booleans(), min_size=outputs, max_size=outputs)]))
    source_starts = draw(st.sampled_from([[], st.lists(st.booleans(), min_size=sources, max_size=sources)]))
    drawn = [each if isinstance(each, list) else draw(each) for each in (starts, source_starts)]
    return (weights / weights.sum(1, keepdim=True)).double(), drawn[0], drawn[1]


def test_words_are_spelled_from_their_subwords() -> None:
    assert token_text(GERMAN, BEGINS) == ["Ein", "Mann", "spielt", "Gitarre", ".", "<end>"]


@pytest.mark.parametrize("starts", [None, [], ()])
def test_without_starts_each_token_is_a_word(starts) -> None:
    assert token_text(["▁ab", "c", "<end>"], starts) == ["ab", "c", "<end>"]
    assert word_spans(starts, 3) == [range(0, 1), range(1, 2), range(2, 3)]


@pytest.mark.parametrize(
    ("tokens", "starts", "words"),
    [
        (["ab", "<end>"], [True, False], ["ab", "<end>"]),
        (["<unknown>", "s", "t"], [True, False, False], ["<unknown>", "st"]),
        (["ab", "c"], [False, False], ["abc"]),
        (["▁", "Ω"], [True, False], ["Ω"]),
        (["▁", "▁x"], [True, True], ["▁", "x"]),
        (["▁Haus", "es", ".", "<end>"], [True, False, False, False], ["Hauses", ".", "<end>"]),
        (["▁ja", "!", "“", "▁sagt"], [True, False, False, True], ["ja", "!", "“", "sagt"]),
        (["▁T", "-", "Shirt", "s"], [True, False, False, False], ["T-Shirts"]),
        (["▁क", "ि"], [True, False], ["कि"]),  # a vowel sign is no punctuation
        (["▁x", "<", ">"], [True, False, False], ["x", "<", ">"]),
        ([], [], []),
    ],
)
def test_ends_and_trailing_punctuation_are_words_of_their_own_and_the_first_token_starts_a_word(
    tokens, starts, words
) -> None:
    assert token_text(tokens, starts) == words


def test_space_markers_are_removed() -> None:
    assert [bare(text) for text in ("￭.", "(￭", "￭-￭", "￭")] == [".", "(", "-", "￭"]
    assert [bare(text) for text in ("▁a▁b", "▁▁a", "a▁", "▁", "")] == ["a▁b", "▁a", "a▁", "▁", ""]


@pytest.mark.parametrize("starts", [[True], [True, True, True]])
def test_starts_that_do_not_fit_are_refused(starts: list[bool]) -> None:
    with pytest.raises(ValueError, match="do not fit 2 tokens"):
        word_spans(starts, 2)
    with pytest.raises(ValueError, match="do not fit 2 tokens"):
        word_starts(["a", "b"], starts)


def test_columns_are_summed_and_rows_averaged() -> None:
    weights = torch.tensor([[0.1, 0.2, 0.7], [0.5, 0.1, 0.4], [1.0, 0.0, 0.0]])
    by_words = word_attention(weights, [True, False, True], [True, True, False])
    torch.testing.assert_close(by_words, torch.tensor([[0.3, 0.7], [1.0, 0.0]]))


@given(cut_maps())
def test_rows_sum_to_one_and_are_not_negative(case: tuple[Tensor, list[bool], list[bool]]) -> None:
    weights, starts, source_starts = case
    by_words = word_attention(weights, starts, source_starts)
    assert by_words.shape == (len(word_spans(starts, len(weights))), len(word_spans(source_starts, weights.shape[1])))
    assert (by_words >= 0).all()
    torch.testing.assert_close(by_words.sum(1), torch.ones(len(by_words), dtype=torch.double))


@given(cut_maps())
def test_each_entry_is_the_mean_over_output_subwords_of_the_sum_over_source_subwords(case) -> None:
    weights, starts, source_starts = case
    by_words = word_attention(weights, starts, source_starts)
    for w, word in enumerate(word_spans(starts, len(weights))):
        for v, source_word in enumerate(word_spans(source_starts, weights.shape[1])):
            block = weights[word.start : word.stop, source_word.start : source_word.stop]
            torch.testing.assert_close(by_words[w, v], block.sum() / len(word))


@given(cut_maps())
def test_words_of_one_subword_do_not_change_the_map(case) -> None:
    weights = case[0]
    assert torch.equal(word_attention(weights, None, ()), weights)
    assert torch.equal(word_attention(weights, [True] * len(weights), [True] * weights.shape[1]), weights)


@given(st.lists(st.booleans()), st.lists(st.booleans()))
def test_every_token_is_in_exactly_one_word_in_order(starts: list[bool], other: list[bool]) -> None:
    assert [token for word in word_spans(starts, len(starts)) for token in word] == list(range(len(starts)))
    assert all(word_spans(starts, len(starts)))
    assert word_attention(torch.zeros(len(starts), len(other)), starts, other).shape == (
        len(word_spans(starts, len(starts))),
        len(word_spans(other, len(other))),
    )
