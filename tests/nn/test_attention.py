"""Mechanisms against their formulas in plain Python, and against the worked examples of two courses."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard import nn
from regard.config import kinds
from regard.errors import UserError
from regard.nn.normalizers import NORMALIZERS, Normalizer
from regard.testing.failures import PropertyError
from regard.testing.mechanisms import check_padded_states, check_permutation, check_shared_memory
from regard.testing.samples import AttentionInputs

BATCH, STEPS, POSITIONS, QUERY, MEMORY, KEY = 2, 3, 5, 7, 11, 13
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def unmasked_memory(values: Tensor) -> nn.Memory:
    """A memory of [positions, size] in which every position is valid."""
    values = values.unsqueeze(0)
    return nn.Memory(values, values, torch.ones(1, 1, values.shape[1], dtype=torch.bool))


def softmax(scores: list[float]) -> list[float]:
    powers = [math.exp(score - max(scores)) for score in scores]
    return [power / sum(powers) for power in powers]


# Worked examples


class TestEECS182Discussion8:
    """h_1 = (5,1), h_2 = (4,3), h_3 = (−2,6), and three matrices: q = W_q h, k = W_k h, v = W_v h."""

    states = torch.tensor([[5.0, 1.0], [4.0, 3.0], [-2.0, 6.0]])
    query_weight = torch.tensor([[1.0, 0.0], [2.0, 9.0]])
    key_weight = torch.tensor([[0.0, 1.0], [6.0, 0.0]])
    value_weight = torch.tensor([[4.0, 3.0], [9.0, 1.0]])

    @pytest.fixture
    def mechanism(self) -> nn.ScaledDotAttention:
        mechanism = nn.ScaledDotAttention(2, 2, normalizer="hard")
        with torch.no_grad():
            mechanism.query_layer.weight.copy_(self.query_weight)
            mechanism.key_layer.weight.copy_(self.key_weight)
        return mechanism

    def test_unscaled_scores_of_query_2(self, mechanism: nn.ScaledDotAttention) -> None:
        scores = mechanism.score(self.states[None, 1:2], mechanism.project_keys(self.states[None])) * math.sqrt(2)
        torch.testing.assert_close(scores, torch.tensor([[[1054.0, 852.0, -396.0]]]))

    def test_hard_attention_returns_the_first_value(self, mechanism: nn.ScaledDotAttention) -> None:
        values = self.states @ self.value_weight.T
        scores = mechanism.score(self.states[None, 1:2], mechanism.project_keys(self.states[None]))
        context, weights = nn.attend(scores, unmasked_memory(values), normalizer="hard")
        assert context.tolist() == [[[23.0, 46.0]]]
        assert weights.tolist() == [[[1.0, 0.0, 0.0]]]

    def test_the_mechanism_returns_the_first_state(self, mechanism: nn.ScaledDotAttention) -> None:
        memory = mechanism.prepare(self.states[None], torch.ones(1, 3, dtype=torch.bool))
        context, _ = mechanism(self.states[None, 1:2], memory)
        assert context.tolist() == [[[5.0, 1.0]]], "its value is h_i"

    def test_one_head_returns_the_first_value(self) -> None:
        mechanism = nn.MultiHeadAttention(2, 2, heads=1, normalizer="hard")
        with torch.no_grad():
            mechanism.query_layer.weight.copy_(self.query_weight)
            mechanism.key_layer.weight.copy_(self.key_weight)
            mechanism.value_layer.weight.copy_(self.value_weight)
            mechanism.output_layer.weight.copy_(torch.eye(2))
            mechanism.output_layer.bias.zero_()
        memory = mechanism.prepare(self.states[None], torch.ones(1, 3, dtype=torch.bool))
        context, weights = mechanism(self.states[None, 1:2], memory)
        assert context.tolist() == [[[23.0, 46.0]]]
        assert weights.tolist() == [[[[1.0, 0.0, 0.0]]]]


class TestWeek4Slides:
    @pytest.mark.parametrize(
        ("scores", "expected"),
        [
            ([0.1, 0.9, 0.3], [0.2249, 0.5005, 0.2747]),  # not 0.15, 0.70, 0.15, as printed
            ([0.2, 0.8, 0.3], [0.2546, 0.4640, 0.2814]),
        ],
    )
    def test_softmax_of_scores(self, scores: list[float], expected: list[float]) -> None:
        _, weights = nn.attend(torch.tensor([[scores]]), unmasked_memory(torch.zeros(3, 2)))
        assert [round(weight, 4) for weight in weights.flatten().tolist()] == expected

    def test_context_of_weights(self) -> None:
        values = torch.tensor([[0.1, 0.2], [0.7, 0.4], [0.3, 0.6]])
        scores = torch.tensor([[[0.15, 0.70, 0.15]]]).log()  # the softmax of these is the weights
        context, _ = nn.attend(scores, unmasked_memory(values))
        # The Week 4 slides print 0.46, which is neither of the entries.
        torch.testing.assert_close(context, torch.tensor([[[0.55, 0.40]]]))


# Formulas, each for one query s and one state h as lists of floats


def dot(one: Tensor, other: Tensor) -> float:
    return math.fsum(a * b for a, b in zip(one.tolist(), other.tolist(), strict=True))


def times(weight: Tensor, vector: Tensor) -> Tensor:
    return torch.tensor([dot(row, vector) for row in weight])


def additive(mechanism: nn.AdditiveAttention, s: Tensor, h: Tensor) -> float:
    """w_2ᵀ tanh(W_1 [h ; s]), with one W_1."""
    joint_weight = torch.cat([mechanism.key_layer.weight, mechanism.query_layer.weight], 1)  # W_1
    inner = times(joint_weight, torch.cat([h, s])).tanh()
    return dot(mechanism.score_layer.weight[0], inner)


SCORES: dict[str, Callable[[Any, Tensor, Tensor], float]] = {
    "mean": lambda mechanism, s, h: 0.0,
    "dot": lambda mechanism, s, h: dot(s, h),
    "scaled-dot": lambda mechanism, s, h: (
        dot(times(mechanism.query_layer.weight, s), times(mechanism.key_layer.weight, h)) / math.sqrt(KEY)
    ),
    "bilinear": lambda mechanism, s, h: dot(h, times(mechanism.query_layer.weight, s)) / math.sqrt(MEMORY),
    "additive": additive,
}
NOT_BY_SCORE = {"none", "last", "aligned", "multi-head"}  # tested on their own below
BY_HISTORY_OR_POSITION = {"location", "coverage", "local", "monotonic"}  # in files of their own


def build(kind: str, **options: Any) -> nn.Attention:
    torch.manual_seed(3)
    if kind in ("scaled-dot", "additive"):
        options["key_size"] = KEY
    return kinds.MECHANISMS[kind](MEMORY if kind == "dot" else QUERY, MEMORY, **options).requires_grad_(False).eval()


@pytest.fixture(scope="module")
def states() -> Tensor:
    return torch.randn(BATCH, POSITIONS, MEMORY, generator=torch.Generator().manual_seed(5))


@pytest.fixture(scope="module")
def valid() -> Tensor:
    return torch.tensor([[True] * 5, [True, False, True, True, False]])  # padding need not be at the end


def queries(mechanism: nn.Attention) -> Tensor:
    return torch.randn(BATCH, STEPS, mechanism.query_size, generator=torch.Generator().manual_seed(8)) * 2


def test_every_mechanism_has_its_formula_here() -> None:
    assert SCORES.keys() | NOT_BY_SCORE | BY_HISTORY_OR_POSITION == kinds.MECHANISMS.keys()


PLAIN_AND_OPTIONS: list[dict[str, Any]] = [{}, {"unit_norm": True}, {"normalizer": "hard"}]


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        pytest.param(kind, options, id="-".join([kind, *options]))
        for kind in SCORES
        for options in PLAIN_AND_OPTIONS
        if options.keys() <= kinds.MECHANISMS[kind].Section.model_fields.keys()
    ],
)
def test_a_mechanism_computes_its_formula(kind: str, options: dict[str, Any], states: Tensor, valid: Tensor) -> None:
    mechanism = build(kind, **options)
    query = queries(mechanism)
    context, weights = mechanism(query, mechanism.prepare(states, valid))
    assert context.shape == (BATCH, STEPS, mechanism.context_size) == (BATCH, STEPS, MEMORY)
    for row in range(BATCH):
        real = [position for position in range(POSITIONS) if valid[row, position]]
        for step in range(STEPS):
            s, all_h = query[row, step], [states[row, position] for position in real]
            if options.get("unit_norm"):
                s, all_h = s / math.sqrt(dot(s, s)), [h / math.sqrt(dot(h, h)) for h in all_h]
            scale = 10 if options.get("unit_norm") else 1  # 1/τ before training
            scores = [SCORES[kind](mechanism, s, h) * scale for h in all_h]
            expected = softmax(scores)
            if options.get("normalizer") == "hard":
                expected = [float(score == max(scores)) for score in scores]
            assert weights[row, step, real].tolist() == pytest.approx(expected, abs=1e-5)
            assert float(weights[row, step].sum()) == pytest.approx(1.0, abs=1e-5)
            output_at_step = sum(
                weight * states[row, position] for weight, position in zip(expected, real, strict=True)
            )
            torch.testing.assert_close(context[row, step], output_at_step, **CLOSE)


def test_unit_norm_makes_dot_a_cosine_independent_of_norms(states: Tensor, valid: Tensor) -> None:
    mechanism = build("dot", unit_norm=True)
    query = queries(mechanism)
    stretched = states * torch.arange(1.0, POSITIONS + 1).view(1, -1, 1)
    _, weights = mechanism(query, mechanism.prepare(states, valid))
    context, same = mechanism(query * 9, mechanism.prepare(stretched, valid))
    torch.testing.assert_close(same, weights, **CLOSE)
    torch.testing.assert_close(context, weights @ stretched, msg="the values keep their lengths")


def test_none_has_no_attention_and_returns_zeros(states: Tensor, valid: Tensor) -> None:
    mechanism = build("none")
    context, weights = mechanism(queries(mechanism), mechanism.prepare(states, valid))
    assert torch.equal(context, torch.zeros(BATCH, STEPS, MEMORY))
    assert torch.equal(weights, torch.zeros(BATCH, STEPS, POSITIONS))


def test_mean_is_the_mean_of_valid_states(states: Tensor, valid: Tensor) -> None:
    mechanism = build("mean")
    context, _ = mechanism(queries(mechanism), mechanism.prepare(states, valid))
    for row in range(BATCH):
        torch.testing.assert_close(context[row], states[row, valid[row]].mean(0).expand(STEPS, -1))


def test_last_puts_all_weight_on_the_last_valid_position(states: Tensor, valid: Tensor) -> None:
    mechanism = build("last")
    context, weights = mechanism(queries(mechanism), mechanism.prepare(states, valid))
    assert weights.tolist() == [[[0, 0, 0, 0, 1]] * STEPS, [[0, 0, 0, 1, 0]] * STEPS]
    assert torch.equal(context, torch.stack([states[0, 4], states[1, 3]]).unsqueeze(1).expand(-1, STEPS, -1))


def test_last_reads_the_final_state_of_the_last_layer(states: Tensor) -> None:
    mechanism = build("last")
    final_state = torch.randn(2, BATCH, MEMORY), torch.randn(2, BATCH, MEMORY)  # two layers of an LSTM
    valid = torch.tensor([[True] * 5, [True, True, False, False, False]])
    context, weights = mechanism(queries(mechanism), mechanism.prepare_source(states, valid, final_state))
    assert weights.argmax(-1).tolist() == [[4] * STEPS, [1] * STEPS]
    assert torch.equal(context, final_state[0][1].unsqueeze(1).expand(-1, STEPS, -1))


@pytest.mark.parametrize("offset", [0, 2])
def test_aligned_reads_the_position_of_the_step_and_nothing_after_the_end(offset: int, states: Tensor) -> None:
    mechanism = build("aligned")
    valid = torch.tensor([[True] * 5, [True, True, False, False, False]])
    query = queries(mechanism).repeat_interleave(3, 0)  # three hypotheses of each source
    context, weights = mechanism(query, mechanism.prepare(states, valid), nn.AttentionHistory(offset))
    for row, step in product(range(len(query)), range(STEPS)):
        source, position = row // 3, offset + step
        inside = position < valid[source].sum()
        expected = [float(inside and i == position) for i in range(POSITIONS)]
        assert weights[row, step].tolist() == expected
        assert torch.equal(context[row, step], states[source, position] if inside else torch.zeros(MEMORY))


# Options


def test_hard_attention_passes_the_gradient_of_the_softmax_to_the_scores() -> None:
    """e = (1, 2), v = (3, 5), y = v_2 with argmax: ∂y/∂e_1 = α_1 α_2 (v_1 − v_2), as with softmax."""
    scores, values = torch.tensor([[[1.0, 2.0]]], requires_grad=True), torch.tensor([[3.0], [5.0]])
    context, weights = nn.attend(scores, unmasked_memory(values), normalizer="hard")
    assert weights.tolist() == [[[0.0, 1.0]]]
    assert context.item() == 5.0
    context.sum().backward()
    expected = math.e / (1 + math.e) ** 2 * (3 - 5)
    assert scores.grad is not None
    assert scores.grad.flatten().tolist() == pytest.approx([expected, -expected])


def test_hard_attention_needs_no_softmax_at_inference() -> None:
    """Scores that overflow have a maximum, but no softmax."""
    scores, values = torch.tensor([[[1.0, math.inf, 2.0]]]), torch.tensor([[3.0], [5.0], [7.0]])
    context, weights = nn.attend(scores, unmasked_memory(values), normalizer="hard")
    assert weights.tolist() == [[[0.0, 1.0, 0.0]]]
    assert context.item() == 5.0


@pytest.mark.parametrize(
    "options", [{"temperature": 0.0}, {"temperature": -1}, {"temperature": "hot"}, {"value_size": 0}]
)
def test_an_option_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"a temperature is a number from 0.001 to 1000|value_size is 0; it can be 1"):
        nn.DotAttention(7, 7, **options)


def test_a_value_size_makes_scaled_dot_the_general_attention_layer(states: Tensor) -> None:
    """Y = softmax(Q Kᵀ / √m) V with Q = S W_Q, K = X W_K, V = X W_V, as torch computes it."""
    torch.manual_seed(3)
    layer = nn.ScaledDotAttention(QUERY, MEMORY, key_size=KEY, value_size=13)
    query = queries(layer)
    context, _ = layer(query, layer.prepare(states, torch.ones(BATCH, POSITIONS, dtype=torch.bool)))
    q, k, v = (
        inputs @ each.weight.T
        for inputs, each in ((query, layer.query_layer), (states, layer.key_layer), (states, layer.value_layer))
    )
    torch.testing.assert_close(context, torch.nn.functional.scaled_dot_product_attention(q, k, v), **CLOSE)
    assert context.shape == (BATCH, STEPS, layer.context_size) == (BATCH, STEPS, 13)
    assert not any("bias" in name for name, _ in layer.named_parameters())


@pytest.mark.parametrize("kind", ["dot", "scaled-dot", "bilinear", "additive"])
def test_a_value_size_projects_the_values_of_every_mechanism(kind: str, states: Tensor, valid: Tensor) -> None:
    mechanism = build(kind, value_size=13)
    context, weights = mechanism(queries(mechanism), mechanism.prepare(states, valid))
    torch.testing.assert_close(context, weights @ (states @ mechanism.value_layer.weight.T), **CLOSE)


def test_heads_share_the_value_size(states: Tensor, valid: Tensor) -> None:
    mechanism = multi_head(QUERY, MEMORY, heads=2, key_size=10, value_size=6)
    context, weights = mechanism(queries(mechanism), mechanism.prepare(states, valid))
    values = states @ mechanism.value_layer.weight.T + mechanism.value_layer.bias
    heads = torch.cat([weights[:, 0] @ values[..., :3], weights[:, 1] @ values[..., 3:]], -1)
    torch.testing.assert_close(context, mechanism.output_layer(heads), **CLOSE)


def test_the_temperature_divides_the_scores(states: Tensor, valid: Tensor) -> None:
    plain, cold = build("dot"), build("dot", temperature=0.25)
    query = queries(plain)
    _, expected = plain(query * 4, plain.prepare(states, valid))
    _, weights = cold(query, cold.prepare(states, valid))
    torch.testing.assert_close(weights, expected, **CLOSE)
    assert not list(cold.parameters())


def test_a_learned_temperature_is_a_parameter_that_starts_at_1_or_for_unit_norms_at_a_tenth() -> None:
    assert nn.DotAttention(7, 7, temperature="learned").scale_scores(torch.ones(1)).item() == 1.0
    cosine = nn.DotAttention(7, 7, unit_norm=True)
    assert cosine.scale_scores(torch.ones(1)).item() == pytest.approx(10.0)
    assert [name for name, _ in cosine.named_parameters()] == ["log_scale"]
    assert not list(nn.DotAttention(7, 7, unit_norm=True, temperature=1.0).parameters())


def test_cosines_of_16_positions_cannot_be_sharp_without_a_temperature() -> None:
    """One cosine of 1 and 15 of −1: e / (e + 15 / e) = 0.33; with τ = 0.1 it is nearly 1."""
    states = torch.eye(2)[0].repeat(1, 16, 1)
    states[:, 1:] *= -1
    largest = {}
    for temperature in (1.0, 0.1):
        mechanism = nn.DotAttention(2, 2, unit_norm=True, temperature=temperature)
        _, weights = mechanism(states[:, :1], mechanism.prepare(states, torch.ones(1, 16, dtype=torch.bool)))
        largest[temperature] = weights.max().item()
    assert largest == {1.0: pytest.approx(math.e / (math.e + 15 / math.e)), 0.1: pytest.approx(1.0, abs=1e-7)}
    assert largest[1.0] == pytest.approx(0.33, abs=0.005)


@pytest.mark.parametrize("kind", [kind for kind in kinds.MECHANISMS if not kinds.MECHANISMS[kind].order_sensitive])
def test_attention_treats_states_as_a_set(kind: str, states: Tensor, valid: Tensor) -> None:
    mechanism = build(kind, heads=1) if kind == "multi-head" else build(kind)
    check_permutation(mechanism, AttentionInputs(queries(mechanism), states, valid))


def test_the_mechanisms_that_do_not_treat_states_as_a_set(states: Tensor, valid: Tensor) -> None:
    sensitive = [kind for kind in kinds.MECHANISMS if kinds.MECHANISMS[kind].order_sensitive]
    assert sensitive == ["last", "aligned", "location", "local", "monotonic"]
    for kind in sensitive:
        mechanism = build(kind, **({"window": 1} if kind == "local" else {}))
        mechanism.order_sensitive = False
        with pytest.raises(PropertyError, match="states in another order get other weights"):
            check_permutation(mechanism, AttentionInputs(queries(mechanism), states, valid))


@pytest.mark.parametrize("kind", ["scaled-dot", "additive"])
def test_the_key_size_defaults_to_the_query_size(kind: str) -> None:
    assert kinds.MECHANISMS[kind](QUERY, MEMORY).key_layer.weight.shape == (QUERY, MEMORY)
    assert kinds.MECHANISMS[kind](QUERY, MEMORY, key_size=KEY).key_layer.weight.shape == (KEY, MEMORY)


# Several heads


def torch_multi_head(mechanism: nn.MultiHeadAttention) -> torch.nn.MultiheadAttention:
    """torch's multi-head attention, with the same weights."""
    query, memory = mechanism.query_size, mechanism.memory_size
    reference_layer = torch.nn.MultiheadAttention(query, mechanism.heads, kdim=memory, vdim=memory, batch_first=True)
    layers = [mechanism.query_layer, mechanism.key_layer, mechanism.value_layer]
    with torch.no_grad():
        if reference_layer.in_proj_weight is None:
            for own, layer in zip(
                (reference_layer.q_proj_weight, reference_layer.k_proj_weight, reference_layer.v_proj_weight),
                layers,
                strict=True,
            ):
                own.copy_(layer.weight)
        else:
            reference_layer.in_proj_weight.copy_(torch.cat([layer.weight for layer in layers]))
        reference_layer.in_proj_bias.copy_(torch.cat([layer.bias for layer in layers]))
    reference_layer.out_proj.load_state_dict(mechanism.output_layer.state_dict())
    return reference_layer.requires_grad_(False)


