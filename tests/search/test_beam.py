"""Beams against searches in plain Python: one that looks at everything, and one that never stops early."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from regard.search import Constraints
from regard.text import Vocabulary

PENALTIES = (0.0, 0.3, 0.6, 1.0, 2.0)
END, A, B = Vocabulary.end, 4, 5
LONGEST = 6
NEVER = Constraints().banned_tokens
RULES = {
    "free": Constraints(),
    "prefix": Constraints(prefix=(6, 6)),
    "min-length": Constraints(min_length=2),
    "unrepeated": Constraints(block_ngrams=2),
    "stuck": Constraints(block_ngrams=1, min_length=4),  # three tokens are soon said
    "penalised": Constraints(repetition_penalty=2.0),
    "all": Constraints((*NEVER, 4), (6, 5), 3, 2, 1.5),
}
WIDTHS = 1, 2, 3, 4


def everything(longest: int) -> int:
    """A width that a beam does not fill: three tokens and an end may be said."""
    return 4 * 3 ** (longest - 1)


# A beam that is wide enough finds the best there is


def compare_with_everything(bench, naive, manner, longest: list[int]) -> None:
    rows = bench.rows[: len(longest)]
    for row, limit, found in zip(rows, longest, bench.search(rows, manner, longest=longest), strict=True):
        expected = naive.everything(bench.after(row, manner.voters), manner, limit)
        assert expected.clear, "choose other sources"
        expected.check(found)


@pytest.mark.parametrize("length_penalty", PENALTIES)
def test_a_wide_beam_finds_the_best_of_everything(bench, naive, manner_of, length_penalty: float) -> None:
    for n_best in (1, 5) if length_penalty in (0.0, 0.6, 2.0) else (2,):
        compare_with_everything(bench, naive, manner_of(everything(4), n_best, length_penalty), [4, 2, 1, 3])


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_a_wide_beam_finds_the_best_of_what_is_allowed(bench, naive, manner_of, rules: Constraints) -> None:
    compare_with_everything(bench, naive, manner_of(everything(5), 5, 0.6, rules), [5, 1])


@pytest.mark.parametrize("rules", [Constraints(), RULES["penalised"]], ids=["free", "penalised"])
def test_a_wide_beam_finds_the_best_by_the_mean_of_several_votes(bench, naive, manner_of, rules: Constraints) -> None:
    compare_with_everything(bench, naive, manner_of(everything(4), 5, 1.0, rules, voters=2), [4, 2])


@pytest.mark.parametrize("length_penalty", PENALTIES)
@pytest.mark.parametrize("n_best", [1, 2, 5])
@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_of_a_table_too(table, naive, manner_of, rules: Constraints, n_best: int, length_penalty: float) -> None:
    manner, limits = manner_of(everything(4), n_best, length_penalty, rules), [4, 3, 1]
    drawn = table.drawn(seed=1)
    for source, (limit, found) in enumerate(zip(limits, drawn.search(manner, limits), strict=True)):
        expected = naive.everything(drawn.after(source), manner, limit)
        assert expected.clear, "choose another seed"
        expected.check(found)


def test_a_repetition_penalty_decides_and_is_not_reported(table, manner_of) -> None:
    """AA is likelier than AB by less than the penalty."""
    fixed = table.fixed({(): {A: 1.0}, (A,): {A: 0.6, B: 0.4}}, otherwise={END: 1.0})
    for penalty, second in ((1.4, A), (1.6, B)):
        manner = manner_of(3, 2, rules=Constraints(repetition_penalty=penalty))
        ((first, other),) = fixed.search(manner, [5])
        assert first.tokens == [A, second, END]
        assert (math.exp(first.score), math.exp(other.score)) == pytest.approx((0.6, 0.4)[:: 1 if second == A else -1])


# A beam that stops early finds what one that never does finds


def compare_with_naive_beams(naive, manner, after, found, longest: list[int]) -> int:
    """How many were clear enough to be compared."""
    expected = [naive.beam(each, manner, limit) for each, limit in zip(after, longest, strict=True)]
    for each, hypotheses in zip(expected, found, strict=True):
        if each.clear:
            each.check(hypotheses)
    return sum(each.clear for each in expected)


@pytest.mark.parametrize(("width", "length_penalty"), [(1, 0.6), (2, 0.0), (2, 1.0), (3, 0.3), (4, 0.6), (4, 2.0)])
def test_a_beam_finds_what_one_that_never_stops_finds(bench, naive, manner_of, width, length_penalty) -> None:
    manner, rows, longest = manner_of(width, 2, length_penalty), bench.rows[:6], [6, 3, 6, 5, 6, 1]
    after, found = [bench.after(row) for row in rows], bench.search(rows, manner, longest=longest)
    assert compare_with_naive_beams(naive, manner, after, found, longest) >= 5, "of 6"


def test_it_does_in_every_manner(bench, naive, beam) -> None:
    after = [bench.after(row, beam.voters) for row in bench.rows]
    assert compare_with_naive_beams(naive, beam, after, bench.found(beam), [LONGEST] * 8) >= 7, "of 8"


@pytest.mark.parametrize("seed", range(20))
def test_it_does_with_many_tables(table, naive, manner_of, seed: int) -> None:
    """Long outputs, and often an early end."""
    drawn, limits, clear = table.drawn(seed, 6, spread=2.5), [12, 9], 0
    for width, length_penalty in product(WIDTHS, PENALTIES):
        manner = manner_of(width, 1 + seed % 3, length_penalty)
        after, found = [drawn.after(0), drawn.after(1)], drawn.search(manner, limits)
        clear += compare_with_naive_beams(naive, manner, after, found, limits)
    assert clear >= 35, "of 40"


@st.composite
def questions(draw: st.DrawFn):
    """A table, a manner, and limits."""
    tokens = draw(st.integers(5, 8))
    say = st.integers(4, tokens - 1)
    rules = Constraints(
        prefix=tuple(draw(st.lists(say, max_size=2))),
        min_length=draw(st.integers(0, 3)),
        block_ngrams=draw(st.integers(0, 3)),
        repetition_penalty=draw(st.sampled_from([1.0, 1.3, 4.0])),
    )
    wishes = draw(st.integers(1, 6)), draw(st.integers(1, 8)), draw(st.sampled_from(PENALTIES)), rules
    options = {"spread": draw(st.sampled_from([0.5, 1.5, 4.0])), "forgetful": draw(st.booleans())}
    limits = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    return draw(st.integers(0, 2**32)), tokens, options, wishes, limits


@settings(derandomize=True)
@given(questions())
def test_a_beam_is_the_naive_one_whatever_is_asked(table, naive, manner_of, question) -> None:
    seed, tokens, options, wishes, limits = question
    drawn, manner = table.drawn(seed, tokens, **options), manner_of(*wishes)
    expected = [naive.beam(drawn.after(source), manner, limit) for source, limit in enumerate(limits)]
    assume(all(each.clear for each in expected))
    for each, found in zip(expected, drawn.search(manner, limits), strict=True):
        each.check(found)


# When to stop


def test_it_does_not_stop_at_the_first_that_finishes(table, manner_of) -> None:
    fixed = table.fixed({(): {A: 0.5, END: 0.4, B: 0.1}, (A,): {B: 0.9, END: 0.1}}, otherwise={END: 1.0})
    for n_best, expected in ((1, [[A, B, END]]), (2, [[A, B, END], [END]])):
        (found,) = fixed.search(manner_of(2, n_best), [9])
        assert [each.tokens for each in found] == expected


def test_it_does_not_stop_while_a_longer_one_may_win_by_its_length(table, manner_of) -> None:
    """END is the best that is finished, and better than what is open, by total and by rank; A goes on at no cost."""
    fixed = table.fixed({(): {END: 0.5, A: 0.4, B: 0.1}, **{(A,) * n: {A: 1.0} for n in range(1, 6)}}, {END: 1.0})
    for length_penalty, expected in ((0.0, [END]), (1.0, [A] * 6 + [END])):
        ((best,),) = fixed.search(manner_of(2, length_penalty=length_penalty), [9])
        assert best.tokens == expected


def test_it_does_not_stop_when_fewer_are_finished_than_are_wanted(table, manner_of) -> None:
    fixed = table.fixed({(): {END: 0.9, A: 0.1}, (A,): {END: 0.2, A: 0.8}}, otherwise={END: 1.0})
    ((*three,),) = fixed.search(manner_of(2, n_best=3), [9])
    assert [each.tokens for each in three] == [[END], [A, A, END], [A, END]]


@pytest.mark.parametrize("length_penalty", PENALTIES)
@pytest.mark.parametrize("longest", [10, 30])
def test_it_stops_as_soon_as_nothing_can_win(table, manner_of, length_penalty: float, longest: int) -> None:
    """What goes on loses half of its chance at each step; the longest that it may become gives it hope."""
    fixed = table.fixed({(): {END: 0.6, A: 0.4}}, otherwise={A: 0.5, B: 0.5})
    ((best,),) = fixed.search(manner_of(2, length_penalty=length_penalty), [longest])
    assert best.tokens == [END]
    most = ((5 + longest) / 6) ** length_penalty
    steps = 1 + sum((math.log(0.4) + step * math.log(0.5)) / most > math.log(0.6) for step in range(longest))
    assert len(fixed.rows) == steps
    assert steps < longest, "a test of stopping"


def test_a_sentence_with_less_room_stops_earlier(table, manner_of) -> None:
    fixed = table.fixed({(): {END: 0.6, A: 0.4}}, otherwise={A: 0.5, B: 0.5})
    fixed.search(manner_of(2, length_penalty=1.0), [3, 30, 10])
    # By (5 + longest) / 6: more than ln 0.6 = -0.511 may be reached from ln 0.4 by 1.33, and halved by 2.5 and 5.83.
    assert fixed.rows == [3, 2 * 2, 2 * 1, 2 * 1]
