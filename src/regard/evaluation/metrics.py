"""Every metric, in one table; new metrics are added here, or defined in a module of your own.

A metric has a name in JSON, CSV and study files, a title in tables, a format, and a direction that is better. A metric
that compares output texts with references also has `statistics`, a function such as those of
`regard.evaluation.sentence_statistics`: `regard evaluate` computes it, tables show it, and studies test it for
significance, without a change anywhere else. Metrics of another `source` are read from what a run has recorded.

A task names the text metrics that are computed by default (`Task.metrics`); any other can be requested for any task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, Literal

from regard.config import plugins
from regard.config.families import Kinds
from regard.config.references import absolute_references
from regard.errors import UserError, suggest
from regard.evaluation.sentence_statistics import (
    References,
    SentenceStatistics,
    bleu_statistics,
    character_error_statistics,
    chrf_statistics,
    exact_match_statistics,
    phoneme_error_statistics,
    word_error_statistics,
)
from regard.tasks import Task

Source = Literal["evaluation", "validation", "training"]


@dataclass(frozen=True)
class Metric:
    """What a metric is called, how it is formatted, which way is better, and where it comes from.

        Metric("length ratio", "{:.3f}", statistics=length_ratio_statistics)

    Args:
        title: Its name in tables and figures.
        form: The format of a value, as in `str.format`.
        higher_is_better: False for losses, errors and costs.
        source: An evaluation, the best validation of training, or training as a whole.
        depends_on_search: The beam width may change it; always True of text metrics.
        statistics: Counts it for each sentence, from outputs and references; None: it is not about output texts.
        name: Its key in JSON, CSV and study files; by default the title. `find_metric` sets it to the name it was
            found by.
    """

    title: str
    form: str
    higher_is_better: bool = True
    source: Source = "evaluation"
    depends_on_search: bool = False
    statistics: Callable[[Sequence[str], References], SentenceStatistics] | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.title, str) or not self.title:
            raise UserError(f"the title of a metric should be a text, not {self.title!r}")
        if self.statistics is not None and not callable(self.statistics):
            raise UserError(f"{self.title}: statistics should be a function of outputs and references")
        if not _is_format(self.form):
            raise UserError(f"{self.title}: {self.form!r} should be the format of a number, such as '{{:.2f}}'")
        object.__setattr__(self, "name", self.name or self.title)
        object.__setattr__(self, "depends_on_search", self.depends_on_search or self.by_sentence)

    def __str__(self) -> str:
        return self.name

    @property
    def percent(self) -> bool:
        return self.form.endswith("%}")

    def is_better(self, value: float, other: float) -> bool:
        """True if a value is better than another one.

        Args:
            value: A value of this metric.
            other: Another one.
        """
        return value > other if self.higher_is_better else value < other

    @property
    def by_sentence(self) -> bool:
        """True if sentences can be resampled, for significance tests over sentences."""
        return self.statistics is not None


def _is_format(form: object) -> bool:
    try:
        return isinstance(form, str) and form.format(0.5) != form
    except (ValueError, LookupError):
        return False


_BUILT_IN = {
    # Outputs compared with references.
    "exact_match": Metric("exact match", "{:.1%}", statistics=exact_match_statistics),
    "word_error": Metric("word error rate", "{:.2%}", higher_is_better=False, statistics=word_error_statistics),
    "phoneme_error": Metric(
        "phoneme error rate", "{:.2%}", higher_is_better=False, statistics=phoneme_error_statistics
    ),
    "character_error": Metric(
        "character error rate", "{:.2%}", higher_is_better=False, statistics=character_error_statistics
    ),
    "bleu": Metric("BLEU", "{:.2f}", statistics=bleu_statistics),
    "bleu_lc": Metric("BLEU, lowercased", "{:.2f}", statistics=partial(bleu_statistics, lowercase=True)),
    "chrf": Metric("chrF2", "{:.2f}", statistics=chrf_statistics),
    # Fields of an evaluation (`EvaluationResult`).
    "truncated": Metric("truncated", "{:,g}", higher_is_better=False, depends_on_search=True),
    "log_probability": Metric("log-probability", "{:.3f}", depends_on_search=True),
    "token_accuracy": Metric("token accuracy", "{:.2%}"),
    "alignment_accuracy": Metric("alignment accuracy", "{:.1%}"),
    "alignment_error": Metric("alignment error rate", "{:.1%}", higher_is_better=False),
    "attention_entropy": Metric("attention entropy, bits", "{:.2f}", higher_is_better=False),
    "loss": Metric("loss", "{:.4f}", higher_is_better=False),
    "perplexity": Metric("perplexity", "{:.3f}", higher_is_better=False),
    "free_running_loss": Metric("free-running loss", "{:.3f}", higher_is_better=False),
    "sentences_per_second": Metric("sentences per second", "{:,.0f}", depends_on_search=True),
    # Columns of `metrics.jsonl` at the best validation.
    "validation_loss": Metric("validation loss", "{:.3f}", higher_is_better=False, source="validation"),
    "training_seconds": Metric("training seconds", "{:,.0f}", higher_is_better=False, source="training"),
}
METRICS: Kinds[Any] = Kinds(
    "metric",
    "exact_match",
    {name: replace(metric, name=name) for name, metric in _BUILT_IN.items()},
    base=Metric,
    instances=True,
)
# Names in the files of Regard 0.5 and before.
OLD_NAMES = {"aligned": "alignment_accuracy", "unfinished": "truncated"}


def find_metric(name: object) -> Metric:
    """The metric of a name; every lookup goes through this function.

    Args:
        name: A key of `METRICS`, the import path of a metric such as `my.py:length_ratio`, the name that an installed
            package registers, or a metric, which is returned as it is.

    Raises:
        UserError: If there is no such metric.
    """
    if isinstance(name, Metric):
        return name
    if not isinstance(name, str):
        raise UserError(f"a metric is given by its name or as a regard.evaluation.Metric, not as {name!r}")
    name = str(absolute_references(name, Path.cwd()))
    if name not in METRICS and not plugins.is_plugin(name):
        raise UserError(f"{name!r} is not a metric; {suggest(name, METRICS)}, or an import path such as my.py:NAME")
    metric: Metric = METRICS[name]
    return replace(metric, name=name)


def known_metrics(named: Iterable[Metric] = ()) -> dict[str, Metric]:
    """All built-in metrics, then others that are named, in the order of tables, CSV and JSON.

    Args:
        named: Metrics that a study, an evaluation or a task names, built-in or not.

    Raises:
        UserError: If two different metrics have the same name.
    """
    known = {name: METRICS[name] for name in METRICS}
    for metric in named:
        if known.setdefault(metric.name, metric) != metric:
            raise UserError(f"two metrics have the name {metric.name!r}; give one of them another title")
    return known


def task_metrics(task: Task[Any]) -> list[Metric]:
    """The text metrics that a task declares; the first is the main metric, which a study compares by default.

    Args:
        task: Any task.

    Raises:
        UserError: If the task declares none, or something else.
    """
    if not task.metrics:
        raise UserError(f"{type(task).__name__} declares no metrics; its attribute 'metrics' needs at least one")
    return [_text_metric(name) for name in task.metrics]


def validation_metric(task: Task[Any], name: str) -> Metric:
    """What `training.best` names.

    Args:
        task: The task of the training.
        name: `loss`, or a metric as the task declares it.
    """
    declared = zip(task.metrics, task_metrics(task), strict=True)
    return next((metric for each, metric in declared if str(each) == name), find_metric("loss"))


def text_metrics(task: Task[Any], additional: Iterable[str | Metric] = ()) -> list[Metric]:
    """The metrics of output texts that an evaluation computes, in the order of `known_metrics`.

    Args:
        task: Whose metrics are computed.
        additional: More metrics.

    Raises:
        UserError: If one of them is unknown or not a metric of output texts.
    """
    chosen = [*task_metrics(task), *map(_text_metric, additional)]
    names = {metric.name for metric in chosen}
    return [metric for name, metric in known_metrics(chosen).items() if name in names]


def _text_metric(name: object) -> Metric:
    metric = find_metric(name)
    if not metric.by_sentence:
        choices = ", ".join(key for key, each in known_metrics().items() if each.by_sentence)
        raise UserError(f"{metric.name!r} is not a metric of output texts; those are {choices}")
    return metric


def sentence_statistics(name: str | Metric, outputs: Sequence[str], references: References) -> SentenceStatistics:
    """The counts of a text metric in each sentence.

    Args:
        name: A text metric, or its name.
        outputs: One output for each sentence.
        references: One or several references for each sentence.

    Raises:
        UserError: If it is not a text metric, or if its function returns something else.
    """
    metric = _text_metric(name)
    assert metric.statistics is not None
    if len(outputs) != len(references):
        raise ValueError(f"got {len(outputs)} outputs and the references of {len(references)} sentences")
    counted = metric.statistics(outputs, references)
    if not isinstance(counted, SentenceStatistics) or len(counted.rows) != len(outputs):
        found = f"{len(counted.rows)} rows" if isinstance(counted, SentenceStatistics) else f"{counted!r:.80}"
        raise UserError(
            f"{metric.name}: statistics(outputs, references) should return SentenceStatistics with a row for each of "
            f"the {len(outputs)} sentences, not {found}"
        )
    if not isfinite(counted.total):
        raise UserError(f"{metric.name}: the score of these {len(outputs)} sentences is {counted.total}, not a number")
    return counted