def multi_head(query_size: int, memory_size: int, **options: Any) -> nn.MultiHeadAttention:
    torch.manual_seed(3)
    mechanism = nn.MultiHeadAttention(query_size, memory_size, **options)
    for parameter in mechanism.parameters():  # including biases
        torch.nn.init.normal_(parameter, std=0.5)
    return mechanism.requires_grad_(False)


@pytest.mark.parametrize("query_size", [MEMORY * 3, 6], ids=["equal-sizes", "two-sizes"])
def test_multi_head_equals_torch(query_size: int, valid: Tensor) -> None:
    memory_size = MEMORY * 3
    mechanism = multi_head(query_size, memory_size, heads=3)
    states = torch.randn(BATCH, POSITIONS, memory_size)
    query = queries(mechanism)
    context, weights = mechanism(query, mechanism.prepare(states, valid))
    expected = torch_multi_head(mechanism)(query, states, states, key_padding_mask=~valid, average_attn_weights=False)
    torch.testing.assert_close(context, expected[0], **CLOSE)
    torch.testing.assert_close(weights, expected[1], **CLOSE)
    assert weights.shape == (BATCH, 3, STEPS, POSITIONS)


def test_multi_head_with_a_mask_per_step_equals_torch(states: Tensor) -> None:
    mechanism = multi_head(6, MEMORY, heads=2)
    query = queries(mechanism)
    visible = torch.ones(STEPS, POSITIONS, dtype=torch.bool).tril()
    memory = mechanism.prepare(states, visible.expand(BATCH, -1, -1))
    context, weights = mechanism(query, memory)
    expected = torch_multi_head(mechanism)(query, states, states, attn_mask=~visible, average_attn_weights=False)
    torch.testing.assert_close(context, expected[0], **CLOSE)
    torch.testing.assert_close(weights, expected[1], **CLOSE)


