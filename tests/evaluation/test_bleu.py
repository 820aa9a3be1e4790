"""BLEU against the slide deck's worked example."""

from __future__ import annotations

import math

import pytest

from regard.evaluation.bleu import bleu

HYPOTHESIS, REFERENCE = "Le chat sur tapis", "Le chat est sur le tapis"


def test_the_slide_decks_example() -> None:
    """P_1 = 4/4, P_2 = 1/3, P_3 = 0/2 put at 0.01, a brevity penalty of e^(1−6/4).

    sacreBLEU puts a floor under the *count* of matches, so a precision of 0.01 out of 2 trigrams is a floor of 0.02.
    """
    result = bleu([HYPOTHESIS], [REFERENCE], longest=3, floor=0.02)
    assert result.precisions == pytest.approx([100.0, 100 / 3, 1.0])
    assert result.brevity_penalty == pytest.approx(math.exp(1 - 6 / 4))
    assert round(result.brevity_penalty, 4) == 0.6065
    geometric_mean = math.prod(precision / 100 for precision in result.precisions) ** (1 / 3)
    assert round(geometric_mean, 4) == 0.1494  # the slides print 0.22, which is wrong
    assert round(result.score / 100, 4) == 0.0906  # the slides print 0.13, which is wrong


def test_a_perfect_text_scores_100() -> None:
    assert bleu([REFERENCE], [REFERENCE]).score == pytest.approx(100.0)


def test_nothing_in_common_scores_0() -> None:
    assert bleu(["a b c d e"], ["v w x y z"]).score == 0.0


def test_texts_are_counted_together_not_averaged() -> None:
    """P_1 = 5/6 and P_2 = 3/4 over both texts; the mean of the two scores would be another number."""
    both = bleu(["a b c", "a b x"], ["a b c", "a b c"], longest=2)
    assert both.precisions == pytest.approx([500 / 6, 75.0])
    assert both.score == pytest.approx(100 * math.sqrt(5 / 6 * 3 / 4))


@pytest.mark.parametrize(("lowercase", "score"), [(False, 0.0), (True, 100.0)])
def test_case_counts_unless_told_otherwise(lowercase: bool, score: float) -> None:
    assert bleu(["LE CHAT EST LÀ"], ["le chat est là"], lowercase=lowercase).score == pytest.approx(score)


def test_the_signature_says_how_it_was_computed() -> None:
    plain = bleu([HYPOTHESIS], [REFERENCE]).signature
    other = bleu([HYPOTHESIS], [REFERENCE], floor=0.02, lowercase=True).signature
    for part in ("case:mixed", "smooth:exp", "tok:13a", "version:"):
        assert part in plain
    for part in ("case:lc", "smooth:floor[0.02]"):
        assert part in other
