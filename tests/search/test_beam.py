"""Beams against searches in plain Python: an exhaustive one, and one that never stops early."""

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
MAX_LENGTH = 6
BANNED = Constraints().banned_tokens
RULES = {
    "free": Constraints(),
    "prefix": Constraints(prefix=(6, 6)),
    "min-length": Constraints(min_length=2),
    "unrepeated": Constraints(block_ngrams=2),
    "stuck": Constraints(block_ngrams=1, min_length=4),  # few outputs with three tokens
    "penalised": Constraints(repetition_penalty=2.0),
    "all": Constraints((*BANNED, 4), (6, 5), 3, 2, 1.5),
}
WIDTHS = 1, 2, 3, 4


def unfilled_width(longest: int) -> int:
    """A width that a beam does not fill: three tokens and an end can be generated."""
    return 4 * 3 ** (longest - 1)


# A beam that is wide enough finds the best output


def compare_with_exhaustive_search(bench, naive, setting, longest: list[int]) -> None:
    rows = bench.rows[: len(longest)]
    for row, limit, results in zip(rows, longest, bench.search(rows, setting, longest=longest), strict=True):
        expected = naive.exhaustive(bench.next_log_probs(row, setting.n_models), setting, limit)
        assert expected.clear, "choose other sources"
        expected.assert_matches(results)


@pytest.mark.parametrize("length_penalty", PENALTIES)
def test_a_wide_beam_equals_exhaustive_search(bench, naive, search_setting, length_penalty: float) -> None:
    for n_best in (1, 5) if length_penalty in (0.0, 0.6, 2.0) else (2,):
        compare_with_exhaustive_search(
            bench, naive, search_setting(unfilled_width(4), n_best, length_penalty), [4, 2, 1, 3]
        )


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_a_wide_beam_equals_exhaustive_search_under_constraints(
    bench, naive, search_setting, rules: Constraints
) -> None:
    compare_with_exhaustive_search(bench, naive, search_setting(unfilled_width(5), 5, 0.6, rules), [5, 1])


@pytest.mark.parametrize("rules", [Constraints(), RULES["penalised"]], ids=["free", "penalised"])
def test_a_wide_beam_equals_exhaustive_search_of_an_ensemble(bench, naive, search_setting, rules: Constraints) -> None:
    compare_with_exhaustive_search(bench, naive, search_setting(unfilled_width(4), 5, 1.0, rules, n_models=2), [4, 2])


@pytest.mark.parametrize("length_penalty", PENALTIES)
@pytest.mark.parametrize("n_best", [1, 2, 5])
@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_a_wide_beam_equals_exhaustive_search_of_a_table(
    table, naive, search_setting, rules: Constraints, n_best: int, length_penalty: float
) -> None:
    setting, limits = search_setting(unfilled_width(4), n_best, length_penalty, rules), [4, 3, 1]
    drawn = table.drawn(seed=1)
    for source, (limit, results) in enumerate(zip(limits, drawn.search(setting, limits), strict=True)):
        expected = naive.exhaustive(drawn.next_log_probs(source), setting, limit)
        assert expected.clear, "choose another seed"
        expected.assert_matches(results)


def test_a_repetition_penalty_changes_the_ranking_but_not_the_score(table, search_setting) -> None:
    """AA is more likely than AB by less than the penalty."""
    fixed = table.fixed({(): {A: 1.0}, (A,): {A: 0.6, B: 0.4}}, otherwise={END: 1.0})
    for penalty, second in ((1.4, A), (1.6, B)):
        setting = search_setting(3, 2, rules=Constraints(repetition_penalty=penalty))
        ((first, other),) = fixed.search(setting, [5])
        assert first.tokens == [A, second, END]
        assert (math.exp(first.score), math.exp(other.score)) == pytest.approx((0.6, 0.4)[:: 1 if second == A else -1])


# Early stopping does not change the result


def compare_with_naive_beams(naive, setting, next_log_probs, results, longest: list[int]) -> int:
    """Compare with naive beams; return the number of results that rounding cannot change."""
    expected = [naive.beam(each, setting, limit) for each, limit in zip(next_log_probs, longest, strict=True)]
    for each, hypotheses in zip(expected, results, strict=True):
        if each.clear:
            each.assert_matches(hypotheses)
    return sum(each.clear for each in expected)


@pytest.mark.parametrize(("width", "length_penalty"), [(1, 0.6), (2, 0.0), (2, 1.0), (3, 0.3), (4, 0.6), (4, 2.0)])
def test_a_beam_equals_one_without_early_stopping(bench, naive, search_setting, width, length_penalty) -> None:
    setting, rows, longest = search_setting(width, 2, length_penalty), bench.rows[:6], [6, 3, 6, 5, 6, 1]
    next_log_probs, results = [bench.next_log_probs(row) for row in rows], bench.search(rows, setting, longest=longest)
    assert compare_with_naive_beams(naive, setting, next_log_probs, results, longest) >= 5, "of 6"


def test_a_beam_equals_one_without_early_stopping_in_every_setting(bench, naive, beam) -> None:
    next_log_probs = [bench.next_log_probs(row, beam.n_models) for row in bench.rows]
    assert compare_with_naive_beams(naive, beam, next_log_probs, bench.results(beam), [MAX_LENGTH] * 8) >= 7, "of 8"


