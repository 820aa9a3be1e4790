"""The report of `regard probe`: what linear probes predict from the states of encoder, bottleneck and decoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import torch

from regard.inference.translator import ProgressCallback, Translator, no_progress
from regard.laboratory.formatting import format_percent
from regard.laboratory.lab_report import LabReport
from regard.laboratory.probe_tasks import (
    MAX_STATES,
    MAX_TOKEN_INDEX,
    MIN_TEST_STATES,
    MIN_TRAIN_STATES,
    TOKEN_SETS,
    ProbeData,
    ProbeResult,
    accuracies,
    accuracies_by_length,
    length_ranges,
    load_probe_data,
    run_probes,
    within,
)
from regard.laboratory.probes import MAX_LABELS
from regard.laboratory.states import BOTTLENECK, DECODER, ENCODER, describe_bottleneck
from regard.plotting.band_plot import Band, draw_bands
from regard.plotting.figures import message_figure
from regard.reports.report_page import Picture, ReportPage, ReportSection, Table

MAX_ROWS = 12  # in the table of k-th tokens
COLUMNS = ("classes", "train", "test", "accuracy", "majority", "control", "gain")
LINES = {"accuracy": "linear probe", "majority": "majority", "control": "control: shuffled labels"}
# The columns of the table by length, and their titles.
LENGTH_COLUMNS = {
    **{name: name for name in TOKEN_SETS},
    f"{BOTTLENECK}, last token": "last",
    f"{BOTTLENECK}, prompt": "prompt",
    f"{BOTTLENECK}, length": "length itself",
    f"{ENCODER}, position i": "position i",
    f"{DECODER}, step t": "step t",
}

LEAD = (
    "A linear probe predicts a label from a state x: softmax(W x + b). Its accuracy on sentences that it was not "
    "trained on shows what the state contains in a linearly readable form."
)
EXPLANATION = (
    "Input: an embedding with its position encoding, as the encoder or the decoder reads it. What a probe predicts "
    "from the input already, the states need not have computed.",
    "Majority: the accuracy of the most frequent training label. Control: the accuracy of the same probe trained and "
    "tested on shuffled labels (control task). Gain: accuracy minus the larger of the two. "
    "The L2 penalty is selected on a fifth of the training states.",
)
BY_TOKEN = (
    "The accuracy on n test sentences has a margin of error of up to 100/√n points in either direction. "
    f"There are probes up to k = {MAX_TOKEN_INDEX}, if {MIN_TRAIN_STATES} sentences of the train split are that long, "
    f"and {MIN_TEST_STATES} of the test split."
)
BY_LENGTH = (
    "The accuracy of the same probes on sentences in a range of lengths. From the bottleneck: every k-th {0}, then the "
    "first, the middle and the last one, the prompt, and the length itself. From the encoder: position. From the "
    "decoder: step."
)


def probe_report(
    translator: Translator,
    limit: int | None,
    seed: int,
    expect: ProgressCallback = no_progress,
    advance: ProgressCallback = no_progress,
) -> LabReport:
    """Probes trained on the train split and tested on the test split.

    Args:
        translator: The translator.
        limit: The maximum number of sentences of each split; None for all.
        seed: The seed of sampled states and shuffled labels.
        expect: Called once with the number of probes.
        advance: Called with the number of probes done.
    """
    train, test, notes = load_probe_data(translator, limit, seed)
    lengths = torch.tensor([len(sentence.content) for sentence in test.sentences], device="cpu")
    results, skipped = run_probes(train, test, seed, expect, advance)
    notes += [f"Omitted: {', '.join(names)}; {why}." for why, names in skipped.items()]
    rows = [_result_data(each) for each in results]
    by_length = [
        {
            "lengths": list(bounds),
            "sentences": int(within(bounds, lengths).sum()),
            **accuracies_by_length(results, bounds),
        }
        for bounds in length_ranges(lengths)
    ]
    facts = {
        "run": str(translator.runs[0].path),
        "trained on": f"{len(train.sentences):,} sentences of the train split",
        "tested on": f"{len(test.sentences):,} others, of the test split",
        "states": f"at most {MAX_STATES:,} of a kind, sampled with seed {seed}",
        "bottleneck": describe_bottleneck(translator.experiment.model, test.states[BOTTLENECK].vectors.shape[1]),
    }
    page = ReportPage("Linear probes", LEAD, facts, _probe_sections(rows, by_length, token_unit(train), notes))
    counts = {"train_sentences": len(train.sentences), "test_sentences": len(test.sentences)}
    data = {"run": facts["run"], "bottleneck": facts["bottleneck"], "seed": seed, "notes": notes}
    return LabReport(page, data | counts | {"probes": rows, "by_length": by_length})


def token_unit(data: ProbeData) -> str:
    """The name of a source token: "character" if all have one character, otherwise "token".

    Args:
        data: The sentences.
    """
    return "character" if all(len(t) == 1 for sentence in data.sentences for t in sentence.content) else "token"


def _result_data(result: ProbeResult) -> dict[str, Any]:
    evaluation, shares = result.evaluation, accuracies(result.correct)
    return {
        "from": result.task.kind,
        "label": result.task.label_name,
        "k": result.task.k,
        "classes": evaluation.classes,
        "has_other_class": evaluation.has_other_class,
        "train": evaluation.train_states,
        "test": evaluation.test_states,
        "penalty": evaluation.penalty,
        **shares,
        "gain": (shares["accuracy"] or 0) - max(shares["majority"] or 0, shares["control"] or 0),
        "train_accuracy": evaluation.probe.train_accuracy,
        "control_train_accuracy": evaluation.control.train_accuracy,
    }


def _probe_sections(
    results: Sequence[Mapping[str, Any]], by_length: Sequence[Mapping[str, Any]], unit: str, notes: Sequence[str]
) -> tuple[ReportSection, ...]:
    probes, by_token = [each for each in results if not each["k"]], [each for each in results if each["k"]]
    few = by_token[:: max(1, ceil(len(by_token) / MAX_ROWS))]
    rare = f"Of more than {MAX_LABELS} labels, all but the {MAX_LABELS} most frequent in training share one class."
    text = (*EXPLANATION, *([rare] if any(each["has_other_class"] for each in results) else []), *notes)
    return (
        ReportSection("Accuracy by state and label", text, (_results_table(probes, ("from", "label", *COLUMNS)),)),
        ReportSection(
            f"The k-th {unit}, from the bottleneck",
            (BY_TOKEN,),
            (_accuracy_picture(by_token, by_length, unit), _results_table(few, ("k", *COLUMNS))),
        ),
        ReportSection("By length of the source", (BY_LENGTH.format(unit),), (_accuracy_by_length_table(by_length),)),
    )


def _results_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Table:
    return Table(tuple(columns), tuple(tuple(_format_value(row[column]) for column in columns) for row in rows))


def _accuracy_by_length_table(by_length: Sequence[Mapping[str, Any]]) -> Table:
    """The accuracy of each probe; those of the k-th token together, and by token set."""
    rows = []
    for each in by_length:
        first, last = each["lengths"]
        row = {"length": f"{first}" if first == last else f"{first}–{last}", "sentences": each["sentences"]}
        rows.append(row | {name: each[key]["accuracy"] for key, name in LENGTH_COLUMNS.items() if key in each})
    return _results_table(rows, tuple(rows[0]) if rows else ("length", "sentences"))


def _format_value(value: object) -> str:
    match value:
        case None:
            return "–"
        case float():
            return format_percent(value)
        case int():
            return f"{value:,}"
    return str(value)


def _accuracy_picture(
    by_token: Sequence[Mapping[str, Any]], by_length: Sequence[Mapping[str, Any]], unit: str
) -> Picture:
    alt = f"accuracy of linear probes that predict the k-th {unit} of a source from the bottleneck, by k and by length"
    if not by_token:
        return Picture(message_figure(f"no {unit} could be probed", None), alt)
    bands = []
    for column, label in LINES.items():
        k, shares = tuple(each["k"] for each in by_token), tuple(each[column] for each in by_token)
        bands.append(Band(label, k, (shares,), "by position k"))
    for column, label in LINES.items() if by_length else ():
        middles, shares = zip(*((sum(each["lengths"]) / 2, each["all"][column]) for each in by_length), strict=True)
        bands.append(Band(label, middles, (shares,), "by length of the source"))
    caption = f"At the right end, by position, only the longest sources are left: these are their last {unit}s."
    return Picture(draw_bands(bands, f"{unit}s", f"accuracy for the k-th {unit}", percent=True), alt, caption)
