"""Every tensor of one translation by name: which are computed once, which change from step to step, which never do.

Tensors that the parts of a model exchange are named after their fields (`encoding.states`, `state.hidden[0]`), all
others after the module that returned them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from regard.data import EncodedSource
from regard.inference.translator import Translator
from regard.laboratory.translation_trace import ModuleCall, TracedTranslation, record_module_calls, trace_translation
from regard.nn import Dropout
from regard.runs import named_weights
from regard.search import GREEDY

# The name of each tensor by its id. The tensor is kept, because an id may be reused after its object is deleted.
TensorNames = dict[int, tuple[str, Tensor]]
PASS_THROUGH = (Dropout, nn.Identity)  # in evaluation mode these return their input


@dataclass
class TensorTrace:
    """The values of one tensor over the steps of a translation.

    Args:
        name: The tensor's name.
        values: Its value at each step that has one, by the index of the step.
        same_as: The name of an earlier tensor, if this one is the same object; otherwise empty.
    """

    name: str
    values: dict[int, Tensor] = field(default_factory=dict)
    same_as: str = ""

    @property
    def first(self) -> Tensor:
        return next(iter(self.values.values()))

    @property
    def last(self) -> Tensor:
        return list(self.values.values())[-1]

    def changes(self) -> list[int]:
        """The steps at which the value differs from that at the step before; the first step included."""
        steps = list(self.values)
        previous = [None, *self.values.values()]
        return [
            step
            for step, old in zip(steps, previous, strict=False)
            if old is None or not _equal_tensors(old, self.values[step])
        ]

    @property
    def shape(self) -> str:
        """The shape; "first → last" if it changes."""
        first, last = (str(list(each.shape)) for each in (self.first, self.last))
        return first if first == last else f"{first} → {last}"


def _equal_tensors(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one, other)


@dataclass(frozen=True)
class TranslationTensors:
    """All tensors of one translation.

    Args:
        traced: The translation.
        steps: The names of the steps: "encoder", "start", "1", "2", …
        exchanged: The tensors that encoder, decoder and search exchange.
        internal: The other outputs of modules.
        weights: The model's parameters by name.
        changed_weights: The names of parameters that changed during the translation; expected to be empty.
    """

    traced: TracedTranslation
    steps: tuple[str, ...]
    exchanged: tuple[TensorTrace, ...]
    internal: tuple[TensorTrace, ...]
    weights: Mapping[str, Tensor]
    changed_weights: tuple[str, ...]


@torch.no_grad()
def trace_tensors(translator: Translator, text: str | EncodedSource) -> TranslationTensors:
    """Translate the text greedily, replay the translation and record every tensor at every step.

    Args:
        translator: The translator.
        text: The source text.
    """
    model, traced = translator.model, TracedTranslation.of_text(translator, text, GREEDY)
    before = {name: weight.clone() for name, weight in named_weights(model).items()}
    exchanged: dict[str, TensorTrace] = {}
    internal: dict[str, TensorTrace] = {}
    names: TensorNames = {}
    modules = {name: each for name, each in model.named_modules() if not isinstance(each, PASS_THROUGH)}
    with record_module_calls(modules) as calls:
        for step, event in enumerate(trace_translation(model, traced.source_ids, traced.decoder_inputs)):
            _record_values(exchanged, step, list(named_tensors("", event)), names)
            _record_values(internal, step, [each for call in calls for each in _call_tensors(call)], names)
            calls.clear()
    steps = ("encoder", "start", *(str(step) for step in range(1, len(traced.decoder_inputs) + 1)))
    after = named_weights(model)
    changed = tuple(name for name, weight in before.items() if not torch.equal(weight, after[name]))
    own = [each for each in internal.values() if not each.same_as]
    return TranslationTensors(traced, steps, tuple(exchanged.values()), tuple(own), after, changed)


def _call_tensors(call: ModuleCall) -> Iterator[tuple[str, Tensor]]:
    """The tensors in a module's output; before them the scores of an attention mechanism, which it does not return."""
    scores = call.scores()
    if scores is not None:
        yield f"{call.name}.scores", scores
    yield from named_tensors(call.name, call.output)


def _record_values(
    traces: dict[str, TensorTrace], step: int, values: Sequence[tuple[str, Tensor]], names: TensorNames
) -> None:
    """Add the values at a step. A tensor that nested modules return is named after the outermost."""
    for name, value in reversed(values):
        names.setdefault(id(value), (name, value))
    for name, value in values:
        trace = traces.setdefault(name, TensorTrace(name))
        trace.values[step] = value
        if names[id(value)][0] != name:
            trace.same_as = names[id(value)][0]


def named_tensors(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    """All tensors in a value, named by the path of fields and indices that leads to them.

    Args:
        name: The name of the value itself; may be empty.
        value: A tensor, or tuples and dataclasses of tensors; anything else has none.
    """
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, PackedSequence):
        return  # torch's batch without padding; its content is recorded once it is unpacked
    elif isinstance(value, tuple):
        for index, part in enumerate(value):
            yield from named_tensors(f"{name}[{index}]", part)
    elif is_dataclass(value):
        for part in fields(value):
            yield from named_tensors(f"{name}.{part.name}".removeprefix("."), getattr(value, part.name))
