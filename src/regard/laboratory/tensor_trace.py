"""Every tensor of one translation with its shape: what is computed once, what changes from step to step, what never.

Tensors that pass between the parts of a model have the names of these values (`encoding.states`, `state.hidden[0]`),
all others that of the module that gave them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from regard.inference.translator import Translator
from regard.laboratory.lab_report import LabReport
from regard.laboratory.translation_trace import Call, TracedTranslation, record_module_calls, trace_translation
from regard.nn import Dropout
from regard.plotting import change_chart
from regard.reports.report_page import Picture, ReportPage, ReportSection, Table
from regard.runs import named_weights
from regard.search import GREEDY

# The name of each tensor, by its identity, which is its own as long as the tensor is there: so it is kept, too.
Names = dict[int, tuple[str, Tensor]]
PASS_ON = (Dropout, nn.Identity)  # these give what they are given


@dataclass
class Trace:
    """One tensor by its name, with its value at each stop of the journey where there is one."""

    name: str
    values: dict[int, Tensor] = field(default_factory=dict)  # by the number of the stop
    same_as: str = ""  # the name of an earlier one, if it is the very same tensor

    @property
    def first(self) -> Tensor:
        return next(iter(self.values.values()))

    @property
    def last(self) -> Tensor:
        return list(self.values.values())[-1]

    def changes(self) -> list[int]:
        """The stops at which it is not what it was at the stop before; the first, at which it comes into being, too."""
        stops = list(self.values)
        before = [None, *self.values.values()]
        return [
            stop for stop, old in zip(stops, before, strict=False) if old is None or not _same(old, self.values[stop])
        ]

    @property
    def shape(self) -> str:
        first, last = (str(list(each.shape)) for each in (self.first, self.last))
        return first if first == last else f"{first} → {last}"


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one, other)


@dataclass(frozen=True)
class Traces:
    journey: TracedTranslation
    stops: tuple[str, ...]  # "encoder", "start", "1", "2", …
    passed: tuple[Trace, ...]  # what passes between encoder, decoder and search
    inside: tuple[Trace, ...]  # what modules compute on the way
    weights: Mapping[str, Tensor]
    changed_weights: tuple[str, ...]


@torch.no_grad()
def trace(translator: Translator, text: str) -> Traces:
    """Translate the text, then go the same way once more and note every tensor at every stop."""
    model, journey = translator.model, TracedTranslation.plan(translator, text, GREEDY)
    before = {name: weight.clone() for name, weight in named_weights(model).items()}
    passed: dict[str, Trace] = {}
    inside: dict[str, Trace] = {}
    names: Names = {}
    modules = {name: each for name, each in model.named_modules() if not isinstance(each, PASS_ON)}
    with record_module_calls(modules) as calls:
        for number, stop in enumerate(trace_translation(model, journey.source, journey.read)):
            _note(passed, number, list(tensors("", stop)), names)
            _note(inside, number, [each for call in calls for each in _outputs(call)], names)
            calls.clear()
    stops = ("encoder", "start", *(str(step) for step in range(1, len(journey.read) + 1)))
    after = named_weights(model)
    changed = tuple(name for name, weight in before.items() if not torch.equal(weight, after[name]))
    own = [each for each in inside.values() if not each.same_as]
    return Traces(journey, stops, tuple(passed.values()), tuple(own), after, changed)


def _outputs(call: Call) -> Iterator[tuple[str, Tensor]]:
    """What a module gave and, before that, the scores of a mechanism, which it keeps to itself."""
    scores = call.scores()
    if scores is not None:
        yield f"{call.name}.scores", scores
    yield from tensors(call.name, call.gave)


def _note(traces: dict[str, Trace], stop: int, values: Sequence[tuple[str, Tensor]], names: Names) -> None:
    """Add the values at a stop. One that two modules give, one within the other, has the name of the outer."""
    for name, value in reversed(values):
        names.setdefault(id(value), (name, value))
    for name, value in values:
        known = traces.setdefault(name, Trace(name))
        known.values[stop] = value
        if names[id(value)][0] != name:
            known.same_as = names[id(value)][0]


def tensors(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    """All tensors in a value, by the names of the fields and the places that lead to them."""
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, PackedSequence):
        return  # torch's own way to write a batch without padding; what it holds comes again, unpacked
    elif isinstance(value, tuple):
        for place, part in enumerate(value):
            yield from tensors(f"{name}[{place}]", part)
    elif is_dataclass(value):
        for part in fields(value):
            yield from tensors(f"{name}.{part.name}".removeprefix("."), getattr(value, part.name))


def trace_report(translator: Translator, text: str) -> LabReport:
    found = trace(translator, text)
    numbers = sum(weight.numel() for weight in found.weights.values())
    changed = "none has changed, bit by bit" if not found.changed_weights else f"changed: {found.changed_weights}"
    weights = tuple((name, str(list(weight.shape)), f"{weight.numel():,}") for name, weight in found.weights.items())
    page = ReportPage(
        title=f"{text} → {found.journey.translation.text}",
        lead="Every tensor of one translation: what changes during inference, and what does not.",
        facts={
            "run": str(translator.runs[0].path),
            "weights": f"{len(found.weights)} tensors, {numbers:,} numbers: {changed}",
            "steps": f"the encoder's, once; the decoder's start; {len(found.journey.read)} steps of the decoder",
        },
        sections=(
            ReportSection(
                "Weights: learned in training, the same for every text",
                (),
                (Table(("tensor", "shape", "numbers"), weights),),
            ),
            ReportSection("What passes between encoder, decoder and search", (), (_table(found.passed),)),
            ReportSection("What is computed on the way", (OF_MODULES,), (_table(found.inside),)),
            ReportSection("What changes when", (), (_picture(found),)),
        ),
    )
    return LabReport(page, _data(translator, text, found))


OF_MODULES = (
    "What modules give is listed by their names, where it is not one of the tensors above, and the scores of attention."
)


def _table(traces: Sequence[Trace]) -> Table:
    rows = [(each.name, each.shape, _told_changes(each), each.same_as and f"is {each.same_as}") for each in traces]
    columns = 4 if any(each.same_as for each in traces) else 3
    head = ("tensor", "shape", "changes", "remark")
    return Table(head[:columns], tuple(row[:columns] for row in rows))


def _told_changes(trace: Trace) -> str:
    """How often it is another than at the stop before."""
    later = len(trace.values) - 1
    if not later:
        return "computed once"
    changes = len(trace.changes()) - 1
    return f"at {changes} of {later} steps" if changes else "never"


def _picture(found: Traces) -> Picture:
    count = len(found.stops)
    rows = {f"all {len(found.weights)} learned weights": [change_chart.KEPT] * count}
    for each in found.passed:
        changes = each.changes()
        rows[f"{each.name}  {each.shape}"] = [
            change_chart.CHANGED
            if stop in changes
            else change_chart.KEPT
            if stop in each.values
            else change_chart.ABSENT
            for stop in range(count)
        ]
    return Picture(change_chart.draw_change_chart(rows, found.stops), "which tensors change at which step")


def _data(translator: Translator, text: str, found: Traces) -> dict[str, Any]:
    def tell(traces: Sequence[Trace]) -> list[dict[str, Any]]:
        return [
            {
                "name": each.name,
                "shapes": {found.stops[stop]: list(value.shape) for stop, value in each.values.items()},
                "changes": [found.stops[stop] for stop in each.changes()],
                "same_as": each.same_as or None,
            }
            for each in traces
        ]

    return {
        "run": str(translator.runs[0].path),
        "source": text,
        "text": found.journey.translation.text,
        "stops": found.stops,
        "weights": {name: list(weight.shape) for name, weight in found.weights.items()},
        "changed_weights": found.changed_weights,
        "passed": tell(found.passed),
        "inside": tell(found.inside),
    }