@pytest.mark.parametrize("options", PLAIN_AND_OPTIONS, ids=["plain", "unit_norm", "hard"])
def test_each_head_is_scaled_dot_with_its_own_slice_of_the_projections(
    options: dict[str, Any], states: Tensor, valid: Tensor
) -> None:
    heads, share = 2, 5
    mechanism = multi_head(QUERY, MEMORY, heads=heads, key_size=heads * share, **options)
    query = queries(mechanism)
    context, weights = mechanism(query, mechanism.prepare(states, valid))
    answers = []
    for head in range(heads):
        rows = slice(head * share, (head + 1) * share)
        queries_of_source, read = query, states
        if options.get("unit_norm"):
            queries_of_source, read = (
                query / query.norm(dim=-1, keepdim=True),
                states / states.norm(dim=-1, keepdim=True),
            )
        q = queries_of_source @ mechanism.query_layer.weight[rows].T + mechanism.query_layer.bias[rows]
        k = read @ mechanism.key_layer.weight[rows].T + mechanism.key_layer.bias[rows]
        v = states @ mechanism.value_layer.weight[rows].T + mechanism.value_layer.bias[rows]
        scores = torch.einsum("bsk,bpk->bsp", q, k) / math.sqrt(share)
        scores = scores * mechanism.log_scale.exp() if options.get("unit_norm") else scores
        output_at_step, expected = nn.attend(scores, nn.Memory(k, v, valid.unsqueeze(1)), mechanism.normalizer)
        torch.testing.assert_close(weights[:, head], expected, **CLOSE)
        answers.append(output_at_step)
    output = mechanism.output_layer
    torch.testing.assert_close(context, torch.cat(answers, -1) @ output.weight.T + output.bias, **CLOSE)
    assert context.shape == (BATCH, STEPS, mechanism.context_size) == (BATCH, STEPS, QUERY)


