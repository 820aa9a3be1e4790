"""All measures: what each is called, how it is written, which way is better, and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.tasks import Task
from regard.tasks.base import ScoredBy

Source = Literal["evaluation", "validation", "training"]


@dataclass(frozen=True)
class Metric:
    title: str
    form: str  # of one value
    higher_is_better: bool = True
    source: Source = "evaluation"
    by_sentence: bool = False  # a sum over sentences decides, so that sentences can be drawn anew
    only: ScoredBy | None = None  # of tasks that are scored so; None: of all

    @property
    def percent(self) -> bool:
        return self.form.endswith("%}")


METRICS = {
    "exact_match": Metric("exact matches", "{:.1%}", by_sentence=True),
    "word_error": Metric("wrong words", "{:.2%}", higher_is_better=False, by_sentence=True, only="phonemes"),
    "phoneme_error": Metric("phoneme errors", "{:.2%}", higher_is_better=False, by_sentence=True, only="phonemes"),
    "bleu": Metric("BLEU", "{:.2f}", by_sentence=True, only="bleu"),
    "bleu_lc": Metric("BLEU, lowercased", "{:.2f}", by_sentence=True, only="bleu"),
    "chrf": Metric("chrF2", "{:.2f}", by_sentence=True, only="bleu"),
    "unfinished": Metric("cut off", "{:,g}", higher_is_better=False),
    "log_probability": Metric("log-probability", "{:.3f}"),
    "token_accuracy": Metric("right tokens", "{:.2%}"),
    "aligned": Metric("looks at an aligned token", "{:.1%}"),
    "loss": Metric("loss", "{:.4f}", higher_is_better=False),
    "perplexity": Metric("perplexity", "{:.3f}", higher_is_better=False),
    "sentences_per_second": Metric("sentences a second", "{:,.0f}"),
    # Of the best validation, from the run's metrics.
    "validation_loss": Metric("validation loss", "{:.3f}", higher_is_better=False, source="validation"),
    "free_running_loss": Metric("free-running loss", "{:.3f}", higher_is_better=False, source="validation"),
    "training_seconds": Metric("seconds of training", "{:,.0f}", higher_is_better=False, source="training"),
}


def main_metric(data: Task) -> str:
    """The one that decides, where a study does not choose."""
    return {"bleu": "bleu_lc", "phonemes": "word_error", "exact match": "exact_match"}[data.scored_by]
