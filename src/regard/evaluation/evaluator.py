"""Evaluation of a model, or an ensemble, on a split or on given texts, with one search or several."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterable
from dataclasses import fields

from regard import __version__
from regard.data import Batches, EncodedSource, Example, digest_examples
from regard.errors import UserError, error_location
from regard.evaluation.alignment import AlignmentMetrics, alignment_metrics
from regard.evaluation.evaluation_data import EvaluationData, GivenReferences, Sources
from regard.evaluation.evaluation_result import EvaluationResult
from regard.evaluation.losses import LossMetrics, compute_ensemble_losses, compute_losses
from regard.evaluation.metrics import Metric, sentence_statistics, text_metrics
from regard.inference.translation import Translation
from regard.inference.translator import ProgressCallback, Translator, no_progress
from regard.runs import Run
from regard.search import GREEDY, SearchOptions
from regard.tasks import Split
from regard.terminal.progress import ProgressMeter
from regard.torch_state import private_torch_state

FIELDS = {field.name for field in fields(EvaluationResult)}


class Evaluator:
    """Evaluates a model on sentences. What does not depend on the search is computed once, here.

    Args:
        translator: The model of a run, or an ensemble.
        data: Which sentences.
        metrics: Metrics of output texts besides those of the task.

    Raises:
        UserError: If the model cannot process a text, or a metric is unknown.
    """

    def __init__(self, translator: Translator, data: EvaluationData, metrics: Iterable[str | Metric] = ()) -> None:
        self.translator, self.data = translator, data
        self.pairs, self.references = data.pairs, data.references
        self.metrics = text_metrics(translator.experiment.task, metrics)
        for metric in self.metrics:
            if metric.name in FIELDS:
                raise UserError(f"a metric cannot have the name {metric.name!r}, which results use; change its title")
        self._sources, examples = self._encode()
        self.changed = self._has_changed(examples)  # since the run was created
        self.losses, self.free_running = self._compute_losses(examples)
        self.alignment: AlignmentMetrics | None = None
        if len(translator.runs) == 1:
            tokenization = translator.codec.tokenization
            self.alignment = alignment_metrics(translator.model, tokenization, self.pairs, examples)

    def _encode(self) -> tuple[list[EncodedSource], list[Example]]:
        """The sources, and the sources with their first references, as token ids."""
        sources, examples = [], []
        for index, pair in enumerate(self.pairs):
            with error_location(self.data.source_origin(index)):
                sources.append(self.translator.encode(pair.source))
            with error_location(self.data.target_origin(index)):
                examples.append(self.translator.encode_pair(sources[-1], pair.target))
        return sources, examples

    def _has_changed(self, examples: list[Example]) -> bool:
        run = self.translator.runs[0]
        if self.data.split is None or self.data.section != self.translator.experiment.data:
            return False
        if self.data.test_set not in (None, run.experiment.data.test_set):
            return False  # the run has no digest of another test set
        known = run.data_digests.get(self.data.split)
        return known is not None and known != digest_examples(examples)

    def _compute_losses(self, examples: list[Example]) -> tuple[LossMetrics, LossMetrics | None]:
        """Teacher-forced losses, and those of one model that reads its own output.

        An empty text, whose translation is empty without a model, has none.
        """
        training = self.translator.experiment.training
        encoded = [example for example in examples if example.source]
        if not encoded:
            raise UserError(f"{self.data.source or self.data.split}: all texts are empty; at least one is needed")
        batches = Batches(encoded, batch_tokens=training.batch_tokens, seed=training.seed)
        if len(self.translator.runs) > 1:
            return compute_ensemble_losses(self.translator.ensemble, batches.once()), None
        forced, free = (compute_losses(self.translator.model, batches.once(), teacher=each) for each in (True, False))
        return forced, free

    def evaluate(self, search: SearchOptions = GREEDY, advance: ProgressCallback = no_progress) -> EvaluationResult:
        """Translate the sentences and score the translations.

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
        translations = self.translator.translate(self._sources, search, advance)
        seconds = time.perf_counter() - began
        outputs, runs = [translation.text for translation in translations], self.translator.runs
        statistics = {metric.name: sentence_statistics(metric, outputs, self.references) for metric in self.metrics}
        result = EvaluationResult(
            run=" + ".join(str(run.path) for run in runs),
            split=self.data.split,
            source=self.data.source,
            test_set=self.data.test_set,
            sentences=len(translations),
            beam=search.beam,
            length_penalty=self.translator.length_penalty(search),
            loss=self.losses.loss,
            perplexity=math.exp(min(self.losses.loss, 700.0)),
            free_running_loss=self.free_running.loss if self.free_running else None,
            token_accuracy=self.losses.token_accuracy,
            log_probability=sum(translation.score for translation in translations) / len(translations),
            truncated=sum(not translation.finished for translation in translations),
            alignment_accuracy=self.alignment.accuracy if self.alignment else None,
            alignment_error=self.alignment.error_rate if self.alignment else None,
            attention_entropy=self.alignment.entropy if self.alignment else None,
            seconds=round(seconds, 3),
            sentences_per_second=round(len(translations) / seconds, 1),
            seed=self.translator.experiment.training.seed if len(runs) == 1 else None,
            version=__version__,
            scores={name: each.total for name, each in statistics.items()},
            signatures={name: each.signature for name, each in statistics.items() if each.signature},
            metrics=self.metrics,
        )
        return result, translations


