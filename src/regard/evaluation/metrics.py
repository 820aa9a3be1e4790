"""Every metric, in one table; new metrics are added here.

A metric is one entry of `METRICS`: its name in JSON, CSV and study files, its title in tables, its format, and which
way is better. A metric that compares output texts with references also has `statistics`, a function of
`regard.evaluation.sentence_statistics`: `regard evaluate` computes it, tables show it, and studies test it for
significance, without a change anywhere else. Metrics of another `source` are read from what a run has recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from regard.evaluation.sentence_statistics import (
    References,
    SentenceStatistics,
    bleu_statistics,
    chrf_statistics,
    exact_match_statistics,
    phoneme_error_statistics,
    word_error_statistics,
)
from regard.tasks import ScoredBy

Source = Literal["evaluation", "validation", "training"]


@dataclass(frozen=True)
class Metric:
    """What a metric is called, how it is formatted, which way is better, and where it comes from.

    Args:
        title: Its name in tables and figures.
        form: The format of a value, as in `str.format`.
        higher_is_better: False for losses, errors and costs.
        source: An evaluation, the best validation of training, or training as a whole.
        only: Only tasks that are scored in this way have it; None: all tasks.
        depends_on_search: The beam width may change it.
        statistics: Counts it for each sentence, from outputs and references; None: it is not about output texts.
    """

    title: str
    form: str
    higher_is_better: bool = True
    source: Source = "evaluation"
    only: ScoredBy | None = None
    depends_on_search: bool = False
    statistics: Callable[[Sequence[str], References], SentenceStatistics] | None = None

    @property
    def percent(self) -> bool:
        return self.form.endswith("%}")

    @property
    def by_sentence(self) -> bool:
        """True if sentences can be resampled, for significance tests over sentences."""
        return self.statistics is not None


def _text_metric(
    title: str,
    form: str,
    statistics: Callable[[Sequence[str], References], SentenceStatistics],
    *,
    higher_is_better: bool = True,
    only: ScoredBy | None = None,
) -> Metric:
    return Metric(title, form, higher_is_better, only=only, depends_on_search=True, statistics=statistics)


METRICS = {
    # Outputs compared with references.
    "exact_match": _text_metric("exact match", "{:.1%}", exact_match_statistics),
    "word_error": _text_metric(
        "word error rate", "{:.2%}", word_error_statistics, higher_is_better=False, only="phonemes"
    ),
    "phoneme_error": _text_metric(
        "phoneme error rate", "{:.2%}", phoneme_error_statistics, higher_is_better=False, only="phonemes"
    ),
    "bleu": _text_metric("BLEU", "{:.2f}", bleu_statistics, only="bleu"),
    "bleu_lc": _text_metric("BLEU, lowercased", "{:.2f}", partial(bleu_statistics, lowercase=True), only="bleu"),
    "chrf": _text_metric("chrF2", "{:.2f}", chrf_statistics, only="bleu"),
    # Fields of an evaluation (`EvaluationResult`).
    "truncated": Metric("truncated", "{:,g}", higher_is_better=False, depends_on_search=True),
    "log_probability": Metric("log-probability", "{:.3f}", depends_on_search=True),
    "token_accuracy": Metric("token accuracy", "{:.2%}"),
    "alignment_accuracy": Metric("alignment accuracy", "{:.1%}"),
    "loss": Metric("loss", "{:.4f}", higher_is_better=False),
    "perplexity": Metric("perplexity", "{:.3f}", higher_is_better=False),
    "sentences_per_second": Metric("sentences per second", "{:,.0f}", depends_on_search=True),
    # Columns of `metrics.jsonl` at the best validation.
    "validation_loss": Metric("validation loss", "{:.3f}", higher_is_better=False, source="validation"),
    "free_running_loss": Metric("free-running loss", "{:.3f}", higher_is_better=False, source="validation"),
    "training_seconds": Metric("training seconds", "{:,.0f}", higher_is_better=False, source="training"),
}
# Names in the files of Regard 0.5 and before.
OLD_NAMES = {"aligned": "alignment_accuracy", "unfinished": "truncated"}


def main_metric(scored_by: ScoredBy) -> str:
    """The name of the metric that decides where a study does not choose one.

    Args:
        scored_by: The kind of score of the study's task.
    """
    return {"bleu": "bleu_lc", "phonemes": "word_error", "exact match": "exact_match"}[scored_by]


def sentence_statistics(name: str, outputs: Sequence[str], references: References) -> SentenceStatistics:
    """The counts of a text metric in each sentence.

    Args:
        name: A key of `METRICS`.
        outputs: One output for each sentence.
        references: One or several references for each sentence.
    """
    count = METRICS[name].statistics if name in METRICS else None
    if count is None:
        known = ", ".join(key for key, metric in METRICS.items() if metric.by_sentence)
        raise ValueError(f"{name!r} is not a metric of output texts; those are {known}")
    if len(outputs) != len(references):
        raise ValueError(f"got {len(outputs)} outputs and the references of {len(references)} sentences")
    return count(outputs, references)