# Several queries for one memory


@pytest.mark.parametrize("steps", [1, STEPS])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        pytest.param(kind, options, id="-".join([kind, *options]))
        for kind in kinds.MECHANISMS
        for options in PLAIN_AND_OPTIONS
        if options.keys() <= kinds.MECHANISMS[kind].Section.model_fields.keys()
    ],
)
def test_queries_that_share_a_memory_get_the_same_as_with_memories_of_their_own(
    kind: str, options: dict[str, bool], steps: int, states: Tensor, valid: Tensor
) -> None:
    several = kind == "multi-head"
    mechanism = multi_head(QUERY, MEMORY, heads=2, key_size=10, **options) if several else build(kind, **options)
    query = torch.randn(BATCH, steps, mechanism.query_size, generator=torch.Generator().manual_seed(6)) * 2
    check_shared_memory(mechanism, AttentionInputs(query, states, valid))


# Masks


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_a_fully_masked_query_gets_zeros_and_finite_gradients(normalizer: Normalizer) -> None:
    scores = torch.randn(2, STEPS, POSITIONS, requires_grad=True)
    values = torch.randn(2, POSITIONS, MEMORY, requires_grad=True)
    valid = torch.tensor([[False] * POSITIONS, [True] * POSITIONS]).unsqueeze(1)
    context, weights = nn.attend(scores, nn.Memory(values, values, valid), normalizer)
    assert not context[0].any()
    assert not weights[0].any()
    torch.testing.assert_close(weights[1].sum(-1), torch.ones(STEPS))
    context.square().sum().backward()
    for gradient in (scores.grad, values.grad):
        assert gradient is None or (gradient.isfinite().all() and not gradient[0].any())


