"""BLEU against the worked example of the Week 4 slides, and chrF against sacreBLEU."""

from __future__ import annotations

import math

import pytest
import sacrebleu

from regard.evaluation.bleu import bleu, chrf, ngrams, sentence_chrf

HYPOTHESIS, REFERENCE = "Le chat sur tapis", "Le chat est sur le tapis"


def test_the_example_of_the_week_4_slides() -> None:
    """P_1 = 4/4, P_2 = 1/3, P_3 = 0/2 put at 0.01, a brevity penalty of e^(1−6/4).

    sacreBLEU puts a floor under the *count* of matches, so a precision of 0.01 out of 2 trigrams is a floor of 0.02.
    """
    result = bleu([HYPOTHESIS], [REFERENCE], max_ngram_order=3, floor=0.02)
    assert result.precisions == pytest.approx([100.0, 100 / 3, 1.0])
    assert result.brevity_penalty == pytest.approx(math.exp(1 - 6 / 4))
    assert round(result.brevity_penalty, 4) == 0.6065
    geometric_mean = math.prod(precision / 100 for precision in result.precisions) ** (1 / 3)
    assert round(geometric_mean, 4) == 0.1494  # the Week 4 slides print 0.22, which is incorrect
    assert round(result.score / 100, 4) == 0.0906  # the Week 4 slides print 0.13, which is incorrect


def test_the_components_of_a_score() -> None:
    result = bleu([HYPOTHESIS], [REFERENCE], max_ngram_order=3)
    assert (result.counts, result.totals) == ([4, 1, 0], [4, 3, 2])
    assert (result.length, result.reference_length) == (4, 6)


def test_ngrams_are_clipped_and_counted_as_in_sacrebleu() -> None:
    assert ngrams("a b, a b", max_ngram_order=2) == [{"a": 2, "b": 2, ",": 1}, {"a b": 2, "b ,": 1, ", a": 1}]
    text = "Two dogs are running, running away."
    result = bleu([text], ["something else"])
    assert [sum(each.values()) for each in ngrams(text)] == result.totals == [8, 7, 6, 5]


def test_a_perfect_text_scores_100() -> None:
    assert bleu([REFERENCE], [REFERENCE]).score == pytest.approx(100.0)


def test_nothing_in_common_scores_0() -> None:
    assert bleu(["a b c d e"], ["v w x y z"]).score == 0.0


def test_texts_are_counted_together_not_averaged() -> None:
    """P_1 = 5/6 and P_2 = 3/4 over both texts; the mean of the two scores would be another number."""
    both = bleu(["a b c", "a b x"], ["a b c", "a b c"], max_ngram_order=2)
    assert both.precisions == pytest.approx([500 / 6, 75.0])
    assert both.score == pytest.approx(100 * math.sqrt(5 / 6 * 3 / 4))


@pytest.mark.parametrize(("lowercase", "score"), [(False, 0.0), (True, 100.0)])
def test_case_counts_by_default(lowercase: bool, score: float) -> None:
    assert bleu(["LE CHAT EST LÀ"], ["le chat est là"], lowercase=lowercase).score == pytest.approx(score)


def test_the_signature_states_the_settings() -> None:
    plain = bleu([HYPOTHESIS], [REFERENCE]).signature
    other = bleu([HYPOTHESIS], [REFERENCE], floor=0.02, lowercase=True).signature
    for part in ("case:mixed", "smooth:exp", "tok:13a", "version:"):
        assert part in plain
    for part in ("case:lc", "smooth:floor[0.02]"):
        assert part in other


TEXTS = ["A man is sleeping.", "Two dogs run.", ""]
REFERENCES = ["A man sleeps.", "Two dogs are running.", "Something."]


def test_chrf_equals_sacrebleu() -> None:
    result = chrf(TEXTS, REFERENCES)
    assert result.score == sacrebleu.corpus_chrf(TEXTS, [REFERENCES]).score
    assert 10 < result.score < 90
    for part in ("nrefs:1", "case:mixed", "nc:6", "nw:0", "space:no", "version:"):
        assert part in result.signature


def test_chrf_is_between_0_and_100() -> None:
    assert chrf(REFERENCES, REFERENCES).score == 100
    assert chrf(["abc"], ["xyz"]).score == 0


@pytest.mark.parametrize(("text", "reference"), list(zip(TEXTS, REFERENCES, strict=True)))
def test_sentence_chrf_equals_sacrebleu(text: str, reference: str) -> None:
    assert sentence_chrf(text, [reference]) == sacrebleu.sentence_chrf(text, [reference]).score


def test_a_sentence_is_compared_with_the_nearest_reference() -> None:
    near, far = "Two dogs are running.", "Some pets hurry."
    one = sentence_chrf("Two dogs run.", [near])
    assert one > sentence_chrf("Two dogs run.", [far])
    assert sentence_chrf("Two dogs run.", [far, near]) == sentence_chrf("Two dogs run.", [near, far]) == one
