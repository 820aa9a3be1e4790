"""Is one system better than another on the same sentences, or did chance choose sentences that suit it?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.evaluation.bleu import bleu_metric, chrf_metric
from regard.evaluation.error_rates import phoneme_edits

Numbers = NDArray[np.float64]

AT_ONCE = 256  # draws, or fewer of many sentences; a multiple of 32 draws the same random bits as all draws at once
MOST_NUMBERS = 10_000_000  # in memory, for each of a few arrays
ROUNDING = 1e-9  # two differences that are not further apart are equal


@dataclass(frozen=True, eq=False)
class SentenceStatistics:
    """A system's outputs as counts for each sentence: a corpus score is a function of their sums."""

    rows: Numbers  # [sentences, counts]
    score: Callable[[Numbers], Numbers]  # from sums [..., counts] to scores [...]

    def __post_init__(self) -> None:
        if not len(self.rows):
            raise ValueError("there are no sentences to score")

    @property
    def total(self) -> float:
        """The score of all sentences."""
        return float(self.score(self.rows.sum(0)))

    def of(self, sentences: Iterable[int]) -> float:
        """The score of some sentences, by their places."""
        return SentenceStatistics(self.rows[list(sentences)], self.score).total


def sentence_statistics(measure: str, outputs: Sequence[str], truths: Sequence[Sequence[str]]) -> SentenceStatistics:
    """What a measure counts in each sentence. The first truth is the reference; any of them is an exact match."""
    if len(outputs) != len(truths):
        raise ValueError(f"{len(outputs)} outputs cannot be held against the truths of {len(truths)} sentences")
    match measure:
        case "bleu" | "bleu_lc":
            return _by_sacrebleu(bleu_metric(lowercase=measure == "bleu_lc"), outputs, truths)
        case "chrf":
            return _by_sacrebleu(chrf_metric(), outputs, truths)
        case "exact_match" | "word_error":
            hits = [(text in known, 1) for text, known in zip(outputs, truths, strict=True)]
            return SentenceStatistics(
                np.array(hits, dtype=float), _quotient if measure == "exact_match" else _remainder
            )
        case "phoneme_error":
            edits = [phoneme_edits(text, known) for text, known in zip(outputs, truths, strict=True)]
            return SentenceStatistics(np.array(edits, dtype=float), _quotient)
    raise ValueError(f"nothing is known of a measure {measure!r}")


def _by_sacrebleu(metric: Any, outputs: Sequence[str], truths: Sequence[Sequence[str]]) -> SentenceStatistics:
    """The counts of a metric of sacreBLEU, with its own score of their sums."""

    def score(sums: Numbers) -> Numbers:
        each = sums.reshape(-1, sums.shape[-1]).tolist()
        return np.array([metric._compute_score_from_stats(row).score for row in each]).reshape(sums.shape[:-1])

    references = [known[0] for known in truths]
    return SentenceStatistics(np.array(metric._extract_corpus_statistics(outputs, [references]), dtype=float), score)


def _quotient(sums: Numbers) -> Numbers:
    part, whole = sums[..., 0], sums[..., 1]
    return np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)


def _remainder(sums: Numbers) -> Numbers:
    return 1 - _quotient(sums)


@dataclass(frozen=True)
class PairedTest:
    """What a test over sentences says of a system and a baseline. Of errors, a negative difference is good."""

    method: str
    difference: float  # score of the system − score of the baseline, each the mean over its seeds
    p: float
    low: float | None  # of the 95 % interval of the difference
    high: float | None
    draws: int


def paired_bootstrap(
    system: Sequence[SentenceStatistics], baseline: Sequence[SentenceStatistics], draws: int = 1000, seed: int = 12345
) -> PairedTest:
    """Paired bootstrap resampling (Koehn 2004): test sets of the same size, drawn from this one with repetition.

    D_b = score of the system − score of the baseline, on the b-th of B test sets        D: on the real one
    p = (1 + number of b with |D_b| − mean |D_b| ≥ |D|) / (1 + B)

    The interval is the middle 95 % of the D_b. p is sacreBLEU's, and looks at one side only: of pairs of equally good
    systems, more than 10 % get a p below 0.05.
    """
    sentences = _paired_sentences(system, baseline)
    random = np.random.default_rng(seed)
    places = (random.choice(sentences, size=(size, sentences)) for size in _blocks(draws, sentences))
    weights = (_how_often(drawn) for drawn in places)
    found = np.concatenate([_mean_score(system, often) - _mean_score(baseline, often) for often in weights])
    low, high = np.quantile(found, [0.025, 0.975])
    real = _real_difference(system, baseline)
    p = _p_value(np.abs(found) - np.abs(found).mean(), real)
    return PairedTest("paired bootstrap", real, p, float(low), float(high), draws)


