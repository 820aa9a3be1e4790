"""BLEU, by sacreBLEU, with the signature that says how it was computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU


@dataclass(frozen=True)
class Bleu:
    score: float  # 0 to 100
    precisions: list[float]  # of 1-grams, 2-grams, …, 0 to 100
    brevity_penalty: float
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
    metric = BLEU(
        max_ngram_order=longest,
        lowercase=lowercase,
        smooth_method="exp" if floor is None else "floor",
        smooth_value=floor,
        force=True,  # we know that these texts may come with spaces before their full stops
    )
    result = metric.corpus_score(list(texts), [list(truths)])
    return Bleu(result.score, result.precisions, result.bp, str(metric.get_signature()))