@pytest.mark.parametrize("kind", [kind for kind in kinds.MECHANISMS if kind != "multi-head"])
def test_every_mechanism_returns_zeros_for_a_memory_without_valid_positions(kind: str, states: Tensor) -> None:
    mechanism = build(kind).requires_grad_(True)
    query = queries(mechanism)
    context, weights = mechanism(query, mechanism.prepare(states, torch.zeros(BATCH, POSITIONS, dtype=torch.bool)))
    assert not context.any()
    assert not weights.any()
    if context.requires_grad:
        context.sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in mechanism.parameters())


@pytest.mark.parametrize("kind", kinds.MECHANISMS)
def test_values_at_padding_do_not_change_the_result(kind: str, states: Tensor, valid: Tensor) -> None:
    mechanism = build(kind, heads=1) if kind == "multi-head" else build(kind)
    check_padded_states(mechanism, AttentionInputs(queries(mechanism), states, valid))


# Scores of a range in which softmax does not round to zero
score = st.floats(-20, 20, width=32)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.lists(st.tuples(score, st.booleans()), min_size=1, max_size=8), st.sampled_from(list(NORMALIZERS)))
def test_attend_on_a_masked_memory_equals_attend_on_the_valid_positions(
    row: list[tuple[float, bool]], normalizer: Normalizer
) -> None:
    scores, real = torch.tensor([[[score for score, _ in row]]]), torch.tensor([is_real for _, is_real in row])
    values = torch.arange(2.0 * len(row)).view(1, len(row), 2)
    context, weights = nn.attend(scores, nn.Memory(values, values, real.view(1, 1, -1)), normalizer)
    assert not weights[..., ~real].any()
    if not real.any():
        assert not context.any()
        return
    short_context, short_weights = nn.attend(scores[..., real], unmasked_memory(values[0, real]), normalizer)
    torch.testing.assert_close(weights[..., real], short_weights, **CLOSE)
    torch.testing.assert_close(context, short_context, **CLOSE)
    assert float(weights.sum()) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("scale", [1e-30, 1e4, 1e30])
