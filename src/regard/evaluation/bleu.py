"""BLEU and chrF, by sacreBLEU, with the signature that says how they were computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.helpers import extract_word_ngrams


def bleu_metric(*, longest: int = 4, floor: float | None = None, lowercase: bool = False) -> BLEU:
    """sacreBLEU's BLEU, with its defaults but for what is asked for."""
    return BLEU(
        max_ngram_order=longest,
        lowercase=lowercase,
        smooth_method="exp" if floor is None else "floor",
        smooth_value=floor,
        force=True,  # we know that these texts may come with spaces before their full stops
    )


def chrf_metric() -> CHRF:
    """sacreBLEU's chrF2, with its defaults."""
    return CHRF()


@dataclass(frozen=True)
class Bleu:
    """The score, and what it is made of: P_n = count / total for n-grams of 1, 2, … words."""

    score: float  # 0 to 100
    precisions: list[float]  # 0 to 100
    counts: list[int]  # n-grams of the texts that stand in the truths, too
    totals: list[int]  # n-grams of the texts
    brevity_penalty: float
    length: int  # of the texts, in words
    truth_length: int
    signature: str


def bleu(
    texts: Sequence[str],
    truths: Sequence[str],
    *,
    longest: int = 4,
    floor: float | None = None,
    lowercase: bool = False,
) -> Bleu:
    """BLEU = BP · (Π P_n)^(1/N) over n-grams up to `longest` words.

    An n-gram precision of 0 makes all of it 0. sacreBLEU's own remedy is exponential smoothing; with `floor`, a
    count of 0 is put at that value instead.
    """
    metric = bleu_metric(longest=longest, floor=floor, lowercase=lowercase)
    result = metric.corpus_score(list(texts), [list(truths)])
    return Bleu(
        score=result.score,
        precisions=result.precisions,
        counts=result.counts,
        totals=result.totals,
        brevity_penalty=result.bp,
        length=result.sys_len,
        truth_length=result.ref_len,
        signature=str(metric.get_signature()),
    )


def ngrams(text: str, *, longest: int = 4) -> list[dict[str, int]]:
    """The n-grams of 1, 2, … words as sacreBLEU cuts them, each with how often it stands in the text."""
    words = bleu_metric().tokenizer(text.rstrip()).split()
    return [dict(extract_word_ngrams(words, size)) for size in range(1, longest + 1)]


@dataclass(frozen=True)
class Chrf:
    score: float  # 0 to 100
    signature: str


def chrf(texts: Sequence[str], truths: Sequence[str]) -> Chrf:
    """chrF2: precision and recall of n-grams of up to 6 characters, recall counting twice."""
    metric = chrf_metric()
    result = metric.corpus_score(list(texts), [list(truths)])
    return Chrf(result.score, str(metric.get_signature()))


def sentence_chrf(text: str, truths: Sequence[str]) -> float:
    """chrF2 of one sentence, 0 to 100, held against the truth that it is nearest to."""
    return float(chrf_metric().sentence_score(text, list(truths)).score)
