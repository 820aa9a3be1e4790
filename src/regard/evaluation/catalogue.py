"""All measures: what each is called, how it is written, which way is better, and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.tasks import Task
from regard.tasks.task import ScoredBy

Source = Literal["evaluation", "validation", "training"]


@dataclass(frozen=True)
class Measure:
    title: str
    form: str  # of one value
    higher_is_better: bool = True
    source: Source = "evaluation"
    by_sentence: bool = False  # a sum over sentences decides, so that sentences can be drawn anew
    only: ScoredBy | None = None  # of tasks that are scored so; None: of all

    @property
    def percent(self) -> bool:
        return self.form.endswith("%}")


MEASURES = {
    "exact_match": Measure("exact matches", "{:.1%}", by_sentence=True),
    "word_error": Measure("wrong words", "{:.2%}", higher_is_better=False, by_sentence=True, only="phonemes"),
    "phoneme_error": Measure("phoneme errors", "{:.2%}", higher_is_better=False, by_sentence=True, only="phonemes"),
    "bleu": Measure("BLEU", "{:.2f}", by_sentence=True, only="bleu"),
    "bleu_lc": Measure("BLEU, lowercased", "{:.2f}", by_sentence=True, only="bleu"),
    "chrf": Measure("chrF2", "{:.2f}", by_sentence=True, only="bleu"),
    "unfinished": Measure("cut off", "{:,g}", higher_is_better=False),
    "log_probability": Measure("log-probability", "{:.3f}"),
    "token_accuracy": Measure("right tokens", "{:.2%}"),
    "aligned": Measure("looks at an aligned token", "{:.1%}"),
    "loss": Measure("loss", "{:.4f}", higher_is_better=False),
    "perplexity": Measure("perplexity", "{:.3f}", higher_is_better=False),
    "sentences_per_second": Measure("sentences a second", "{:,.0f}"),
    # Of the best validation, from the run's metrics.
    "validation_loss": Measure("validation loss", "{:.3f}", higher_is_better=False, source="validation"),
    "free_running_loss": Measure("free-running loss", "{:.3f}", higher_is_better=False, source="validation"),
    "training_seconds": Measure("seconds of training", "{:,.0f}", higher_is_better=False, source="training"),
}


def main_measure(data: Task) -> str:
    """The one that decides, where a study does not choose."""
    return {"bleu": "bleu_lc", "phonemes": "word_error", "exact match": "exact_match"}[data.scored_by]