def approximate_randomization(
    system: Sequence[SentenceStatistics], baseline: Sequence[SentenceStatistics], draws: int = 10_000, seed: int = 12345
) -> PairedTest:
    """Approximate randomisation (Noreen 1989): if the systems are alike, it does not matter which of them said what.

    D_r = difference after the outputs of each sentence have changed sides or not, by a coin        D: the real one
    p = (1 + number of r with |D_r| ≥ |D|) / (1 + R)
    """
    sentences = _paired_sentences(system, baseline)
    random = np.random.default_rng(seed)
    sizes = _blocks(draws, sentences)
    teacher_forcing_mask = (random.integers(2, size=(size, sentences), dtype=bool).astype(float) for size in sizes)
    found = np.concatenate(
        [_mixed(system, baseline, swap) - _mixed(baseline, system, swap) for swap in teacher_forcing_mask]
    )
    real = _real_difference(system, baseline)
    return PairedTest("approximate randomisation", real, _p_value(np.abs(found), real), None, None, draws)


def _paired_sentences(system: Sequence[SentenceStatistics], baseline: Sequence[SentenceStatistics]) -> int:
    """How many sentences all of them have, which must be the same ones."""
    if not system or len(system) != len(baseline):
        raise ValueError(f"as many seeds are needed on both sides, not {len(system)} and {len(baseline)}")
    numbers = {len(counts.rows) for counts in (*system, *baseline)}
    if len(numbers) > 1:
        raise ValueError(f"the sentences must be the same ones, but there are {sorted(numbers)}")
    return numbers.pop()


def _blocks(draws: int, sentences: int) -> list[int]:
    """How many to draw at a time."""
    if draws < 1:
        raise ValueError(f"there must be draws, not {draws}")
    at_once = min(AT_ONCE, 32 * max(1, MOST_NUMBERS // sentences // 32))
    return [min(at_once, draws - begin) for begin in range(0, draws, at_once)]


def _how_often(drawn: NDArray[np.int64]) -> Numbers:
    """For drawn places [draws, sentences]: how often each sentence was drawn, [draws, sentences]."""
    draws, sentences = drawn.shape
    cells = drawn + sentences * np.arange(draws)[:, None]
    return np.bincount(cells.ravel(), minlength=drawn.size).reshape(drawn.shape).astype(float)


def _mean_score(seeds: Sequence[SentenceStatistics], often: Numbers) -> Numbers:
    """Mean over seeds of the score [draws], each sentence counted so often [draws, sentences]."""
    return np.mean([counts.score(often @ counts.rows) for counts in seeds], axis=0)


def _mixed(ones: Sequence[SentenceStatistics], others: Sequence[SentenceStatistics], swap: Numbers) -> Numbers:
    """Mean over seeds of the score [draws] of `ones`, with the sentences of the `others` where `swap` is 1."""
    pairs = zip(ones, others, strict=True)
    return np.mean([one.score(one.rows.sum(0) + swap @ (other.rows - one.rows)) for one, other in pairs], axis=0)


def _real_difference(system: Sequence[SentenceStatistics], baseline: Sequence[SentenceStatistics]) -> float:
    return float(np.mean([counts.total for counts in system]) - np.mean([counts.total for counts in baseline]))


def _p_value(found: Numbers, real: float) -> float:
    """The share of chance that is at least as large as what was really seen, which is counted as a draw itself.

    sacreBLEU counts only what is larger. That is the same but for ties, which it would take for a proof: exact matches
    tie often, and a system compared with itself does so always.
    """
    as_large = int(np.sum(found >= abs(real) - ROUNDING))
    return (1 + as_large) / (1 + len(found))
