"""Cells, starts, encoder and wirings against their equations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from regard import nn
from regard.config import kinds
from regard.errors import UserError

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
INPUT, SIZE, BATCH, STEPS = 3, 5, 2, 7
Parts = tuple[Tensor, ...]


# Cells: one step of one row, written out. `x` and `h` are already W_x x + b_x and W_h h_{t-1} + b_h, gate by gate.


def tanh_step(x: Tensor, h: Tensor, state: Parts) -> Parts:
    """h_t = tanh(W_hh h_{t-1} + W_xh x_t + b_h)."""
    return (torch.tanh(h + x),)


def gru_step(x: Tensor, h: Tensor, state: Parts) -> Parts:
    (x_r, x_z, x_n), (h_r, h_z, h_n) = x.chunk(3), h.chunk(3)
    r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
    n = torch.tanh(x_n + r * h_n)
    return ((1 - z) * n + z * state[0],)


def lstm_step(x: Tensor, h: Tensor, state: Parts) -> Parts:
    i, f, g, o = (x + h).chunk(4)
    memory = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(memory), memory


EQUATIONS: dict[str, Callable[[Tensor, Tensor, Parts], Parts]] = {
    "tanh": tanh_step,
    "gru": gru_step,
    "lstm": lstm_step,
}


def ssru_by_hand(cell: nn.SSRU, inputs: Tensor, start: list[Parts]) -> tuple[Tensor, list[Parts]]:
    """f = σ(W_f x + b_f), c_t = f ∘ c_{t-1} + (1 − f) ∘ W x, h_t = LN(x_t + ReLU(c_t)); x_t may be W_r x_t."""
    ends = []
    for number, layer in enumerate(cell.stack):
        directions = []
        for direction in range(cell.directions):
            own = slice(direction * SIZE, (direction + 1) * SIZE)
            (c,), states = start[number * cell.directions + direction], []
            for x in inputs.flip(0) if direction else inputs:
                f = torch.sigmoid(layer.forget_layer.weight[own] @ x + layer.forget_layer.bias[own])
                c = f * c + (1 - f) * (layer.input_layer.weight[own] @ x)
                states.append(c)
            directions.append(torch.stack(states).flip(0) if direction else torch.stack(states))
            ends.append((c,))
        same_size = inputs.shape[-1] == cell.output_size
        residual = inputs if same_size else inputs @ layer.residual_layer.weight.T
        inputs = layer.norm(residual + torch.cat(directions, -1).clamp(min=0))
    return inputs, ends


def by_hand(kind: str, cell: nn.RecurrentLayers, inputs: Tensor, start: list[Parts]) -> tuple[Tensor, list[Parts]]:
    """Outputs of one row [steps, size], and the end of each layer; `start` has an entry per layer and direction."""
    if isinstance(cell, nn.SSRU):
        return ssru_by_hand(cell, inputs, start)
    weights, ends = dict(cell.recurrence.named_parameters()), []
    for layer in range(cell.layers):
        directions = []
        for direction, suffix in enumerate(["", "_reverse"][: cell.directions]):
            w_x, w_h, b_x, b_h = (
                weights[f"{name}_l{layer}{suffix}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            )
            state, outputs = start[layer * cell.directions + direction], []
            for x in inputs.flip(0) if direction else inputs:
                state = EQUATIONS[kind](w_x @ x + b_x, w_h @ state[0] + b_h, state)
                outputs.append(state[0])
            directions.append(torch.stack(outputs).flip(0) if direction else torch.stack(outputs))
            ends.append(state)
        inputs = torch.cat(directions, -1)
    return inputs, ends


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["one-direction", "both-directions"])
@pytest.mark.parametrize("kind", kinds.CELLS)
@torch.inference_mode()
def test_a_cell_follows_its_equations_on_each_row_up_to_its_length(kind: str, bidirectional: bool, layers: int) -> None:
    torch.manual_seed(1)
    cell = kinds.CELLS[kind](INPUT, SIZE, layers=layers, bidirectional=bidirectional)
    inputs, lengths = torch.randn(BATCH, STEPS, INPUT), torch.tensor([4, 7])
    outputs, end = cell(inputs, lengths=lengths)
    assert outputs.shape == (BATCH, STEPS, cell.output_size)
    assert len(end) == cell.parts
    zeros = [(torch.zeros(SIZE),) * cell.parts] * (layers * cell.directions)
    for row, length in enumerate(lengths.tolist()):
        expected, ends = by_hand(kind, cell, inputs[row, :length], zeros)
        torch.testing.assert_close(outputs[row, :length], expected, **CLOSE)
        for part in range(cell.parts):
            joined = torch.cat([state[part] for state in ends]).view(layers, cell.output_size)  # [→h_T ; ←h_0]
            torch.testing.assert_close(end[part][:, row], joined, **CLOSE)


@pytest.mark.parametrize("kind", kinds.CELLS)
@torch.inference_mode()
def test_a_cell_continues_from_a_state(kind: str) -> None:
    torch.manual_seed(1)
    cell = kinds.CELLS[kind](INPUT, SIZE, layers=2)
    inputs, start = torch.randn(BATCH, STEPS, INPUT), tuple(torch.randn(2, BATCH, SIZE) for _ in range(cell.parts))
    outputs, end = cell(inputs, start)
    for row in range(BATCH):
        states = [tuple(part[layer, row] for part in start) for layer in range(2)]
        expected, ends = by_hand(kind, cell, inputs[row], states)
        torch.testing.assert_close(outputs[row], expected, **CLOSE)
        for part in range(cell.parts):
            torch.testing.assert_close(end[part][:, row], torch.stack([state[part] for state in ends]), **CLOSE)


def test_every_cell_has_its_equations_here() -> None:
    assert EQUATIONS.keys() | {"ssru"} == kinds.CELLS.keys()


# The encoder


@pytest.mark.parametrize("kind", kinds.CELLS)
@pytest.mark.parametrize("length", [1, 2, 9])
@torch.inference_mode()
def test_sizes_of_the_week_4_slides(kind: str, length: int) -> None:
    """The Week 4 slides have steps first: ids [2, 1], embedded [2, 1, 100], context [1, 1, 256]; here rows are."""
    encoder = nn.RecurrentEncoder(nn.Embedding(1_000, 100), kinds.CELLS[kind](100, 256))
    tokens = torch.arange(length).unsqueeze(0)
    encoding = encoder(tokens, torch.ones(1, length, dtype=torch.bool))
    assert encoder.embedding(tokens).shape == (1, length, 100)
    assert encoding.states.shape == (1, length, 256)
    assert encoding.final_state[0].shape == (1, 1, 256), "for any length"
    is_output = torch.equal(encoding.final_state[0][0], encoding.states[:, -1])
    assert is_output == (kind != "ssru"), "the bottleneck is h_T, or c_T"


def bidirectional_encoder(kind: str = "gru", layers: int = 1) -> nn.RecurrentEncoder:
    torch.manual_seed(1)
    return nn.RecurrentEncoder(
        nn.Embedding(17, INPUT), kinds.CELLS[kind](INPUT, SIZE, layers=layers, bidirectional=True)
    )


TOKENS = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 0, 0]])
VALID = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])


@torch.inference_mode()
def test_both_directions_end_at_the_sentence_boundaries() -> None:
    encoding = bidirectional_encoder()(TOKENS, VALID)
    for row, length in enumerate((5, 3)):
        forward, backward = encoding.states[row, length - 1, :SIZE], encoding.states[row, 0, SIZE:]
        assert torch.equal(encoding.final_state[0][0, row], torch.cat([forward, backward]))


# Starts


@torch.inference_mode()
def test_relu_start_equals_h_sent_of_torch_final_states() -> None:
    """h_sent = ReLU(W [→h_T ; ←h_0] + b)."""
    encoder, decoder_cell = bidirectional_encoder(), nn.GRU(INPUT, 11)
    start = nn.ReluStart(encoder.size, decoder_cell)
    (h_sent,) = start(encoder(TOKENS[:1], VALID[:1]))
    _, (forward, backward) = encoder.cell.recurrence(encoder.embedding(TOKENS[:1]))
    expected = torch.relu(torch.cat([forward, backward], -1) @ start.layer.weight.T + start.layer.bias)
    assert h_sent.shape == (1, 1, 11)
    torch.testing.assert_close(h_sent[0], expected, **CLOSE)
    assert expected.any()


@pytest.mark.parametrize("kind", kinds.CELLS)
@pytest.mark.parametrize(("name", "activation"), [("tanh", torch.tanh), ("relu", torch.relu)])
@torch.inference_mode()
def test_each_layer_and_part_of_a_start_state_has_its_own_weights(
    kind: str, name: str, activation: Callable[[Tensor], Tensor]
) -> None:
    layers, size = 3, 11
    encoder = bidirectional_encoder(layers=2)
    cell = kinds.CELLS[kind](INPUT, size, layers=layers)
    start = kinds.STARTS[name](encoder.size, cell)
    encoding = encoder(TOKENS, VALID)
    state = start(encoding)
    assert [part.shape for part in state] == [(layers, 2, size)] * cell.parts
    weights, biases = start.layer.weight.split(size), start.layer.bias.split(size)
    for part in range(cell.parts):
        for layer in range(layers):
            own = part * layers + layer
            expected = activation(
                encoding.final_state[0][-1] @ weights[own].T + biases[own]
            )  # of the encoder's top layer
            torch.testing.assert_close(state[part][layer], expected, **CLOSE)


@pytest.mark.parametrize("kind", kinds.CELLS)
@torch.inference_mode()
def test_zeros_and_copy_start_from_zero_and_from_the_final_state(kind: str) -> None:
    encoder = bidirectional_encoder(kind, layers=2)
    cell = kinds.CELLS[kind](INPUT, encoder.size, layers=2)
    encoding = encoder(TOKENS, VALID)
    zeros = nn.ZeroStart(encoder.size, cell)(encoding)
    copied = nn.CopyStart(encoder.size, cell)(encoding)
    assert len(zeros) == len(copied) == cell.parts
    for zero, copy, last in zip(zeros, copied, encoding.final_state, strict=True):
        assert torch.equal(copy, last)
        assert torch.equal(zero, torch.zeros_like(last))


@pytest.mark.parametrize(
    ("kind", "layers", "size"), [("lstm", 1, 2 * SIZE), ("gru", 2, 2 * SIZE), ("gru", 1, SIZE)], ids=str
)
def test_a_copied_start_that_does_not_fit_is_refused_with_both_shapes(kind: str, layers: int, size: int) -> None:
    encoding = bidirectional_encoder()(TOKENS, VALID)
    cell = kinds.CELLS[kind](INPUT, size, layers=layers)
    has, needs = rf"\(1, 1, {2 * SIZE}\)", rf"\({cell.parts}, {layers}, {size}\)"
    with pytest.raises(UserError, match=rf"ends with .* = {has}, .* starts with {needs}; .*tanh, relu or zeros"):
        nn.CopyStart(2 * SIZE, cell)(encoding)


# Wirings, step by step by their equations


READ = torch.tensor([[1, 7, 12], [0, 5, 5]])  # the tokens that the decoder reads


def build(wiring: str, kind: str) -> tuple[nn.RecurrentEncoder, nn.RecurrentDecoder]:
    encoder = bidirectional_encoder()
    embedding = nn.Embedding(13, 2)
    attention = nn.ScaledDotAttention(7, encoder.size, key_size=3)
    parts: dict[str, Any] = {"start": nn.TanhStart, "readout": nn.DirectReadout, "layers": 2}
    return encoder, kinds.WIRINGS[wiring](embedding, attention, cell=kinds.CELLS[kind], **parts)


@pytest.mark.parametrize("kind", kinds.CELLS)
@torch.inference_mode()
def test_wiring_before_queries_with_the_previous_state_and_feeds_the_context_to_the_cell(kind: str) -> None:
    encoder, decoder = build("before", kind)
    encoding = encoder(TOKENS, VALID)
    state = decoder.start(encoding)
    logits, all_weights = decoder.teacher_forced(READ, state)
    hidden, readout = state.hidden, decoder.readout.output_layer
    for step in range(READ.shape[1]):
        previous = hidden[0][-1]  # h_{t-1} of the top layer, c_{t-1} of an SSRU
        context, weights = decoder.attention(
            previous.unsqueeze(1), decoder.attention.prepare(encoding.states, encoding.valid)
        )
        y = decoder.embedding(READ[:, step : step + 1])
        current, hidden = decoder.cell(torch.cat([y, context], -1), hidden)
        expected = current[:, 0] @ readout.weight.T + readout.bias  # W_o h_t
        torch.testing.assert_close(all_weights[:, step], weights[:, 0], **CLOSE)
        torch.testing.assert_close(logits[:, step], expected, **CLOSE)


@pytest.mark.parametrize("kind", kinds.CELLS)
@torch.inference_mode()
def test_wiring_after_queries_with_the_current_state_and_feeds_the_context_to_the_readout_only(kind: str) -> None:
    encoder, decoder = build("after", kind)
    encoding = encoder(TOKENS, VALID)
    state = decoder.start(encoding)
    logits, all_weights = decoder.teacher_forced(READ, state)
    hidden, readout = state.hidden, decoder.readout.output_layer
    for step in range(READ.shape[1]):
        current, hidden = decoder.cell(decoder.embedding(READ[:, step : step + 1]), hidden)  # h_t of the top layer
        memory = decoder.attention.prepare(encoding.states, encoding.valid)
        context, weights = decoder.attention(current, memory)
        expected = torch.cat([context, current], -1)[:, 0] @ readout.weight.T + readout.bias  # W [a ; h] + b
        torch.testing.assert_close(all_weights[:, step], weights[:, 0], **CLOSE)
        torch.testing.assert_close(logits[:, step], expected, **CLOSE)


@pytest.mark.parametrize("kind", kinds.CELLS)
@torch.inference_mode()
def test_input_feeding_feeds_the_attentional_vector_to_the_next_step_and_to_the_readout(kind: str) -> None:
    """h_t = f([y_{t-1} ; h̃_{t-1}], h_{t-1}), h̃_t = tanh(W_c [c_t ; h_t]), p = W h̃_t + b, and h̃ starts as 0."""
    encoder, decoder = build("input-feeding", kind)
    encoding = encoder(TOKENS, VALID)
    state = decoder.start(encoding)
    logits, all_weights = decoder.teacher_forced(READ, state)
    hidden, readout, attentional = state.hidden, decoder.readout.output_layer, torch.zeros(2, 1, 7)
    for step in range(READ.shape[1]):
        y = decoder.embedding(READ[:, step : step + 1])
        current, hidden = decoder.cell(torch.cat([y, attentional], -1), hidden)
        context, weights = decoder.attention(current, decoder.attention.prepare(encoding.states, encoding.valid))
        attentional = torch.tanh(torch.cat([context, current], -1) @ decoder.attentional_layer.weight.T)
        expected = attentional[:, 0] @ readout.weight.T + readout.bias
        torch.testing.assert_close(all_weights[:, step], weights[:, 0], **CLOSE)
        torch.testing.assert_close(logits[:, step], expected, **CLOSE)


@pytest.mark.parametrize("wiring", ["before", "after"])
@torch.inference_mode()
def test_a_deep_output_reads_context_state_and_previous_token(wiring: str) -> None:
    """p = W [c_t ; h_t ; y_{t-1}] + b, where context and state are those of the same decoder without deep output."""
    torch.manual_seed(1)
    encoder = bidirectional_encoder()
    embedding, attention = nn.Embedding(13, 2), nn.ScaledDotAttention(7, encoder.size, key_size=3)
    parts: dict[str, Any] = {"cell": nn.GRU, "start": nn.TanhStart, "readout": nn.DirectReadout}
    deep, both = (kinds.WIRINGS[wiring](embedding, attention, **parts, readout_input=each) for each in ("deep", "both"))
    both.load_state_dict({name: value for name, value in deep.state_dict().items() if "output" not in name}, False)
    encoding = encoder(TOKENS, VALID)
    logits, _ = deep.teacher_forced(READ, deep.start(encoding))
    features, _, _ = both.forward_steps(READ, both.start(encoding))
    readout = deep.readout.output_layer
    expected = torch.cat([features, embedding(READ)], -1) @ readout.weight.T + readout.bias
    torch.testing.assert_close(logits, expected, **CLOSE)
    assert torch.equal(deep.decoder_states(features), features[..., -7:])


@pytest.mark.parametrize("kind", kinds.CELLS)
@torch.inference_mode()
def test_last_feeds_the_final_state_to_every_step_and_with_both_to_the_readout(kind: str) -> None:
    """h_t = f([y_{t-1} ; c], h_{t-1}), p = W [c ; h_t] + b with c = [→h_T ; ←h_1] of the encoder."""
    encoder = bidirectional_encoder()
    parts: dict[str, Any] = {"start": nn.ZeroStart, "readout": nn.DirectReadout, "readout_input": "both"}
    attention = nn.LastAttention(7, encoder.size)
    decoder = nn.AttendBeforeDecoder(nn.Embedding(13, 2), attention, cell=kinds.CELLS[kind], **parts)
    encoding = encoder(TOKENS, VALID)
    logits, weights = decoder.teacher_forced(READ, decoder.start(encoding))
    c = encoding.final_state[0][-1]
    inputs = torch.cat([decoder.embedding(READ), c.unsqueeze(1).expand(-1, READ.shape[1], -1)], -1)
    states, _ = decoder.cell(inputs)
    readout = decoder.readout.output_layer
    for step in range(READ.shape[1]):
        expected = torch.cat([c, states[:, step]], -1) @ readout.weight.T + readout.bias
        torch.testing.assert_close(logits[:, step], expected, **CLOSE)
    assert torch.equal(weights.argmax(-1), (VALID.sum(1, keepdim=True) - 1).expand(-1, READ.shape[1]))


@torch.inference_mode()
def test_a_readout_of_the_context_reads_nothing_else() -> None:
    """p = W c_t + b, as in EECS 182, figure 2."""
    encoder = bidirectional_encoder()
    parts: dict[str, Any] = {"start": nn.TanhStart, "readout": nn.DirectReadout, "readout_input": "context"}
    attention = nn.ScaledDotAttention(7, encoder.size, key_size=3)
    decoder = nn.AttendAfterDecoder(nn.Embedding(13, 2), attention, cell=nn.GRU, **parts)
    encoding = encoder(TOKENS, VALID)
    logits, weights = decoder.teacher_forced(READ, decoder.start(encoding))
    readout = decoder.readout.output_layer
    torch.testing.assert_close(logits, weights @ encoding.states @ readout.weight.T + readout.bias, **CLOSE)


@torch.inference_mode()
def test_a_tied_readout_uses_the_decoders_embeddings() -> None:
    """E tanh(W x + b) + b_o."""
    torch.manual_seed(1)
    embedding = nn.Embedding(13, 3)
    readout = nn.TiedReadout(7, embedding)
    torch.nn.init.normal_(readout.bias)
    features = torch.randn(2, 5, 7)
    small = torch.tanh(features @ readout.small_layer.weight.T + readout.small_layer.bias)
    torch.testing.assert_close(readout(features), small @ embedding.tokens.weight.T + readout.bias, **CLOSE)
    assert readout.embedding.weight is embedding.tokens.weight