def evaluate(
    translator: Translator,
    *,
    source: Sources | None = None,
    references: GivenReferences | None = None,
    split: Split | None = None,
    search: SearchOptions = GREEDY,
    metrics: str | Metric | Iterable[str | Metric] = (),
    progress: bool = True,
) -> EvaluationResult:
    """Translate a split of the run's data, or given texts, and score the translations.

        print(regard.evaluate(regard.load("runs/case"), source=texts, references=references))

    Args:
        translator: The model of a run or an ensemble, as `regard.load` returns it.
        source: The texts to translate, as a list, or the path of a file with one text per line.
        references: Their references: a list of texts, a list with a list of references for each text, the path of a
            file with one reference per line, or a list of `Path` objects. The loss is that of the first reference;
            all other metrics use all of them.
        split: `train`, `validation` or `test` (the default), in place of `source` and `references`.
        search: How to translate; greedy search by default.
        metrics: Metrics of output texts besides those of the task: names such as `chrf`, import paths such as
            `my.py:length_ratio`, or objects of `regard.evaluation.Metric`.
        progress: Whether to show progress, on standard error.

    Raises:
        UserError: If an argument is wrong, a file cannot be read, or the model cannot process a text.
    """
    if not isinstance(translator, Translator):
        raise UserError(f"evaluate takes a translator, as regard.load(RUN) returns it, not {translator!r:.80}")
    if not isinstance(search, SearchOptions):
        raise UserError(f"search should be a regard.Search, such as regard.Search(beam=5), not {search!r:.80}")
    if isinstance(metrics, str | Metric):
        metrics = [metrics]
    if not isinstance(metrics, Iterable):
        raise UserError(f"metrics should be a list, such as ['chrf'], not {metrics!r:.80}")
    data = _choose_data(translator, source, references, split)
    with private_torch_state(translator.experiment.training.threads):
        evaluator = Evaluator(translator, data, metrics)
        if evaluator.changed:
            warnings.warn(changed_split_message(translator.runs[0], split or "test"), stacklevel=2)
        with ProgressMeter(len(evaluator.pairs), shown=progress) as meter:
            return evaluator.evaluate(search, meter.advance)


def _choose_data(
    translator: Translator, source: Sources | None, references: GivenReferences | None, split: Split | None
) -> EvaluationData:
    if source is None and references is None:
        return EvaluationData.of_split(translator.experiment.data, "test" if split is None else split)
    if source is None or references is None:
        raise UserError("source and references belong together; give both, or neither for a split of the run's data")
    if split is not None:
        raise UserError(f"split={split!r}: give either a split or source and references")
    return EvaluationData.of_texts(source, references)


def changed_split_message(run: Run, split: Split) -> str:
    """A warning that the texts of a split are not those of the training.

    Args:
        run: The run directory.
        split: The split.
    """
    return f"{run.path}: the {split} split has changed since training; it may contain training sentences now"