def test_scores_of_any_magnitude_give_finite_weights(scale: float) -> None:
    scores = torch.tensor([[[-1.0, 0.0, 1.0]]]) * scale
    _, weights = nn.attend(scores, unmasked_memory(torch.eye(3)))
    assert weights.isfinite().all()
    assert float(weights.sum()) == pytest.approx(1.0)


def test_the_only_valid_position_gets_all_weight_even_with_the_lowest_score() -> None:
    """A valid position must win against padding, however low its score."""
    scores = torch.tensor([[[-1e30, 5.0]]])
    memory = nn.Memory(torch.eye(2)[None], torch.eye(2)[None], torch.tensor([[[True, False]]]))
    for normalizer in NORMALIZERS:
        _, weights = nn.attend(scores, memory, normalizer)
        assert weights.tolist() == [[[1.0, 0.0]]]


def test_memory_selects_rows_and_appends_positions() -> None:
    keys, values = torch.randn(3, 4, 2), torch.randn(3, 4, 5)
    valid = torch.tensor([[True, True, False, False], [True] * 4, [True, False, False, False]]).unsqueeze(1)
    memory = nn.Memory(keys, values, valid)
    chosen = memory.select(torch.tensor([2, 2, 0]))
    assert torch.equal(chosen.keys, keys[[2, 2, 0]])
    assert torch.equal(chosen.values, values[[2, 2, 0]])
    assert torch.equal(chosen.valid, valid[[2, 2, 0]])
    both = torch.ones(3, 1, 8, dtype=torch.bool)
    grown = nn.Memory(keys + 1, values + 1, both).append_to(memory)
    assert torch.equal(grown.keys, torch.cat([keys, keys + 1], 1))
    assert torch.equal(grown.values, torch.cat([values, values + 1], 1))
    assert grown.valid is both


