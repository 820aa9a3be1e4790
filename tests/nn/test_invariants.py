"""Invariants of every combination of encoder, decoder and mechanism. The properties are defined in `regard.testing`."""

from __future__ import annotations

from copy import deepcopy
from itertools import combinations, product
from typing import Any

import pytest
import torch
from torch import Tensor

from regard import nn
from regard.config import kinds
from regard.config.schema import ModelSection
from regard.nn.transformer import TransformerState
from regard.testing import beams, models, modules

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
OPTIONS = ("normalizer", "unit_norm", "temperature", "value_size")
LAYER_OPTIONS = ("norm_position", "norm", "activation")


# For every encoder with every decoder with every mechanism


def test_padding_changes_nothing(any_model, batch) -> None:
    assert 1 < batch.source_valid[-1].sum() < batch.source.shape[1]
    models.check_padding(any_model.model, batch)


def test_weights_are_a_distribution_over_valid_positions(any_model, batch) -> None:
    section, model = any_model.section, any_model.model
    total = {"none": 0.0, "aligned": None}.get(section.attention.kind, 1.0)
    hard = getattr(section.attention, "normalizer", None) == "hard"
    models.check_weights(model, batch, total=total, hard=hard)
    _, weights = model.decoder.teacher_forced(batch.inputs, model.start(batch.source, batch.source_valid))
    sizes = {"layer": section.decoder.layers, "head": getattr(section.attention, "heads", 0)}
    axes = [sizes[axis] for axis in model.decoder.weight_axes]
    assert weights.shape == (len(batch.source), *axes, batch.inputs.shape[1], batch.source.shape[1])


def test_teacher_forced_equals_repeated_steps(any_model, batch) -> None:
    models.check_steps(any_model.model, batch)


def test_every_parameter_that_affects_the_loss_gets_a_finite_gradient(any_model, batch) -> None:
    section, model = any_model.section, any_model.model
    # In evaluation mode, a scan that has reached the end of the source has no gradient.
    model.train(section.attention.kind == "monotonic")
    modules.check_gradients(model, batch, complete=section.attention.has_scores)
    model.eval()


def test_the_settings_know_the_longest_sequence(any_model) -> None:
    for side in ("encoder", "decoder"):
        section, module = getattr(any_model.section, side), getattr(any_model.model, side)
        assert module.max_length == section.positions.max_length
        assert (module.max_length is None) == (section.positions.kind not in ("learned", "one-hot"))


# For every decoder with every mechanism and option, each with some encoder


def test_padding_changes_no_gradient(any_model, batch) -> None:
    modules.check_padding_gradients(any_model.model, batch)


def test_teacher_forced_with_valid_returns_the_valid_steps_in_order(any_model, batch) -> None:
    models.check_valid_steps(any_model.model, batch)


def test_forward_steps_in_chunks_equals_one_call(any_model, batch) -> None:
    models.check_chunks(any_model.model, batch)


def test_the_state_holds_the_attention_weights_of_the_latest_step(any_model, batch) -> None:
    models.check_latest_weights(any_model.model, batch)


def test_scheduled_sampling_with_a_full_mask_equals_teacher_forcing(any_model, batch) -> None:
    models.check_full_mask(any_model.model, batch)


def test_where_the_mask_is_false_the_model_reads_its_own_most_likely_token(any_model, batch) -> None:
    models.check_own_predictions(any_model.model, batch)


@pytest.mark.parametrize("before", [0, 2])
def test_select_commutes_with_step(any_model, batch, before: int) -> None:
    beams.check_selection(any_model.model, batch, before=before)


def memories(state: Any) -> list[nn.Memory]:
    """The encoded sources, one memory per layer that attends to them."""
    return list(state.source) if isinstance(state, TransformerState) else [state.memory]


def own_tensors(state: Any) -> list[Tensor]:
    """The tensors of the state that belong to each row alone."""
    if isinstance(state, TransformerState):
        return [part for past in state.past for part in (past.keys, past.values)]
    return [part.transpose(0, 1) for part in state.hidden]


@pytest.mark.parametrize("before", [0, 2])
def test_hypotheses_that_share_a_source_continue_as_with_sources_of_their_own(any_model, batch, before: int) -> None:
    beams.check_beams(any_model.model, batch, before=before)


@torch.inference_mode()
def test_states_of_hypotheses_that_share_a_source_equal_those_with_sources_of_their_own(any_model, batch) -> None:
    for position, step in enumerate(beams.beam_steps(any_model.model, batch, before=2), start=3):
        torch.testing.assert_close(own_tensors(step.state), own_tensors(step.expected_state), **CLOSE)
        assert step.state.position == step.expected_state.position == position
        assert all(len(memory.keys) == len(memory.values) == step.sources for memory in memories(step.state))


def test_repeated_selections_compose(any_model, batch) -> None:
    beams.check_repeated_selections(any_model.model, batch)


@torch.inference_mode()
def test_source_memory_is_copied_only_when_sources_leave_or_are_reordered(any_model, batch) -> None:
    model = any_model.model
    state = model.start(batch.source, batch.source_valid)
    before = memories(state)

    def data_pointers(memory_list: list[nn.Memory]) -> list[int]:
        return [part.data_ptr() for memory in memory_list for part in (memory.keys, memory.values, memory.valid)]

    for index in map(torch.tensor, beams.MOVES[:2]):
        _, state = model.decoder.step(index.flatten(), state.select(index))
        assert data_pointers(memories(state)) == data_pointers(before)
    after = memories(state.select(torch.tensor(beams.MOVES[2])))
    for new, old in zip(after, before, strict=True):
        assert torch.equal(new.keys, old.keys[[2, 0]])
        assert torch.equal(new.values, old.values[[2, 0]])
        assert torch.equal(new.valid, old.valid[[2, 0]])


