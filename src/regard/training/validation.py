"""Validation: the losses of the validation split, and the metrics of its translations.

The processes of a training divide both. Whatever their number, they translate the same batches, and each computes the
metrics from all translations.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

from regard.data import Batches, Example
from regard.devices import autocast
from regard.evaluation.losses import LossMetrics, compute_losses
from regard.evaluation.metrics import Metric, sentence_statistics, task_metrics, validation_metric
from regard.inference.search_setup import similar_lengths
from regard.inference.translator import Translator
from regard.nn import Seq2Seq
from regard.process_group import ProcessGroup
from regard.runs import Run


class Validation:
    """Measures a model that is being trained.

    Args:
        run: The run directory, for settings and vocabularies.
        examples: The validation split.
        model: The model.
        group: The processes, each of which calls the methods below.

    Attributes:
        metrics: The metrics of translations.
        best: The metric whose best value marks the best weights: one of `metrics`, or the loss.
    """

    def __init__(self, run: Run, examples: Sequence[Example], model: Seq2Seq, group: ProcessGroup) -> None:
        settings, task = run.experiment.training, run.experiment.task
        self.model, self.group = model, group
        self.device, self.precision = next(model.parameters()).device, run.precision
        self.batches = Batches(examples, batch_tokens=settings.batch_tokens, seed=settings.seed)
        self.metrics, self.best = task_metrics(task), validation_metric(task, settings.best)
        selected = spread_evenly(len(examples), settings.validation_sentences)
        pairs = list(compress(task.dataset.pairs("validation"), selected))
        self.translator = Translator.of_model(run, model)
        self.sources = [self.translator.encode(pair.source) for pair in pairs]
        self.references = [(pair.target, *pair.other_targets) for pair in pairs]

    @property
    def shown_metrics(self) -> list[Metric]:
        """The metrics that progress displays show: the main one of the task, and the one that determines the best."""
        return [metric for metric in self.metrics if metric in (self.metrics[0], self.best)]

    def losses(self) -> LossMetrics:
        """The teacher-forced losses of the whole split."""
        own = range(self.group.rank, self.batches.per_epoch, self.group.size)
        batches = (self.batches.at(index).to(self.device) for index in own)
        with autocast(self.device, self.precision):
            return compute_losses(self.model, batches, teacher=True, group=self.group)

    def scores(self) -> dict[str, float]:
        """The metrics of greedy translations of the selected sentences, by name."""
        outputs = self._translate()
        return {metric.name: sentence_statistics(metric, outputs, self.references).total for metric in self.metrics}

    def _translate(self) -> list[str]:
        """The translations, in order. Each process translates every `group.size`-th batch."""
        lengths = {index: len(source.ids) for index, source in enumerate(self.sources)}
        batches = list(similar_lengths(lengths, self.translator.batch_size()))
        own = [index for batch in batches[self.group.rank :: self.group.size] for index in batch]
        self.model.eval()
        with autocast(self.device, self.precision):
            translations = self.translator.translate([self.sources[index] for index in own])
        texts = {index: translation.text for index, translation in zip(own, translations, strict=True)}
        parts = self.group.gather(list(texts.items()))
        everything = {index: text for part in parts for index, text in part}
        return [everything[index] for index in range(len(self.sources))]


def spread_evenly(count: int, selected: int | None) -> list[bool]:
    """Which sentences are selected, so that the distances between them are equal but for rounding.

    Args:
        count: How many there are.
        selected: How many are selected; None, or more than there are: all.
    """
    wanted = count if selected is None else min(count, selected)
    # The number of selected ones among the first n is ⌊n · wanted / count⌋.
    return [(index + 1) * wanted // count > index * wanted // count for index in range(count)]