@pytest.mark.parametrize("seed", range(20))
def test_a_beam_equals_one_without_early_stopping_on_many_tables(table, naive, search_setting, seed: int) -> None:
    """Long outputs, and often an early end."""
    drawn, limits, clear = table.drawn(seed, 6, spread=2.5), [12, 9], 0
    for width, length_penalty in product(WIDTHS, PENALTIES):
        setting = search_setting(width, 1 + seed % 3, length_penalty)
        next_log_probs, results = [drawn.next_log_probs(0), drawn.next_log_probs(1)], drawn.search(setting, limits)
        clear += compare_with_naive_beams(naive, setting, next_log_probs, results, limits)
    assert clear >= 35, "of 40"


@st.composite
def search_problems(draw: st.DrawFn):
    """A table, search settings, and maximum lengths."""
    tokens = draw(st.integers(5, 8))
    ordinary = st.integers(4, tokens - 1)
    rules = Constraints(
        prefix=tuple(draw(st.lists(ordinary, max_size=2))),
        min_length=draw(st.integers(0, 3)),
        block_ngrams=draw(st.integers(0, 3)),
        repetition_penalty=draw(st.sampled_from([1.0, 1.3, 4.0])),
    )
    chosen_settings = draw(st.integers(1, 6)), draw(st.integers(1, 8)), draw(st.sampled_from(PENALTIES)), rules
    options = {"spread": draw(st.sampled_from([0.5, 1.5, 4.0])), "forgetful": draw(st.booleans())}
    limits = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    return draw(st.integers(0, 2**32)), tokens, options, chosen_settings, limits


@settings(derandomize=True)
@given(search_problems())
def test_a_beam_equals_the_naive_beam_for_random_options(table, naive, search_setting, problem) -> None:
    seed, tokens, options, chosen_settings, limits = problem
    drawn, setting = table.drawn(seed, tokens, **options), search_setting(*chosen_settings)
    expected = [naive.beam(drawn.next_log_probs(source), setting, limit) for source, limit in enumerate(limits)]
    assume(all(each.clear for each in expected))
    for each, results in zip(expected, drawn.search(setting, limits), strict=True):
        each.assert_matches(results)


# When to stop


def test_search_does_not_stop_at_the_first_finished_hypothesis(table, search_setting) -> None:
    fixed = table.fixed({(): {A: 0.5, END: 0.4, B: 0.1}, (A,): {B: 0.9, END: 0.1}}, otherwise={END: 1.0})
    for n_best, expected in ((1, [[A, B, END]]), (2, [[A, B, END], [END]])):
        (results,) = fixed.search(search_setting(2, n_best), [9])
        assert [each.tokens for each in results] == expected


def test_search_does_not_stop_while_a_longer_hypothesis_may_win_by_its_length(table, search_setting) -> None:
    """END is the best that is finished, and better than what is open, by total and by rank; A continues at no cost."""
    fixed = table.fixed({(): {END: 0.5, A: 0.4, B: 0.1}, **{(A,) * n: {A: 1.0} for n in range(1, 6)}}, {END: 1.0})
    for length_penalty, expected in ((0.0, [END]), (1.0, [A] * 6 + [END])):
        ((best,),) = fixed.search(search_setting(2, length_penalty=length_penalty), [9])
        assert best.tokens == expected


def test_search_does_not_stop_with_fewer_finished_hypotheses_than_n_best(table, search_setting) -> None:
    fixed = table.fixed({(): {END: 0.9, A: 0.1}, (A,): {END: 0.2, A: 0.8}}, otherwise={END: 1.0})
    ((*three,),) = fixed.search(search_setting(2, n_best=3), [9])
    assert [each.tokens for each in three] == [[END], [A, A, END], [A, END]]


@pytest.mark.parametrize("length_penalty", PENALTIES)
@pytest.mark.parametrize("longest", [10, 30])
def test_search_stops_as_soon_as_no_open_hypothesis_can_win(
    table, search_setting, length_penalty: float, longest: int
) -> None:
    """Open hypotheses lose half of their probability at each step; their maximum length bounds their rank."""
    fixed = table.fixed({(): {END: 0.6, A: 0.4}}, otherwise={A: 0.5, B: 0.5})
    ((best,),) = fixed.search(search_setting(2, length_penalty=length_penalty), [longest])
    assert best.tokens == [END]
    most = ((5 + longest) / 6) ** length_penalty
    steps = 1 + sum((math.log(0.4) + step * math.log(0.5)) / most > math.log(0.6) for step in range(longest))
    assert len(fixed.rows) == steps
    assert steps < longest, "stopping is tested"


def test_a_sentence_with_a_lower_maximum_length_stops_earlier(table, search_setting) -> None:
    fixed = table.fixed({(): {END: 0.6, A: 0.4}}, otherwise={A: 0.5, B: 0.5})
    fixed.search(search_setting(2, length_penalty=1.0), [3, 30, 10])
    # By (5 + longest) / 6: more than ln 0.6 = -0.511 may be reached from ln 0.4 by 1.33, and halved by 2.5 and 5.83.
    assert fixed.rows == [3, 2 * 2, 2 * 1, 2 * 1]