def test_a_step_depends_on_its_own_token_and_not_on_later_ones(any_model, batch) -> None:
    # In double precision, because in some of these small models a token changes less than float32 resolves.
    models.check_causality(deepcopy(any_model.model).double(), batch)


def test_a_step_does_not_modify_the_state_it_is_given(any_model, batch) -> None:
    beams.check_state_unchanged(any_model.model, batch)


def test_modules_store_nothing_of_a_call(any_model, batch) -> None:
    modules.check_stateless(any_model.model, batch)


@torch.inference_mode()
def test_source_attentions_and_decoder_states_are_those_used_in_forward_steps(any_model, batch) -> None:
    modules.check_source_attentions(any_model.model, batch)
    decoder = any_model.model.decoder
    if isinstance(decoder, nn.RecurrentDecoder):
        state = any_model.model.start(batch.source, batch.source_valid)
        outputs: list[torch.Tensor] = []
        hook = decoder.cell.register_forward_hook(lambda cell, inputs, result: outputs.append(result[0]))
        features, _, _ = decoder.forward_steps(batch.inputs, state)
        hook.remove()
        torch.testing.assert_close(decoder.decoder_states(features), torch.cat(outputs, 1))


# Coverage of the enumeration


def choices(section: ModelSection, source: str) -> set[tuple[str, str]]:
    """The choices that this model was built from, as far as they apply to it."""
    encoder, decoder, attention = section.encoder, section.decoder, section.attention
    chosen = {("encoder", encoder.kind), ("decoder", decoder.kind), ("mechanism", attention.kind)}
    chosen |= {(f"{side} layers", str(coder.layers)) for side, coder in (("source", encoder), ("target", decoder))}
    chosen |= {("source positions", encoder.positions.kind), ("target positions", decoder.positions.kind)}
    for coder in (encoder, decoder):  # the same on both sides
        chosen |= {(name, getattr(coder, name)) for name in LAYER_OPTIONS if hasattr(coder, name)}
    chosen |= {("option", option) for option in OPTIONS[1:] if getattr(attention, option, False)}
    chosen |= {("option", getattr(attention, "normalizer", "softmax"))} - {("option", "softmax")}
    chosen |= {("readout", decoder.readout), ("source", source)}
    if hasattr(encoder, "cell"):
        chosen |= {("encoder cell", encoder.cell), ("directions", "both" if encoder.bidirectional else "one")}
    if decoder.kind == "recurrent":
        chosen |= {("decoder cell", decoder.cell), ("wiring", decoder.wiring), ("start", decoder.start)}
        chosen |= {("readout input", decoder.readout_input)} if decoder.readout_input else set()
    return chosen


def test_any_two_choices_are_combined_in_some_model(all_sections) -> None:
    """Except where one makes the other meaningless or impossible."""
    recurrent_only = {"encoder cell", "directions"}, {"decoder cell", "wiring", "start", "readout input"}
    chosen_by_model = [choices(*each) for each in all_sections]
    pairs = {frozenset(pair) for chosen in chosen_by_model for pair in combinations(sorted(chosen), 2)}
    everything = sorted(set().union(*chosen_by_model))

    def possible(one: tuple[str, str], other: tuple[str, str]) -> bool:
        names, values = {one[0], other[0]}, {one[1], other[1]}
        without_scores = values & {"none", "last", "mean", "aligned", "monotonic"} and (
            names == {"option", "mechanism"} or ("context" in values and "mechanism" in names)
        )
        without_scores = without_scores or {"hard", "context"} <= values
        wiring = next((value for name, value in (one, other) if name == "wiring"), None)
        useless = names == {"wiring", "readout input"} and not values & set(kinds.WIRINGS[wiring].readout_inputs)
        no_cell = values & {"self-attention", "plain-attention"} and names & recurrent_only[0]
        # Without attention layers, an encoder has neither a cell nor layers of another kind.
        no_cell = no_cell or (
            ("source layers", "0") in (one, other)
            and names & {"encoder", *recurrent_only[0]}
            and "plain-attention" not in values
        )
        no_cell = no_cell or ("transformer" in values and names & recurrent_only[1])
        # Relative positions need self-attention heads on their side.
        headless = {"recurrent", "plain-attention"} if "source positions" in names else {"recurrent"}
        sides = {"source positions": {"encoder", "source layers"}, "target positions": {"decoder", *recurrent_only[1]}}
        side = set().union(*(sides.get(name, set()) for name in names)) & names
        no_heads = (
            values & {"rotary", "alibi"}
            and side
            and (values & headless or side & recurrent_only[1] or ("source layers", "0") in (one, other))
        )
        # A copied start needs equal numbers of layers and the same memory cells on both sides.
        copy = ("start", "copy") in (one, other) and "2" in values and "self-attention" in values
        return len(names) == 2 and not (without_scores or useless or no_cell or no_heads or copy)

    missing = [pair for pair in product(everything, repeat=2) if possible(*pair) and frozenset(pair) not in pairs]
    assert missing == []


def test_the_full_tests_include_every_model_of_the_default_ones(sampled_and_all_choices) -> None:
    sampled, everything = sampled_and_all_choices
    assert set(sampled) < set(everything)


@pytest.mark.parametrize(
    ("kind", "table"),
    [
        ("encoder", kinds.ENCODERS),
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
    assert {value for each in all_sections for key, value in choices(*each) if key == kind} == set(table)