def test_memory_copies_nothing_when_all_rows_are_selected_in_order() -> None:
    memory = nn.Memory(torch.randn(3, 5, 2), torch.randn(3, 5, 7), torch.rand(3, 1, 5) < 0.5)
    assert memory.select(torch.arange(3)) is memory
    for rows in ([1, 0, 2], [0, 1], [1, 2], [0], [0, 1, 2, 2]):
        chosen = memory.select(torch.tensor(rows))
        assert torch.equal(chosen.keys, memory.keys[rows])
        assert torch.equal(chosen.values, memory.values[rows])
        assert torch.equal(chosen.valid, memory.valid[rows])


# Invalid sizes


def test_dot_with_unequal_sizes_is_refused_with_both_sizes() -> None:
    with pytest.raises(UserError, match=r"size 7 .* size 11.*scaled-dot, bilinear, additive or multi-head"):
        nn.DotAttention(7, 11)


@pytest.mark.parametrize("options", [{"heads": 3}, {"heads": 3, "key_size": 7}])
def test_heads_that_do_not_divide_a_size_are_refused_with_both_numbers(options: dict[str, int]) -> None:
    with pytest.raises(UserError, match=r"3 heads cannot share a key size of 7"):
        nn.MultiHeadAttention(7, 11, **options)


def test_heads_that_do_not_divide_the_value_size_are_refused() -> None:
    with pytest.raises(UserError, match=r"3 heads cannot share a value size of 5 equally"):
        nn.MultiHeadAttention(6, 11, heads=3, value_size=5)
