"""The table of metrics, how metrics are found, and text metrics that are defined elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from regard.config.schema import Experiment
from regard.errors import UserError
from regard.evaluation.evaluation_result import EvaluationResult
from regard.evaluation.metrics import (
    METRICS,
    Metric,
    find_metric,
    known_metrics,
    sentence_statistics,
    task_metrics,
    text_metrics,
)
from regard.evaluation.sentence_statistics import References, SentenceStatistics, mean_statistics
from regard.tasks import TASKS


def count_letters(outputs: Sequence[str], references: References) -> SentenceStatistics:
    return mean_statistics([len(output) for output in outputs])


LETTERS = Metric("letters", "{:.1f}", statistics=count_letters)


def test_a_metric_is_found_by_its_name_or_returned_as_it_is():
    assert find_metric("chrf") == METRICS["chrf"]
    assert find_metric("chrf").name == str(find_metric("chrf")) == "chrf"
    assert find_metric(LETTERS) is LETTERS


def test_an_unknown_metric_is_refused():
    with pytest.raises(UserError, match=r"^'chfr' is not a metric; did you mean 'chrf'\? choices: exact_match, "):
        find_metric("chfr")
    with pytest.raises(UserError, match=r"a metric is given by its name or as a regard\.evaluation\.Metric, not as 5"):
        find_metric(5)


def test_every_built_in_metric_knows_its_name():
    assert {name: metric.name for name, metric in METRICS.items()} == {name: name for name in METRICS}


def test_a_metric_of_ones_own_is_named_by_its_title_and_depends_on_the_search():
    assert LETTERS.name == "letters"
    assert LETTERS.by_sentence
    assert LETTERS.depends_on_search
    assert not METRICS["loss"].depends_on_search
    assert replace(LETTERS, name="my.py:letters").name == "my.py:letters"


def test_built_in_metrics_precede_others():
    assert list(known_metrics()) == list(METRICS)
    assert list(known_metrics([LETTERS, METRICS["chrf"], LETTERS])) == [*METRICS, "letters"]
    with pytest.raises(UserError, match="two metrics have the name 'letters'; give one of them another title"):
        known_metrics([LETTERS, replace(LETTERS, form="{}")])


@pytest.mark.parametrize("name", TASKS)
def test_the_main_metric_of_every_task(name: str):
    kind = TASKS[name]
    main = {"clauses": "bleu_lc", "files": "bleu_lc", "multi30k": "bleu_lc", "g2p": "word_error"}
    assert kind.metrics[0] == main.get(name, "exact_match")
    assert "exact_match" in kind.metrics
    assert all(METRICS[each].by_sentence for each in kind.metrics)


def test_the_metrics_of_a_task_are_computed_in_the_order_of_the_table(
    tiny: Callable[..., Experiment], monkeypatch: pytest.MonkeyPatch
):
    task = tiny().task
    assert [metric.name for metric in text_metrics(task)] == ["exact_match"]
    monkeypatch.setattr(type(task), "metrics", (LETTERS, "chrf", "exact_match"))
    assert [metric.name for metric in task_metrics(task)] == ["letters", "chrf", "exact_match"]
    names = [metric.name for metric in text_metrics(task, ["bleu", "chrf"])]
    assert names == ["exact_match", "bleu", "chrf", "letters"]


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ((), "CopyTask declares no metrics; its attribute 'metrics' needs at least one"),
        (("loss",), "'loss' is not a metric of output texts; those are exact_match, "),
        (("blue",), "'blue' is not a metric; did you mean 'bleu'?"),
        ((3,), "a metric is given by its name or as a regard.evaluation.Metric, not as 3"),
    ],
)
def test_what_a_task_declares_wrongly_is_reported(
    tiny: Callable[..., Experiment], monkeypatch: pytest.MonkeyPatch, declared: tuple[object, ...], message: str
):
    task = tiny().task
    monkeypatch.setattr(type(task), "metrics", declared)
    with pytest.raises(UserError) as caught:
        text_metrics(task)
    assert str(caught.value).startswith(message)


def test_metrics_that_are_fields_of_a_result_exist():
    own = [name for name, metric in METRICS.items() if metric.source == "evaluation" and not metric.by_sentence]
    assert set(own) <= set(EvaluationResult.__dataclass_fields__)


# --- Statistics that are defined elsewhere ---------------------------------------------------------------


def test_the_mean_of_a_value_of_each_sentence():
    statistics = mean_statistics([1, 2.5, 4])
    assert statistics.rows.tolist() == [[1, 1], [2.5, 1], [4, 1]]
    assert statistics.total == 2.5
    assert statistics.of([0, 1]) == 1.75
    assert statistics.score(np.array([[3.0, 2.0], [1.0, 4.0]])).tolist() == [1.5, 0.25]
    with pytest.raises(ValueError, match="no sentences"):
        mean_statistics([])


def test_rows_may_be_lists():
    statistics = SentenceStatistics([[1, 2], [3, 4]], lambda sums: sums[..., 0] / sums[..., 1])  # type: ignore[arg-type]
    assert statistics.total == 4 / 6
    with pytest.raises(ValueError, match=r"rows should be \[sentences, counts\], not of shape \[3\]"):
        SentenceStatistics([1, 2, 3], lambda sums: sums)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("statistics", "message"),
    [
        (lambda outputs, references: 0.5, "a row for each of the 2 sentences, not 0.5"),
        (lambda outputs, references: mean_statistics([1]), "a row for each of the 2 sentences, not 1 rows"),
        (lambda outputs, references: mean_statistics([1, np.nan]), "the score of these 2 sentences is nan, not a numb"),
    ],
)
def test_a_function_that_returns_something_else_is_reported(
    statistics: Callable[[Sequence[str], References], SentenceStatistics], message: str
):
    metric = Metric("mine", "{:.1f}", statistics=statistics, name="my.py:mine")
    with pytest.raises(UserError, match=message) as caught:
        sentence_statistics(metric, ["a", "b"], [("a",), ("b",)])
    assert str(caught.value).startswith("my.py:mine: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("x", "%.2f"), r"x: '%\.2f' should be the format of a number, such as '\{:\.2f\}'"),
        (("x", "{:.2q}"), "should be the format of a number"),
        (("x", 3), "should be the format of a number"),
        ((3, "{}"), "the title of a metric should be a text, not 3"),
        (("x", "{}", True, "evaluation", False, 3), "x: statistics should be a function of outputs and references"),
    ],
)
def test_a_wrong_metric_is_refused(arguments: tuple[Any, ...], message: str):
    with pytest.raises(UserError, match=message):
        Metric(*arguments)


def test_the_class_of_metrics_is_not_a_metric():
    with pytest.raises(UserError, match="cannot be used as metric: it should be an instance of regard"):
        find_metric("regard.evaluation.metrics:Metric")
