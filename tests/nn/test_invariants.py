"""Invariants of every combination of encoder, decoder and mechanism."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from regard import nn
from regard.config import kinds
from regard.config.schema import ModelSection
from regard.nn.transformer import TransformerState

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def teacher_forced(model: nn.Seq2Seq, source: Tensor, valid: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
    return model.decoder.teacher_forced(inputs, model.start(source, valid))


def steps(model: nn.Seq2Seq, inputs: Tensor, state: nn.State) -> tuple[Tensor, Tensor]:
    """Logits and weights, as `teacher_forced` gives them, one step at a time."""
    logits, weights = [], []
    for token in inputs.unbind(1):
        output, state = model.decoder.step(token, state)
        logits.append(output)
        weights.append(state.weights)
    return torch.stack(logits, 1), torch.stack(weights, -2)


def loss(model: nn.Seq2Seq, source: Tensor, valid: Tensor, data: Any) -> Tensor:
    logits = model(source, valid, data.inputs, data.steps_valid)
    return cross_entropy(logits, data.outputs[data.steps_valid])


def gradients(model: nn.Seq2Seq, value: Tensor) -> dict[str, Tensor | None]:
    named = dict(model.named_parameters())
    return dict(zip(named, torch.autograd.grad(value, list(named.values()), allow_unused=True), strict=True))


# For every encoder with every decoder with every mechanism


@torch.inference_mode()
def test_padding_changes_nothing(any_model, data) -> None:
    model = any_model.model
    logits, weights = teacher_forced(model, data.source, data.valid, data.inputs)
    more_logits, more_weights = teacher_forced(model, *data.padded(5), data.inputs)
    torch.testing.assert_close(more_logits, logits, **CLOSE)
    torch.testing.assert_close(more_weights[..., : data.source.shape[1]], weights, **CLOSE)
    source, valid = data.row(2)
    assert 1 < source.shape[1] < data.source.shape[1]
    alone_logits, alone_weights = teacher_forced(model, source, valid, data.inputs[2:])
    torch.testing.assert_close(alone_logits[0], logits[2], **CLOSE)
    torch.testing.assert_close(alone_weights[0], weights[2, ..., : source.shape[1]], **CLOSE)


@torch.inference_mode()
def test_weights_are_a_distribution_over_valid_positions(any_model, data) -> None:
    section, decoder = any_model.section, any_model.model.decoder
    _, weights = teacher_forced(any_model.model, data.source, data.valid, data.inputs)
    batch, positions = data.source.shape
    sizes = {"layer": section.decoder.layers, "head": getattr(section.attention, "heads", 0)}
    assert weights.shape == (batch, *(sizes[axis] for axis in decoder.weight_axes), data.inputs.shape[1], positions)
    assert (weights >= 0).all()
    padding = ~data.valid.view(batch, *[1] * (weights.dim() - 2), positions)
    assert not weights.masked_select(padding).any(), "weights are exactly zero on padding"
    total = 0.0 if section.attention.kind == "none" else 1.0
    torch.testing.assert_close(weights.sum(-1), torch.full(weights.shape[:-1], total), **CLOSE)
    if getattr(section.attention, "hard", False):
        assert set(weights.unique().tolist()) == {0.0, 1.0}


@torch.inference_mode()
def test_teacher_forced_equals_repeated_steps(any_model, data) -> None:
    model = any_model.model
    state = model.start(data.source, data.valid)
    logits, weights = model.decoder.teacher_forced(data.inputs, state)
    step_logits, step_weights = steps(model, data.inputs, state)
    torch.testing.assert_close(step_logits, logits, **CLOSE)
    torch.testing.assert_close(step_weights, weights, **CLOSE)


def test_every_parameter_that_affects_the_loss_gets_a_finite_gradient(any_model, data) -> None:
    attention, model = any_model.section.attention, any_model.model
    scored = attention.has_scores and not getattr(attention, "hard", False)
    for name, gradient in gradients(model, loss(model, data.source, data.valid, data)).items():
        if gradient is None:
            assert not scored, f"{name} does not affect the loss"
            continue
        assert gradient.isfinite().all(), name
        # A softmax does not change when a constant is added to all scores, which is all that this bias does.
        if scored and not name.endswith("attention.key_layer.bias"):
            assert gradient.any(), f"{name} has a gradient of zero"


def test_the_settings_know_the_longest_sequence(any_model) -> None:
    for side in ("encoder", "decoder"):
        section, module = getattr(any_model.section, side), getattr(any_model.model, side)
        assert module.max_length == section.positions.max_length
        assert (module.max_length is None) == (section.positions.kind not in ("learned", "one-hot"))


# For every decoder with every mechanism and option, each with some encoder


def test_padding_changes_no_gradient(any_model, data) -> None:
    model = any_model.model
    plain = gradients(model, loss(model, data.source, data.valid, data))
    padded = gradients(model, loss(model, *data.padded(5), data))
    torch.testing.assert_close(padded, plain, **CLOSE)


@torch.inference_mode()
def test_teacher_forced_with_valid_returns_the_valid_steps_in_order(any_model, data) -> None:
    model = any_model.model
    state = model.start(data.source, data.valid)
    logits, weights = model.decoder.teacher_forced(data.inputs, state)
    real_logits, same_weights = model.decoder.teacher_forced(data.inputs, state, data.steps_valid)
    torch.testing.assert_close(real_logits, logits[data.steps_valid], **CLOSE)
    torch.testing.assert_close(same_weights, weights, **CLOSE)
    torch.testing.assert_close(model(data.source, data.valid, data.inputs, data.steps_valid), real_logits, **CLOSE)


@torch.inference_mode()
def test_forward_steps_in_chunks_equals_one_call(any_model, data) -> None:
    model = any_model.model
    state = model.start(data.source, data.valid)
    features, weights, end = model.decoder.forward_steps(data.inputs, state)
    chunks = []
    for chunk in data.inputs.split((2, 2, 1), 1):
        *outputs, state = model.decoder.forward_steps(chunk, state)
        chunks.append(outputs)
    torch.testing.assert_close(torch.cat([chunk[0] for chunk in chunks], 1), features, **CLOSE)
    torch.testing.assert_close(torch.cat([chunk[1] for chunk in chunks], -2), weights, **CLOSE)
    torch.testing.assert_close(state.weights, end.weights, **CLOSE)
    assert state.position == end.position == data.inputs.shape[1]


@torch.inference_mode()
def test_the_state_holds_the_attention_weights_of_the_latest_step(any_model, data) -> None:
    decoder = any_model.model.decoder
    state = any_model.model.start(data.source, data.valid)
    assert state.weights is None, "there are no weights before the first step"
    _, weights, state = decoder.forward_steps(data.inputs, state)
    assert torch.equal(state.weights, weights[..., -1, :])


@torch.inference_mode()
def test_scheduled_sampling_with_a_full_mask_equals_teacher_forcing(any_model, data) -> None:
    model = any_model.model
    all_true = torch.ones_like(data.steps_valid)
    state = model.start(data.source, data.valid)
    expected, _ = model.decoder.teacher_forced(data.inputs, state)
    torch.testing.assert_close(model.decoder.scheduled_sampling(data.inputs, state, all_true), expected, **CLOSE)


@torch.inference_mode()
def test_where_the_mask_is_false_the_model_reads_its_own_most_likely_token(any_model, data) -> None:
    model = any_model.model
    teacher_forcing_mask = torch.tensor(
        [[0, 0, 0, 0, 0], [0, 0, 1, 0, 1], [1, 1, 0, 1, 0]]
    ).bool()  # one entry per token
    state = model.start(data.source, data.valid)
    read = data.inputs.clone()
    for step in range(1, read.shape[1]):
        predicted = model.decoder.teacher_forced(read[:, :step], state)[0][:, -1].argmax(-1)
        read[:, step] = torch.where(teacher_forcing_mask[:, step], read[:, step], predicted)
    expected, _ = model.decoder.teacher_forced(read, state)
    actual = model.decoder.scheduled_sampling(data.inputs, state, teacher_forcing_mask)
    torch.testing.assert_close(actual, expected, **CLOSE)
    flat = model(data.source, data.valid, data.inputs, data.steps_valid, teacher_forcing_mask)
    torch.testing.assert_close(flat, actual[data.steps_valid], **CLOSE)


@torch.inference_mode()
@pytest.mark.parametrize("before", [0, 2])
def test_select_commutes_with_step(any_model, data, before: int) -> None:
    model = any_model.model
    state = model.start(data.source, data.valid)
    if before:
        *_, state = model.decoder.forward_steps(data.inputs[:, :before], state)
    rest = data.inputs[:, before : before + 2]
    logits, weights = steps(model, rest, state)
    for rows in map(torch.tensor, ([2, 0, 1], [1, 1, 0, 2], [2])):
        chosen = state.select(rows)
        if before:
            assert torch.equal(chosen.weights, state.weights[rows])
        chosen_logits, chosen_weights = steps(model, rest[rows], chosen)
        torch.testing.assert_close(chosen_logits, logits[rows], **CLOSE)
        torch.testing.assert_close(chosen_weights, weights[rows], **CLOSE)


# Which rows continue before each step, for each source: one becomes three, they are reordered, a source leaves and the
# others are reordered, three become two, and two one.
MOVES = (
    [[0, 0, 0], [1, 1, 1], [2, 2, 2]],
    [[2, 0, 1], [3, 3, 5], [8, 7, 6]],
    [[7, 6, 8], [1, 1, 0]],
    [[2, 0], [3, 5]],
    [1, 2],
)


def memories(state: Any) -> list[nn.Memory]:
    """The encoded sources, one memory per layer that attends to them."""
    return list(state.source) if isinstance(state, TransformerState) else [state.memory]


def own_tensors(state: Any) -> list[Tensor]:
    """The tensors of the state that belong to each row alone."""
    if isinstance(state, TransformerState):
        return [part for past in state.past for part in (past.keys, past.values)]
    return [part.transpose(0, 1) for part in state.hidden]


@torch.inference_mode()
@pytest.mark.parametrize("before", [0, 2])
def test_hypotheses_that_share_a_source_continue_as_with_sources_of_their_own(any_model, data, before: int) -> None:
    model = any_model.model
    state, read, origins = model.start(data.source, data.valid), data.inputs[:, :before], torch.arange(len(data.source))
    if before:
        *_, state = model.decoder.forward_steps(read, state)
    for step, index in enumerate(map(torch.tensor, MOVES)):
        rows = index.flatten()
        token = torch.arange(len(rows)) + step  # a different token for each row
        origins, read = origins[rows], torch.cat([read[rows], token.unsqueeze(1)], 1)
        logits, state = model.decoder.step(token, state.select(index))
        features, _, copied = model.decoder.forward_steps(read, model.start(data.source[origins], data.valid[origins]))
        torch.testing.assert_close(logits, model.decoder.readout(features[:, -1]), **CLOSE)
        torch.testing.assert_close(state.weights, copied.weights, **CLOSE)
        torch.testing.assert_close(own_tensors(state), own_tensors(copied), **CLOSE)
        assert state.position == copied.position
        assert all(len(memory.keys) == len(memory.values) == len(index) for memory in memories(state))


@torch.inference_mode()
def test_repeated_selections_compose(any_model, data) -> None:
    model = any_model.model
    *_, state = model.decoder.forward_steps(data.inputs[:, :2], model.start(data.source, data.valid))
    one, two, three = map(torch.tensor, MOVES[:3])
    token = torch.arange(three.numel())
    logits, twice = model.decoder.step(token, state.select(one).select(two).select(three))
    expected, once = model.decoder.step(token, state.select(one.flatten()[two.flatten()[three]]))
    torch.testing.assert_close(logits, expected, **CLOSE)
    torch.testing.assert_close(twice.weights, once.weights, **CLOSE)


@torch.inference_mode()
def test_source_memory_is_copied_only_when_sources_leave_or_are_reordered(any_model, data) -> None:
    model = any_model.model
    state = model.start(data.source, data.valid)
    before = memories(state)

    def data_pointers(memory_list: list[nn.Memory]) -> list[int]:
        return [part.data_ptr() for memory in memory_list for part in (memory.keys, memory.values, memory.valid)]

    for index in map(torch.tensor, MOVES[:2]):
        _, state = model.decoder.step(index.flatten(), state.select(index))
        assert data_pointers(memories(state)) == data_pointers(before)
    after = memories(state.select(torch.tensor(MOVES[2])))
    for new, old in zip(after, before, strict=True):
        assert torch.equal(new.keys, old.keys[[2, 0]])
        assert torch.equal(new.values, old.values[[2, 0]])
        assert torch.equal(new.valid, old.valid[[2, 0]])


@torch.inference_mode()
def test_a_step_depends_on_its_own_token_and_not_on_later_ones(any_model, data) -> None:
    model = any_model.model
    state = model.start(data.source, data.valid)
    logits, weights = model.decoder.teacher_forced(data.inputs, state)
    for step in range(data.inputs.shape[1]):
        changed = data.inputs.clone()
        changed[:, step:] = (changed[:, step:] + 1) % logits.shape[-1]
        other_logits, other_weights = model.decoder.teacher_forced(changed, state)
        torch.testing.assert_close(other_logits[:, :step], logits[:, :step], **CLOSE)
        torch.testing.assert_close(other_weights[..., :step, :], weights[..., :step, :], **CLOSE)
        assert not torch.allclose(other_logits[:, step], logits[:, step], **CLOSE)


@torch.inference_mode()
def test_a_step_does_not_modify_the_state_it_is_given(any_model, data) -> None:
    model = any_model.model
    state = model.start(data.source, data.valid)
    *_, middle = model.decoder.forward_steps(data.inputs[:, :2], state)
    for begin in (state, middle):
        first, _ = model.decoder.step(data.inputs[:, 2], begin)
        model.decoder.step(data.inputs[:, 3], begin)
        again, _ = model.decoder.step(data.inputs[:, 2], begin)
        assert torch.equal(first, again)


def stored_values(model: nn.Seq2Seq) -> dict[tuple[str, str], Any]:
    """The attributes of all modules, by identity; containers by the identity of their items."""

    def identity(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: id(item) for key, item in value.items()}
        return [id(item) for item in value] if isinstance(value, list | tuple | set) else id(value)

    modules = model.named_modules()
    return {(name, key): identity(value) for name, module in modules for key, value in vars(module).items()}


def test_modules_store_nothing_of_a_call(any_model, data) -> None:
    model = any_model.model
    before, parameters = stored_values(model), {name: value.clone() for name, value in model.state_dict().items()}
    state = model.start(data.source, data.valid)
    model.decoder.teacher_forced(data.inputs, state)
    model.decoder.scheduled_sampling(data.inputs, state, data.steps_valid)
    model.decoder.step(data.inputs[:, 0], state)
    assert stored_values(model) == before
    after = model.state_dict()
    assert after.keys() == parameters.keys()
    assert all(torch.equal(after[name], parameters[name]) for name in parameters), "parameters change only in training"


# Coverage of the enumeration


def choices(section: ModelSection) -> set[tuple[str, str]]:
    """The choices that this model was built from, as far as they apply to it."""
    encoder, decoder, attention = section.encoder, section.decoder, section.attention
    chosen = {("encoder", encoder.kind), ("decoder", decoder.kind), ("mechanism", attention.kind)}
    chosen |= {(f"{side} layers", str(coder.layers)) for side, coder in (("source", encoder), ("target", decoder))}
    chosen |= {("source positions", encoder.positions.kind), ("target positions", decoder.positions.kind)}
    chosen |= {("readout", decoder.readout)}
    chosen |= {("option", option) for option in ("hard", "unit_norm") if getattr(attention, option, False)}
    if encoder.kind == "recurrent":
        chosen |= {("encoder cell", encoder.cell), ("directions", "both" if encoder.bidirectional else "one")}
    if decoder.kind == "recurrent":
        chosen |= {("decoder cell", decoder.cell), ("wiring", decoder.wiring), ("start", decoder.start)}
    return chosen


def test_any_two_choices_are_combined_in_some_model(all_sections) -> None:
    """Except where one makes the other meaningless or impossible."""
    recurrent_only = {"encoder cell", "directions"}, {"decoder cell", "wiring", "start"}
    chosen_by_model = [choices(section) for section in all_sections]
    pairs = {frozenset(pair) for chosen in chosen_by_model for pair in combinations(sorted(chosen), 2)}
    everything = sorted(set().union(*chosen_by_model))

    def possible(one: tuple[str, str], other: tuple[str, str]) -> bool:
        names, values = {one[0], other[0]}, {one[1], other[1]}
        without_scores = "option" in names and values & {"none", "mean"} and "mechanism" in names
        no_cell = "self-attention" in values and names & recurrent_only[0]
        no_cell = no_cell or ("transformer" in values and names & recurrent_only[1])
        # A copied start needs equal numbers of layers and the same memory cells on both sides.
        copy = ("start", "copy") in (one, other) and "2" in values and "self-attention" in values
        return len(names) == 2 and not (without_scores or no_cell or copy)

    missing = [pair for pair in product(everything, repeat=2) if possible(*pair) and frozenset(pair) not in pairs]
    assert missing == []


def test_the_full_tests_include_every_model_of_the_default_ones(sampled_and_all_choices) -> None:
    sampled, everything = sampled_and_all_choices
    assert set(sampled) < set(everything)


@pytest.mark.parametrize(
    ("kind", "table"),
    [
        ("mechanism", kinds.MECHANISMS),
        ("encoder cell", kinds.CELLS),
        ("decoder cell", kinds.CELLS),
        ("wiring", kinds.WIRINGS),
        ("start", kinds.STARTS),
        ("readout", kinds.READOUTS),
        ("source positions", kinds.POSITIONS),
        ("target positions", kinds.POSITIONS),
    ],
)
def test_every_entry_of_a_table_is_in_some_model(all_sections, kind: str, table: dict[str, Any]) -> None:
    assert {value for section in all_sections for key, value in choices(section) if key == kind} == set(table)


@torch.inference_mode()
def test_source_attentions_and_decoder_states_are_those_used_in_forward_steps(any_model, data) -> None:
    decoder, recorded = any_model.model.decoder, []
    mechanisms = decoder.source_attentions
    removers = [each.register_forward_hook(lambda *call: recorded.append(call[2][1])) for each in mechanisms]
    features, weights, state = decoder.forward_steps(data.inputs, any_model.model.start(data.source, data.valid))
    for hook in removers:
        hook.remove()
    # One step per call in one wiring, all steps in the others; the recorded weights are the ones reported in both.
    by_layer = [torch.cat(recorded[layer :: len(mechanisms)], -2) for layer in range(len(mechanisms))]
    torch.testing.assert_close(torch.stack(by_layer, 1).reshape(weights.shape), weights)
    decoder_states = decoder.decoder_states(features)
    assert decoder_states.shape == (*data.inputs.shape, mechanisms[0].query_size)
    if isinstance(decoder, nn.RecurrentDecoder):
        torch.testing.assert_close(decoder_states[:, -1], state.hidden[0][-1])
