"""Per-sentence counts of the text metrics: a corpus score is a function of their sums.

Every built-in metric that compares output texts with reference texts is a function here, listed in
`regard.evaluation.metrics`. All of them use all references of a sentence: any is an exact match, the nearest one counts
for an error rate, and BLEU and chrF are those of sacreBLEU with several references.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sacrebleu.metrics.bleu import BLEU

from regard.evaluation.bleu import bleu_metric, chrf_metric
from regard.evaluation.error_rates import nearest_edits, phoneme_edits

Floats = NDArray[np.float64]
References = Sequence[Sequence[str]]  # of each sentence, one or several


@dataclass(frozen=True, eq=False)
class SentenceStatistics:
    """A system's outputs as counts for each sentence.

    Args:
        rows: Counts, [sentences, counts].
        score: Maps sums of rows, [..., counts], to corpus scores, [...].
        signature: sacreBLEU's signature; empty for other metrics.
    """

    rows: Floats
    score: Callable[[Floats], Floats]
    signature: str = ""

    def __post_init__(self) -> None:
        rows = np.asarray(self.rows, dtype=float)
        if not len(rows):
            raise ValueError("there are no sentences to score")
        if rows.ndim != 2:
            raise ValueError(f"rows should be [sentences, counts], not of shape {list(rows.shape)}")
        object.__setattr__(self, "rows", rows)

    @property
    def total(self) -> float:
        """The corpus score of all sentences."""
        return float(self.score(self.rows.sum(0)))

    def of(self, sentences: Iterable[int]) -> float:
        """The corpus score of some sentences.

        Args:
            sentences: Their indices.
        """
        return SentenceStatistics(self.rows[list(sentences)], self.score).total


def mean_statistics(values: ArrayLike) -> SentenceStatistics:
    """The mean of a value that each sentence has, for a metric such as the length ratio.

    Args:
        values: The value of each sentence, [sentences].
    """
    column = np.asarray(values, dtype=float).reshape(-1, 1)
    return SentenceStatistics(np.hstack([column, np.ones_like(column)]), _ratio)


def exact_match_statistics(outputs: Sequence[str], references: References) -> SentenceStatistics:
    """Share of the outputs that equal one of their references.

    Args:
        outputs: The output texts.
        references: The references of each output.
    """
    return SentenceStatistics(_matches(outputs, references), _ratio)


def word_error_statistics(outputs: Sequence[str], references: References) -> SentenceStatistics:
    """Share of the outputs that equal none of their references.

    Args:
        outputs: The output texts.
        references: The references of each output.
    """
    return SentenceStatistics(_matches(outputs, references), lambda sums: 1 - _ratio(sums))


def phoneme_error_statistics(outputs: Sequence[str], references: References) -> SentenceStatistics:
    """Edits per phoneme of the nearest reference.

    Args:
        outputs: The output texts.
        references: The references of each output.
    """
    edits = [phoneme_edits(output, known) for output, known in zip(outputs, references, strict=True)]
    return SentenceStatistics(np.array(edits, dtype=float), _ratio)


def character_error_statistics(outputs: Sequence[str], references: References) -> SentenceStatistics:
    """Edits per character of the nearest reference.

    Args:
        outputs: The output texts.
        references: The references of each output.
    """
    edits = [nearest_edits(output, known) for output, known in zip(outputs, references, strict=True)]
    return SentenceStatistics(np.array(edits, dtype=float), _ratio)


def bleu_statistics(outputs: Sequence[str], references: References, *, lowercase: bool = False) -> SentenceStatistics:
    """BLEU's counts: lengths of output and reference, matching n-grams and all n-grams of each order.

    Args:
        outputs: The output texts.
        references: The references of each output.
        lowercase: Ignore case.
    """
    metric = bleu_metric(lowercase=lowercase)
    rows = []
    for output, known in zip(outputs, references, strict=True):
        parts = metric.corpus_score([output], [[reference] for reference in known])
        rows.append([parts.sys_len, parts.ref_len, *parts.counts, *parts.totals])
    orders = metric.max_ngram_order

    def score(sums: Floats) -> Floats:
        scores = [
            metric.compute_bleu(
                correct=row[2 : 2 + orders],
                total=row[2 + orders :],
                sys_len=int(row[0]),
                ref_len=int(row[1]),
                smooth_method=metric.smooth_method,
                smooth_value=metric.smooth_value,
                effective_order=metric.effective_order,
                max_ngram_order=orders,
            ).score
            for row in _integer_rows(sums)
        ]
        return np.array(scores).reshape(sums.shape[:-1])

    return SentenceStatistics(np.array(rows, dtype=float), score, _bleu_signature(metric, references) if rows else "")


def _bleu_signature(metric: BLEU, references: References) -> str:
    """The signature after the sentences have been scored one by one."""
    signature = metric.get_signature()
    if len({len(known) for known in references}) > 1:
        signature.update("nrefs", "var")  # as if they had been scored together
    return str(signature)


def chrf_statistics(outputs: Sequence[str], references: References) -> SentenceStatistics:
    """chrF's counts: n-grams of output and reference and those that match, of each order.

    sacreBLEU has no public way to them, nor from their sums to a score, so its private ones are called here, and only
    here. A test compares the result with `corpus_score`.

    Args:
        outputs: The output texts.
        references: The references of each output.
    """
    if not outputs:
        return SentenceStatistics(np.empty((0, 0)), _ratio)
    metric = chrf_metric()
    rows = metric._extract_corpus_statistics(outputs, list(zip_longest(*references)))  # None: has fewer references

    def score(sums: Floats) -> Floats:
        scores = [metric._compute_score_from_stats(row).score for row in _integer_rows(sums)]
        return np.array(scores).reshape(sums.shape[:-1])

    return SentenceStatistics(np.array(rows, dtype=float), score, str(metric.get_signature()))


def _integer_rows(sums: Floats) -> list[list[int]]:
    """Sums of counts, [..., counts], as a list of rows."""
    return sums.reshape(-1, sums.shape[-1]).astype(int).tolist()


def _matches(outputs: Sequence[str], references: References) -> Floats:
    return np.array([(output in known, 1) for output, known in zip(outputs, references, strict=True)], dtype=float)


def _ratio(sums: Floats) -> Floats:
    part, whole = sums[..., 0], sums[..., 1]
    return np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)
