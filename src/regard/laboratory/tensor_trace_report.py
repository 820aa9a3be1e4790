"""The report of `regard trace`: every tensor of one translation with its shape and its changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.data import EncodedSource
from regard.images import source_label
from regard.inference.translator import Translator
from regard.laboratory.lab_report import LabReport
from regard.laboratory.tensor_trace import TensorTrace, TranslationTensors, trace_tensors
from regard.plotting import change_chart
from regard.reports.report_page import Picture, ReportPage, ReportSection, Table

INTERNAL = "Module outputs by module name, unless they are listed above, and the scores of attention."


def trace_report(translator: Translator, text: str | EncodedSource) -> LabReport:
    """The tensors of one translation: what changes during inference, and what does not.

    Args:
        translator: The translator.
        text: The source text.
    """
    source = translator.encode(text)
    found = trace_tensors(translator, source)
    count = sum(weight.numel() for weight in found.weights.values())
    changed = "none has changed, bit by bit" if not found.changed_weights else f"changed: {found.changed_weights}"
    weights = tuple((name, str(list(weight.shape)), f"{weight.numel():,}") for name, weight in found.weights.items())
    page = ReportPage(
        title=f"{source_label(source.text)} → {found.traced.translation.text}",
        lead="Every tensor of one translation: what changes during inference, and what does not.",
        facts={
            "run": str(translator.runs[0].path),
            "weights": f"{len(found.weights)} tensors, {count:,} elements: {changed}",
            "steps": f"encoder once, decoder start, {len(found.traced.decoder_inputs)} decoder steps",
        },
        sections=(
            ReportSection(
                "Weights: learned in training, the same for every text",
                (),
                (Table(("tensor", "shape", "elements"), weights),),
            ),
            ReportSection("Tensors exchanged by encoder, decoder and search", (), (_trace_table(found.exchanged),)),
            ReportSection("Tensors computed inside modules", (INTERNAL,), (_trace_table(found.internal),)),
            ReportSection("Changes by step", (), (_change_picture(found),)),
        ),
    )
    return LabReport(page, _trace_data(translator, source.text, found))


def _trace_table(traces: Sequence[TensorTrace]) -> Table:
    rows = [(each.name, each.shape, _change_count(each), each.same_as and f"is {each.same_as}") for each in traces]
    columns = 4 if any(each.same_as for each in traces) else 3
    head = ("tensor", "shape", "changes", "remark")
    return Table(head[:columns], tuple(row[:columns] for row in rows))


def _change_count(trace: TensorTrace) -> str:
    """At how many steps the value differs from that at the step before."""
    later = len(trace.values) - 1
    if not later:
        return "computed once"
    changes = len(trace.changes()) - 1
    return f"at {changes} of {later} steps" if changes else "never"


def _change_picture(found: TranslationTensors) -> Picture:
    count = len(found.steps)
    rows = {f"all {len(found.weights)} learned weights": [change_chart.KEPT] * count}
    for each in found.exchanged:
        changes = each.changes()
        rows[f"{each.name}  {each.shape}"] = [
            change_chart.CHANGED
            if step in changes
            else change_chart.KEPT
            if step in each.values
            else change_chart.ABSENT
            for step in range(count)
        ]
    return Picture(change_chart.draw_change_chart(rows, found.steps), "which tensors change at which step")


def _trace_data(translator: Translator, text: str, found: TranslationTensors) -> dict[str, Any]:
    def rows(traces: Sequence[TensorTrace]) -> list[dict[str, Any]]:
        return [
            {
                "name": each.name,
                "shapes": {found.steps[step]: list(value.shape) for step, value in each.values.items()},
                "changes": [found.steps[step] for step in each.changes()],
                "same_as": each.same_as or None,
            }
            for each in traces
        ]

    return {
        "run": str(translator.runs[0].path),
        "source": text,
        "text": found.traced.translation.text,
        "steps": found.steps,
        "weights": {name: list(weight.shape) for name, weight in found.weights.items()},
        "changed_weights": found.changed_weights,
        "exchanged": rows(found.exchanged),
        "internal": rows(found.internal),
    }
