"""Evaluation of a run on one of its splits, with one search or several."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields

from regard import __version__
from regard.data import Batches, digest_examples
from regard.evaluation.alignment import alignment_accuracy
from regard.evaluation.losses import compute_losses
from regard.evaluation.metrics import METRICS, sentence_statistics
from regard.inference.translation import Translation
from regard.inference.translator import ProgressCallback, Translator, no_progress
from regard.search import GREEDY, SearchOptions
from regard.tasks import DataSection, Split, task_for


@dataclass(frozen=True, kw_only=True)
class EvaluationResult:
    """All metrics of one run on one split with one search.

    Args:
        run: The run directory.
        split: The split.
        sentences: Number of sentences.
        beam: Beam width; 1 is greedy search.
        length_penalty: Length penalty of the search.
        loss: Teacher-forced cross-entropy, nats per token.
        perplexity: e to the loss.
        token_accuracy: Teacher-forced share of correct tokens.
        log_probability: Mean log-probability of a translation.
        truncated: Number of translations that reached the maximum length.
        alignment_accuracy: See `regard.evaluation.alignment`; None if unknown.
        seconds: Time for translating.
        sentences_per_second: Speed of translating.
        seed: Seed of the training.
        version: Version of Regard.
        scores: The task's metrics of output texts, by name.
        signatures: sacreBLEU's signatures, by metric.
    """

    run: str
    split: str
    sentences: int
    beam: int
    length_penalty: float
    loss: float
    perplexity: float
    token_accuracy: float
    log_probability: float
    truncated: int
    alignment_accuracy: float | None
    seconds: float
    sentences_per_second: float
    seed: int
    version: str
    scores: Mapping[str, float]
    signatures: Mapping[str, str]

    def to_dict(self) -> dict[str, object]:
        """All metrics by name, as in JSON; unknown ones are left out."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        scores, signatures = own.pop("scores"), own.pop("signatures")
        known = {name: value for name, value in own.items() if value is not None}
        return known | scores | {f"{name}_signature": signature for name, signature in signatures.items()}


class Evaluator:
    """Evaluates a run on a split. What does not depend on the search is computed once, here.

    Args:
        translator: Of a single run.
        split: Which sentences.
        data: A task whose sentences to use instead of the run's own.
    """

    def __init__(self, translator: Translator, split: Split, data: DataSection | None = None) -> None:
        if len(translator.runs) > 1:
            raise ValueError("an evaluation is of one run; an ensemble is no single model to evaluate")
        self.translator, self.split = translator, split
        own, training = translator.experiment.data, translator.experiment.training
        data = data or own
        self.pairs = list(task_for(data).dataset.pairs(split))
        self.references = [(pair.target, *pair.other_targets) for pair in self.pairs]
        examples = translator.codec.examples(self.pairs)
        known = translator.runs[0].data_digests.get(split) if data == own else None
        self.changed = known is not None and known != digest_examples(examples)  # since the run was created
        batches = Batches(examples, batch_tokens=training.batch_tokens, seed=training.seed)
        self.losses = compute_losses(translator.model, batches.once(), teacher=True)
        tokenization = translator.codec.tokenization
        self.alignment_accuracy = alignment_accuracy(translator.model, tokenization, self.pairs, examples)

    def evaluate(self, search: SearchOptions = GREEDY, advance: ProgressCallback = no_progress) -> EvaluationResult:
        """Translate the split and score the translations.

        Args:
            search: How to translate.
            advance: Called with the number of sentences that have been translated since the last call.
        """
        result, _ = self.translate(search, advance)
        return result

    def translate(
        self, search: SearchOptions, advance: ProgressCallback = no_progress
    ) -> tuple[EvaluationResult, list[Translation]]:
        """Like `evaluate`, but returns the translations, too.

        Args:
            search: How to translate.
            advance: Called with the number of sentences that have been translated since the last call.
        """
        began = time.perf_counter()
        translations = self.translator.translate([pair.source for pair in self.pairs], search, advance)
        seconds = time.perf_counter() - began
        scores, signatures = self._score_texts([translation.text for translation in translations])
        result = EvaluationResult(
            run=str(self.translator.runs[0].path),
            split=self.split,
            sentences=len(translations),
            beam=search.beam,
            length_penalty=self.translator.length_penalty(search),
            loss=self.losses.loss,
            perplexity=math.exp(min(self.losses.loss, 700.0)),
            token_accuracy=self.losses.token_accuracy,
            log_probability=sum(translation.score for translation in translations) / len(translations),
            truncated=sum(not translation.finished for translation in translations),
            alignment_accuracy=self.alignment_accuracy,
            seconds=round(seconds, 3),
            sentences_per_second=round(len(translations) / seconds, 1),
            seed=self.translator.experiment.training.seed,
            version=__version__,
            scores=scores,
            signatures=signatures,
        )
        return result, translations

    def _score_texts(self, outputs: list[str]) -> tuple[dict[str, float], dict[str, str]]:
        """The text metrics of this kind of task, and sacreBLEU's signatures."""
        kinds = (None, self.translator.experiment.task.scored_by)
        names = [name for name, metric in METRICS.items() if metric.by_sentence and metric.only in kinds]
        statistics = {name: sentence_statistics(name, outputs, self.references) for name in names}
        scores = {name: each.total for name, each in statistics.items()}
        return scores, {name: each.signature for name, each in statistics.items() if each.signature}


def evaluate(translator: Translator, split: Split) -> EvaluationResult:
    """Translate a split greedily and score the translations.

    Args:
        translator: Of a single run.
        split: Which sentences.
    """
    return Evaluator(translator, split).evaluate()
