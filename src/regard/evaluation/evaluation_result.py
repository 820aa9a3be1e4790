"""The result of an evaluation: values by name, a table for people, and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from html import escape

from regard.evaluation.metrics import Metric, known_metrics
from regard.terminal.tables import format_table

UNKNOWN = "–"
TextTable = tuple[list[str], list[list[str]]]  # head and rows


@dataclass(frozen=True, kw_only=True)
class EvaluationResult:
    """All metrics of one run on one set of sentences with one search.

    `print(result)` shows a table, and so does a notebook.

    Args:
        run: The run directory; of an ensemble, all of them with ` + ` between them.
        split: The split; None for given texts.
        source: For given texts, the file of the sources or `given texts`; None for a split.
        test_set: The name of the test set, if the task has several.
        sentences: Number of sentences.
        beam: Beam width; 1 is greedy search.
        length_penalty: Length penalty of the search.
        loss: Teacher-forced cross-entropy of the first references, nats per token.
        perplexity: e to the loss.
        free_running_loss: The same if the decoder reads its own output instead of the reference; None for an ensemble.
        token_accuracy: Teacher-forced share of correct tokens.
        log_probability: Mean log-probability of a translation.
        truncated: Number of translations that reached the maximum length.
        alignment_accuracy: See `regard.evaluation.alignment.AlignmentMetrics`; None if unknown.
        alignment_error: The alignment error rate, see there; None if unknown.
        attention_entropy: The mean entropy of attention weights in bits, see there; None if unknown.
        seconds: Time for translating.
        sentences_per_second: Speed of translating.
        seed: Seed of the training; None for an ensemble.
        version: Version of Regard.
        scores: The metrics of output texts, by name.
        signatures: sacreBLEU's signatures, by metric.
        metrics: The metrics of output texts themselves, in the order of `scores`.
    """

    run: str
    split: str | None
    source: str | None = None
    test_set: str | None = None
    sentences: int
    beam: int
    length_penalty: float
    loss: float
    perplexity: float
    free_running_loss: float | None
    token_accuracy: float
    log_probability: float
    truncated: int
    alignment_accuracy: float | None
    alignment_error: float | None
    attention_entropy: float | None
    seconds: float
    sentences_per_second: float
    seed: int | None
    version: str
    scores: Mapping[str, float]
    signatures: Mapping[str, str]
    metrics: Sequence[Metric]

    def to_dict(self) -> dict[str, object]:
        """All values by name, as in JSON; unknown ones are left out.

        There is either `split` or, for given texts, `source`. A text metric has its name, and `NAME_signature` where it
        has one.
        """
        own = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "metrics"}
        scores, signatures = own.pop("scores"), own.pop("signatures")
        known = {name: value for name, value in own.items() if value is not None}
        return known | scores | {f"{name}_signature": signature for name, signature in signatures.items()}

    def __str__(self) -> str:
        return format_table(*evaluation_table([self]))

    def _repr_html_(self) -> str:
        """In a notebook: the table."""
        (_, run), rows = evaluation_table([self])
        lines = [f"<tr><th>{escape(title)}</th><td>{escape(value)}</td></tr>" for title, value in rows]
        return f"<table><thead><tr><th></th><th>{escape(run)}</th></tr></thead><tbody>{''.join(lines)}</tbody></table>"


def evaluation_table(results: Sequence[EvaluationResult]) -> TextTable:
    """Evaluations side by side: a column for each, a row for each metric.

    Args:
        results: The evaluations.
    """
    rows = [["sentences", *(f"{result.sentences:,}" for result in results)]]
    if any(result.test_set for result in results):
        rows.insert(0, ["test set", *(result.test_set or UNKNOWN for result in results)])
    rows += [[metric.title, *(_value_text(result, metric) for result in results)] for metric in _metrics_of(results)]
    return ["", *(result.run for result in results)], rows


def beam_table(results: Sequence[EvaluationResult]) -> TextTable:
    """Evaluations with several beam widths: a row for each width of each run, a column for each metric.

    Args:
        results: The evaluations.
    """
    shown = [metric for metric in _metrics_of(results) if metric.depends_on_search]
    columns = ["beam", *(metric.title for metric in shown)]
    rows = [[str(result.beam), *(_value_text(result, metric) for metric in shown)] for result in results]
    if len({result.run for result in results}) > 1:
        columns = ["run", *columns]
        rows = [[result.run, *row] for result, row in zip(results, rows, strict=True)]
    return columns, rows


def _metrics_of(results: Sequence[EvaluationResult]) -> list[Metric]:
    """The metrics that one of the results has, in the order of tables."""
    named = (metric for result in results for metric in result.metrics)
    values = [result.to_dict() for result in results]
    return [metric for name, metric in known_metrics(named).items() if any(name in each for each in values)]


def _value_text(result: EvaluationResult, metric: Metric) -> str:
    value = result.to_dict().get(metric.name)
    return UNKNOWN if value is None else metric.form.format(value)
