"""BLEU and chrF, computed by sacreBLEU and reported with its signature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.helpers import extract_word_ngrams


def bleu_metric(*, max_ngram_order: int = 4, floor: float | None = None, lowercase: bool = False) -> BLEU:
    """sacreBLEU's BLEU with its defaults, except for the options given.

    Args:
        max_ngram_order: The longest n-grams, in words.
        floor: Replaces an n-gram count of 0; None: exponential smoothing.
        lowercase: Ignore case.
    """
    return BLEU(
        max_ngram_order=max_ngram_order,
        lowercase=lowercase,
        smooth_method="exp" if floor is None else "floor",
        smooth_value=floor,
        force=True,  # no warning about texts with a space before the full stop, which some tasks have
    )


def chrf_metric() -> CHRF:
    """sacreBLEU's chrF2, with its defaults."""
    return CHRF()


@dataclass(frozen=True)
class BleuScore:
    """A corpus BLEU score and its parts: P_n = count / total for n-grams of 1, 2, … words.

    Args:
        score: BLEU, 0 to 100.
        precisions: P_n, 0 to 100.
        counts: Number of n-grams of the hypotheses that are also in the references.
        totals: Number of n-grams of the hypotheses.
        brevity_penalty: BP.
        length: Words of the hypotheses.
        reference_length: Words of the references.
        signature: sacreBLEU's signature.
    """

    score: float
    precisions: list[float]
    counts: list[int]
    totals: list[int]
    brevity_penalty: float
    length: int
    reference_length: int
    signature: str


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    max_ngram_order: int = 4,
    floor: float | None = None,
    lowercase: bool = False,
) -> BleuScore:
    """Corpus BLEU = BP · (Π P_n)^(1/N) over n-grams of up to N words.

    An n-gram precision of 0 makes the score 0. sacreBLEU's default remedy is exponential smoothing.

    Args:
        hypotheses: The outputs.
        references: One reference per output.
        max_ngram_order: N.
        floor: Replaces an n-gram count of 0; None: exponential smoothing.
        lowercase: Ignore case.
    """
    metric = bleu_metric(max_ngram_order=max_ngram_order, floor=floor, lowercase=lowercase)
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return BleuScore(
        score=result.score,
        precisions=result.precisions,
        counts=result.counts,
        totals=result.totals,
        brevity_penalty=result.bp,
        length=result.sys_len,
        reference_length=result.ref_len,
        signature=str(metric.get_signature()),
    )


def ngrams(text: str, *, max_ngram_order: int = 4) -> list[dict[str, int]]:
    """Counts of the n-grams of 1, 2, … words in a text, tokenized as sacreBLEU does.

    Args:
        text: One sentence.
        max_ngram_order: The longest n-grams, in words.
    """
    words = bleu_metric().tokenizer(text.rstrip()).split()
    return [dict(extract_word_ngrams(words, size)) for size in range(1, max_ngram_order + 1)]


@dataclass(frozen=True)
class ChrfScore:
    """A corpus chrF2 score with its signature.

    Args:
        score: chrF2, 0 to 100.
        signature: sacreBLEU's signature.
    """

    score: float
    signature: str


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> ChrfScore:
    """Corpus chrF2: the F-score of n-grams of up to 6 characters, with recall weighted twice.

    Args:
        hypotheses: The outputs.
        references: One reference per output.
    """
    metric = chrf_metric()
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return ChrfScore(result.score, str(metric.get_signature()))


def sentence_chrf(hypothesis: str, references: Sequence[str]) -> float:
    """chrF2 of one sentence, 0 to 100, against the nearest of its references.

    Args:
        hypothesis: The output.
        references: One reference or several.
    """
    return float(chrf_metric().sentence_score(hypothesis, list(references)).score)
