"""Results of evaluations as tables, HTML and JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from regard.errors import UserError
from regard.evaluation.evaluation_result import EvaluationResult, beam_table, evaluation_table
from regard.evaluation.metrics import METRICS, Metric
from regard.evaluation.sentence_statistics import exact_match_statistics

OWN = Metric("<i>my</i> metric", "{:.3f}", statistics=exact_match_statistics, name="my.py:metric")


def result(**values: Any) -> EvaluationResult:
    known: dict[str, Any] = {"run": "one", "split": "test", "sentences": 1000, "beam": 1, "length_penalty": 0.0}
    known |= {"loss": 1.25, "perplexity": 3.5, "token_accuracy": 0.5, "log_probability": -2.0, "truncated": 0}
    known |= {"free_running_loss": None}
    known |= {"alignment_accuracy": None, "alignment_error": None, "attention_entropy": None}
    known |= {"seconds": 1.0, "sentences_per_second": 1000.0, "seed": 1, "version": "1"}
    known |= {"scores": {"exact_match": 0.5}, "signatures": {}, "metrics": [METRICS["exact_match"]]}
    return EvaluationResult(**known | values)


OTHER = {
    "run": "two",
    "beam": 5,
    "alignment_accuracy": 0.25,
    "attention_entropy": 1.5,
    "scores": {"exact_match": 0.75, "my.py:metric": 2 / 3},
    "metrics": [METRICS["exact_match"], OWN],
}


def test_runs_are_columns_and_metrics_are_rows():
    columns, rows = evaluation_table([result(), result(**OTHER)])
    assert columns == ["", "one", "two"]
    assert rows[:2] == [["sentences", "1,000", "1,000"], ["exact match", "50.0%", "75.0%"]]
    assert ["alignment accuracy", "–", "25.0%"] in rows
    assert ["attention entropy, bits", "–", "1.50"] in rows
    assert rows[-1] == ["<i>my</i> metric", "–", "0.667"]


def test_the_test_set_is_shown_if_there_are_several():
    own = result(test_set="2018_flickr")
    assert evaluation_table([own, result()])[1][:2] == [
        ["test set", "2018_flickr", "–"],
        ["sentences", "1,000", "1,000"],
    ]
    assert own.to_dict()["test_set"] == "2018_flickr"
    assert "test_set" not in result().to_dict()


def test_beam_widths_are_rows_named_by_run_if_there_are_several():
    columns, rows = beam_table([result(), result(**OTHER)])
    shown = ["exact match", "truncated", "log-probability", "sentences per second"]
    assert columns == ["run", "beam", *shown, "<i>my</i> metric"]
    assert [row[:3] for row in rows] == [["one", "1", "50.0%"], ["two", "5", "75.0%"]]
    assert [row[-1] for row in rows] == ["–", "0.667"]
    assert beam_table([result()])[0] == ["beam", *shown]


def test_print_shows_an_aligned_table():
    head, sentences, *_, last = str(result()).splitlines()
    assert head.split() == ["one"]
    assert sentences.split() == ["sentences", "1,000"]
    assert last.split() == ["sentences", "per", "second", "1,000"]
    assert len({len(line) for line in (head, sentences, last)}) == 1


def test_a_notebook_shows_a_table_in_which_texts_are_escaped():
    page = result(**OTHER | {"run": "<script>"})._repr_html_()
    assert "<th>&lt;script&gt;</th>" in page
    assert "<tr><th>&lt;i&gt;my&lt;/i&gt; metric</th><td>0.667</td></tr>" in page
    assert "<tr><th>exact match</th><td>75.0%</td></tr>" in page
    assert page.count("<tr>") == len(evaluation_table([result(**OTHER)])[1]) + 1


def test_json_has_a_split_or_a_source_and_the_names_of_metrics():
    own = result(**OTHER, signatures={"my.py:metric": "v:1"}).to_dict()
    assert own["split"] == "test"
    assert "source" not in own
    assert own["my.py:metric"] == 2 / 3
    assert own["my.py:metric_signature"] == "v:1"
    given = json.loads(json.dumps(result(split=None, source="a.de", seed=None).to_dict()))
    assert given["source"] == "a.de"
    assert not {"split", "seed", "alignment_accuracy", "metrics", "scores", "signatures"} & given.keys()
    assert list(given)[:3] == ["run", "source", "sentences"]


def test_different_metrics_of_one_name_are_not_shown_in_one_row():
    twin = Metric("other", "{:.1f}", statistics=exact_match_statistics, name=OWN.name)
    with pytest.raises(UserError, match=r"two metrics have the name 'my\.py:metric'"):
        evaluation_table([result(**OTHER), result(**OTHER | {"metrics": [twin]})])
