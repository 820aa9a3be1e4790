"""Which tensors change during inference, and which do not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.inference.translator import Translator
from regard.laboratory import tensor_trace
from regard.laboratory.tensor_trace import TensorTrace, named_tensors, trace_tensors
from regard.nn import Encoding

Regard = Callable[..., Any]
TEXT = "abcd"


def test_no_weight_changes_and_all_are_listed(any_model: Translator) -> None:
    found = trace_tensors(any_model, TEXT)
    assert found.changed_weights == ()
    assert {name: list(each.shape) for name, each in found.weights.items()} == {
        name: list(each.shape) for name, each in any_model.model.named_parameters()
    }


def test_a_changed_weight_is_reported(model_of: Callable[[str], Translator], monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("dot")
    original = tensor_trace.trace_translation

    def trace_and_update(*arguments: Any) -> Any:
        for event in original(*arguments):
            model.model.decoder.readout.output_layer.bias += 1
            yield event

    monkeypatch.setattr(tensor_trace, "trace_translation", trace_and_update)
    assert trace_tensors(model, TEXT).changed_weights == ("decoder.readout.output_layer.bias",)


def test_source_is_encoded_once_and_its_memory_never_changes(any_model: Translator) -> None:
    found = trace_tensors(any_model, TEXT)
    steps = [str(step + 1) for step in range(len(found.traced.decoder_inputs))]
    assert found.steps == ("encoder", "start", *steps)
    traces = {each.name: each for each in found.exchanged}
    assert all(list(each.values) == [0] for name, each in traces.items() if name.startswith("encoding"))
    memories = [each for name, each in traces.items() if "memory" in name or "source[" in name]
    assert memories
    assert all(each.changes() == [1] for each in memories)


def test_states_and_outputs_change_with_every_step(any_model: Translator) -> None:
    found = trace_tensors(any_model, TEXT)
    steps = list(range(2, len(found.steps)))
    traces = {each.name: each for each in found.exchanged}
    assert traces["logits"].changes() == traces["features"].changes() == steps
    hidden = [each for name, each in traces.items() if name.startswith(("state.hidden", "state.past"))]
    assert hidden
    assert all(each.changes()[-len(steps) :] == steps for each in hidden)


def test_transformer_cache_grows(model_of: Callable[[str], Translator]) -> None:
    found = trace_tensors(model_of("Transformer"), TEXT)
    (keys,) = [each for each in found.exchanged if each.name == "state.past[2].keys"]
    steps = len(found.traced.decoder_inputs)
    assert [value.shape[-2] for value in keys.values.values()] == list(range(1, steps + 1))
    assert keys.shape.endswith(f", {steps}, {keys.last.shape[-1]}]")
    assert " → " in keys.shape


def test_aliases_of_a_tensor_are_reported(model_of: Callable[[str], Translator]) -> None:
    found = trace_tensors(model_of("dot"), TEXT)
    same = {each.name: each.same_as for each in found.exchanged}
    assert same["state.memory.keys"] == same["state.memory.values"] == "encoding.states"
    assert same["state.hidden[0]"] == same["logits"] == ""
    names = [each.name for each in found.internal]
    assert "encoder.embedding" in names
    assert not {"decoder.readout", "decoder.first_state[0]"} & set(names), "these are exchanged"


def test_changes_compare_with_the_step_before() -> None:
    values = [torch.tensor(each) for each in ([1, 2], [1, 2], [1, 3], [1, 3], [1, 3, 5])]
    assert TensorTrace("x", dict(enumerate(values, start=4))).changes() == [4, 6, 8]


def test_tensors_are_named_by_their_path() -> None:
    one, two, three = torch.zeros(2), torch.zeros(3), torch.zeros(5)
    found = list(named_tensors("x", (Encoding(one, two, (three,)), None, 7)))
    assert [name for name, _ in found] == ["x[0].states", "x[0].valid", "x[0].final_state[0]"]
    assert [len(value) for _, value in found] == [2, 3, 5]


def test_command_prints_draws_and_writes_json(regard: Regard, trained: Path, tmp_path: Path) -> None:
    picture, page = tmp_path / "trace.png", tmp_path / "trace.html"
    answer = regard("trace", trained, "abc", "--out", picture, "--out", page)
    assert answer.code == 0, answer.err
    assert "none has changed, bit by bit" in answer.out
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert b"encoding.states" in page.read_bytes()
    data = json.loads(regard("trace", trained, "abc", "--json").out)
    assert data["changed_weights"] == []
    states = next(each for each in data["exchanged"] if each["name"] == "encoding.states")
    assert states["shapes"] == {"encoder": [1, 4, 32]}
    logits = next(each for each in data["exchanged"] if each["name"] == "logits")
    assert logits["changes"] == ["1", "2", "3", "4"]


def test_attention_scores_are_listed(any_model: Translator) -> None:
    found = {each.name: each for each in trace_tensors(any_model, TEXT).internal}
    scores = [each for name, each in found.items() if name.startswith("decoder.") and name.endswith("attention.scores")]
    if any_model.experiment.model.attention.has_scores:
        assert len(scores) >= len(any_model.model.decoder.source_attentions)
    else:
        assert scores == [], "a mechanism without scores"
    assert all(each.last.shape[-2] == 1 for each in scores), "of one step"
