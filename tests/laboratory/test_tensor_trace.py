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
from regard.laboratory.tensor_trace import Trace, tensors, trace
from regard.nn import Encoding

Regard = Callable[..., Any]
TEXT = "abcd"


def test_no_weight_changes_and_all_are_listed(any_model: Translator) -> None:
    found = trace(any_model, TEXT)
    assert found.changed_weights == ()
    assert {name: list(each.shape) for name, each in found.weights.items()} == {
        name: list(each.shape) for name, each in any_model.model.named_parameters()
    }


def test_a_weight_that_changes_is_noticed(
    model_of: Callable[[str], Translator], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_of("dot")
    walk = tensor_trace.trace_translation

    def walk_and_learn(*arguments: Any) -> Any:
        for stop in walk(*arguments):
            model.model.decoder.readout.output_layer.bias += 1
            yield stop

    monkeypatch.setattr(tensor_trace, "trace_translation", walk_and_learn)
    assert trace(model, TEXT).changed_weights == ("decoder.readout.output_layer.bias",)


def test_the_source_is_read_once_and_what_is_known_of_it_stays(any_model: Translator) -> None:
    found = trace(any_model, TEXT)
    steps = [str(step + 1) for step in range(len(found.journey.read))]
    assert found.stops == ("encoder", "start", *steps)
    traces = {each.name: each for each in found.passed}
    assert all(list(each.values) == [0] for name, each in traces.items() if name.startswith("encoding"))
    memories = [each for name, each in traces.items() if "memory" in name or "source[" in name]
    assert memories
    assert all(each.changes() == [1] for each in memories)


def test_states_and_outputs_change_with_every_step(any_model: Translator) -> None:
    found = trace(any_model, TEXT)
    steps = list(range(2, len(found.stops)))
    traces = {each.name: each for each in found.passed}
    assert traces["logits"].changes() == traces["features"].changes() == steps
    hidden = [each for name, each in traces.items() if name.startswith(("state.hidden", "state.past"))]
    assert hidden
    assert all(each.changes()[-len(steps) :] == steps for each in hidden)


def test_what_a_transformer_remembers_grows(model_of: Callable[[str], Translator]) -> None:
    found = trace(model_of("Transformer"), TEXT)
    (keys,) = [each for each in found.passed if each.name == "state.past[2].keys"]
    steps = len(found.journey.read)
    assert [value.shape[-2] for value in keys.values.values()] == list(range(1, steps + 1))
    assert keys.shape.endswith(f", {steps}, {keys.last.shape[-1]}]")
    assert " → " in keys.shape


def test_the_same_tensor_under_another_name_is_told(model_of: Callable[[str], Translator]) -> None:
    found = trace(model_of("dot"), TEXT)
    same = {each.name: each.same_as for each in found.passed}
    assert same["state.memory.keys"] == same["state.memory.values"] == "encoding.states"
    assert same["state.hidden[0]"] == same["logits"] == ""
    names = [each.name for each in found.inside]
    assert "encoder.embedding" in names
    assert not {"decoder.readout", "decoder.first_state[0]"} & set(names), "these have names above"


def test_changes_compare_with_the_stop_before() -> None:
    values = [torch.tensor(each) for each in ([1, 2], [1, 2], [1, 3], [1, 3], [1, 3, 5])]
    assert Trace("x", dict(enumerate(values, start=4))).changes() == [4, 6, 8]


def test_tensors_are_named_by_the_way_to_them() -> None:
    one, two, three = torch.zeros(2), torch.zeros(3), torch.zeros(5)
    found = list(tensors("x", (Encoding(one, two, (three,)), None, 7)))
    assert [name for name, _ in found] == ["x[0].states", "x[0].valid", "x[0].final_state[0]"]
    assert [len(value) for _, value in found] == [2, 3, 5]


def test_the_command_tells_draws_and_dumps(regard: Regard, trained: Path, tmp_path: Path) -> None:
    picture, page = tmp_path / "trace.png", tmp_path / "trace.html"
    answer = regard("trace", trained, "abc", "--out", picture, "--out", page)
    assert answer.code == 0, answer.err
    assert "none has changed, bit by bit" in answer.out
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert b"encoding.states" in page.read_bytes()
    told = json.loads(regard("trace", trained, "abc", "--json").out)
    assert told["changed_weights"] == []
    states = next(each for each in told["passed"] if each["name"] == "encoding.states")
    assert states["shapes"] == {"encoder": [1, 4, 32]}
    logits = next(each for each in told["passed"] if each["name"] == "logits")
    assert logits["changes"] == ["1", "2", "3", "4"]


def test_the_scores_of_attention_are_listed(any_model: Translator) -> None:
    found = {each.name: each for each in trace(any_model, TEXT).inside}
    scores = [each for name, each in found.items() if name.startswith("decoder.") and name.endswith("attention.scores")]
    assert len(scores) >= len(any_model.model.decoder.source_attentions)
    assert all(each.last.shape[-2] == 1 for each in scores), "of one step"
