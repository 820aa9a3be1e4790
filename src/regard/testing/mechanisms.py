"""Properties of an attention mechanism on its own.

Each function checks one property of a mechanism with random inputs, and raises `PropertyError` if it does not hold.
"""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor

from regard.nn import Attention
from regard.nn.attention_history import NO_HISTORY
from regard.testing.failures import checks_that, describe_error, expect, expect_close
from regard.testing.models import expect_distribution
from regard.testing.modules import expect_stateless
from regard.testing.samples import AttentionInputs

SHARE = 7  # hypotheses of a source
BFLOAT16_TOLERANCE = 0.05
FAR = 1e6  # a state that nothing but padding has
PADDING = (
    "positions where `valid` is False influence the result; compute scores without sums, means or norms over positions "
    "and without their number, or mask them, and sum values with the weights of `attend`"
)


def attend_to(attention: Attention, inputs: AttentionInputs) -> tuple[Tensor, Tensor]:
    """Context and weights.

    Args:
        attention: The mechanism.
        inputs: Its inputs.
    """
    context, weights = attention(inputs.query, attention.prepare(inputs.states, inputs.valid))
    return context, weights


@checks_that("it computes with its sizes")
@torch.inference_mode()
def check_shapes(attention: Attention, inputs: AttentionInputs) -> None:
    """The context is [batch, steps, context_size], the weights [batch, …, steps, positions] with `weight_axes` between.

    Args:
        attention: The mechanism.
        inputs: Its inputs.
    """
    query_size, memory_size = attention.query_size, attention.memory_size
    try:
        context, weights = attend_to(attention, inputs)
    except RuntimeError as error:
        expect(
            False,
            f"it cannot compute with a query of size {query_size} and states of size {memory_size} "
            f"({describe_error(error)})",
            "look for swapped axes; if it needs certain sizes, refuse others: raise `invalid_combination` in "
            "`check_sizes` of its Section and `UserError` in its constructor",
        )
        raise
    batch, steps, positions = *inputs.query.shape[:2], inputs.states.shape[1]
    expect(
        list(context.shape) == [batch, steps, attention.context_size],
        f"the context has the shape {list(context.shape)} instead of {[batch, steps, attention.context_size]}",
        "it is [batch, steps, context_size]; set `self.context_size` in the constructor if a context is no state",
    )
    axes = attention.weight_axes
    expect(
        weights.dim() == 3 + len(axes) and weights.shape[0] == batch and weights.shape[-2:] == (steps, positions),
        f"the weights have the shape {list(weights.shape)}, but `weight_axes` is {axes}, for {batch} rows, {steps} "
        f"steps and {positions} positions",
        "they are [batch, one axis for each name in `weight_axes`, steps, positions]",
    )


@checks_that("weights are a distribution over the valid positions")
@torch.inference_mode()
def check_distribution(
    attention: Attention, inputs: AttentionInputs, *, total: float | None = 1.0, hard: bool = False
) -> None:
    """Weights are not negative, exactly 0 on padding, and sum to 1 over the other positions.

    Args:
        attention: The mechanism.
        inputs: Its inputs.
        total: The expected sum of the weights; 0 without attention, None if it is 1 at some steps and 0 at others.
        hard: Whether all weight is on one position.
    """
    _, weights = attend_to(attention, inputs)
    padding = ~inputs.valid.view(len(weights), *[1] * (weights.dim() - 2), -1)
    expect_distribution(weights, padding, total=total, hard=hard)


@checks_that("padding does not change the result")
@torch.inference_mode()
def check_padded_states(attention: Attention, inputs: AttentionInputs) -> None:
    """States at padding do not change context and weights, nor does more padding.

    Args:
        attention: The mechanism.
        inputs: Its inputs.
    """
    context, weights = attend_to(attention, inputs)
    states = torch.where(inputs.valid.unsqueeze(-1), inputs.states, FAR)
    more = torch.full_like(states[:, :2], -FAR)
    padded_states = torch.cat([states, more], 1)
    padded_valid = torch.cat([inputs.valid, torch.zeros_like(inputs.valid[:, :2])], 1)
    positions = states.shape[1]
    for valid, other, what in (
        (inputs.valid, states, "other states at padding change"),
        (padded_valid, padded_states, "more padding changes"),
    ):
        new_context, new_weights = attend_to(attention, AttentionInputs(inputs.query, other, valid))
        expect_close(new_weights[..., :positions], weights, f"padding changes the result: {what} the weights", PADDING)
        expect_close(new_context, context, f"padding changes the result: {what} the context", PADDING)


@checks_that("rows of a batch do not influence each other")
@torch.inference_mode()
def check_rows(attention: Attention, inputs: AttentionInputs) -> None:
    """A row alone and without padding has the same context and weights as in a batch.

    Args:
        attention: The mechanism.
        inputs: Its inputs.
    """
    advice = "do not sum, normalize or count over the batch axis or over padding, the first and second axis of `states`"
    context, weights = attend_to(attention, inputs)
    for row, valid in enumerate(inputs.valid):
        one = slice(row, row + 1)
        alone = AttentionInputs(inputs.query[one], inputs.states[one, valid], inputs.valid[one, valid])
        own_context, own_weights = attend_to(attention, alone)
        problem = "of a row alone differ from those of the same row in a batch"
        expect_close(own_weights[0], weights[row, ..., valid], f"the weights {problem}", advice)
        expect_close(own_context[0], context[row], f"the contexts {problem}", advice)


@checks_that("one step equals all steps")
@torch.inference_mode()
def check_single_steps(attention: Attention, inputs: AttentionInputs) -> None:
    """A step has the same context and weights alone as with other steps.

    Args:
        attention: The mechanism.
        inputs: Its inputs.
    """
    advice = (
        "training computes all steps at once and search one by one; do not sum, normalize or count over the steps, the "
        "second axis of `query`"
    )
    memory, history = attention.prepare(inputs.states, inputs.valid), NO_HISTORY
    context, weights = attention(inputs.query, memory)
    for step in range(inputs.query.shape[1]):
        own_context, own_weights = attention(inputs.query[:, step : step + 1], memory, history)
        history = attention.extend_history(history, own_weights)
        problem = "of a step alone differ from those of the same step among others"
        expect_close(own_weights.squeeze(-2), weights[..., step, :], f"the weights {problem}", advice)
        expect_close(own_context.squeeze(1), context[:, step], f"the contexts {problem}", advice)


@checks_that("attention treats the states as a set")
@torch.inference_mode()
def check_permutation(attention: Attention, inputs: AttentionInputs) -> None:
    """A permutation of the states permutes the weights and does not change the context.

    Args:
        attention: The mechanism. One that is `order_sensitive` is not checked.
        inputs: Its inputs.
    """
    if attention.order_sensitive:
        return
    advice = (
        "compute the score of a state from the query and that state alone; if the order matters on purpose, set the "
    )
    advice += "class attribute `order_sensitive = True`"
    order = torch.arange(inputs.states.shape[1], device=inputs.states.device).flip(0)
    permuted = AttentionInputs(inputs.query, inputs.states[:, order], inputs.valid[:, order])
    context, weights = attend_to(attention, inputs)
    new_context, new_weights = attend_to(attention, permuted)
    expect_close(new_weights, weights[..., order], "states in another order get other weights", advice)
    expect_close(new_context, context, "states in another order give another context", advice)


@checks_that("queries that share a memory get the same as with memories of their own")
@torch.inference_mode()
def check_shared_memory(attention: Attention, inputs: AttentionInputs) -> None:
    """A query with several rows for each row of the memory gets the same as each row with its own memory.

    Args:
        attention: The mechanism.
        inputs: Its inputs.
    """
    advice = (
        "in beam search, `query` has several consecutive rows for each row of the memory; override `attend_rows` "
        "rather than `forward`, or repeat the memory with `repeat_interleave(share, 0)`, not `repeat`"
    )
    noise = torch.arange(SHARE, device="cpu").view(1, SHARE, 1, 1) - SHARE // 2
    several = (inputs.query.unsqueeze(1) + noise).flatten(0, 1)  # [batch · SHARE, steps, query_size]
    try:
        context, weights = attention(several, attention.prepare(inputs.states, inputs.valid))
    except RuntimeError as error:
        expect(False, f"hypotheses of a beam cannot share a memory ({describe_error(error)})", advice)
        raise
    for row in range(len(several)):
        source, own = slice(row // SHARE, row // SHARE + 1), slice(row, row + 1)
        alone = AttentionInputs(several[own], inputs.states[source], inputs.valid[source])
        own_context, own_weights = attend_to(attention, alone)
        problem = "of hypotheses that share a memory differ from those with memories of their own"
        expect_close(weights[own], own_weights, f"the weights {problem}", advice)
        expect_close(context[own], own_context, f"the contexts {problem}", advice)


@checks_that("nothing of a call is stored")
@torch.inference_mode()
def check_no_stored_memory(attention: Attention, inputs: AttentionInputs) -> None:
    """`prepare` and `forward` keep nothing on the module.

    Args:
        attention: The mechanism.
        inputs: Its inputs.
    """
    # Copies are recognized even if an earlier call has stored the inputs themselves.
    copies = AttentionInputs(inputs.query.clone(), inputs.states.clone(), inputs.valid.clone())
    expect_stateless(attention, lambda: attend_to(attention, copies))


@checks_that("the same inputs give the same result")
@torch.inference_mode()
def check_pure(attention: Attention, inputs: AttentionInputs) -> None:
    """A memory can be used any number of times, and inputs are not modified.

    Args:
        attention: The mechanism.
        inputs: Its inputs.
    """
    query, states = inputs.query.clone(), inputs.states.clone()
    memory = attention.prepare(states, inputs.valid)
    first, _, again = (attention(each, memory)[0] for each in (query, -query, query))
    unchanged = torch.equal(query, inputs.query) and torch.equal(states, inputs.states)
    expect(unchanged, "the query or the states are modified", "do not use operations in place, such as `add_`")
    expect(
        torch.equal(first, again),
        "the same query to the same memory gets another context the second time",
        "use no random numbers in evaluation mode, and neither change the memory nor keep anything of a call",
    )


@checks_that("results and gradients are finite")
def check_finite(attention: Attention, inputs: AttentionInputs) -> None:
    """Context, weights and gradients are finite, also for large queries and states, and for states of zeros.

    Args:
        attention: The mechanism.
        inputs: Its inputs.
    """
    for scale in (1.0, 100.0, 0.0):
        query = (inputs.query * scale).requires_grad_()
        states = (inputs.states * scale).requires_grad_()
        context, weights = attend_to(attention, AttentionInputs(query, states, inputs.valid))
        size = f"if queries and states are multiplied by {scale:g}" if scale != 1.0 else "for ordinary inputs"
        advice = (
            "compute the softmax with `attend` or `torch.softmax`, not from exponentials, and add a small number to "
            "norms and roots before dividing by them or differentiating them"
        )
        expect(
            context.isfinite().all() and weights.isfinite().all(),
            f"context or weights are not finite {size}",
            advice,
        )
        variables = {"query": query, "states": states} | dict(attention.named_parameters())
        if context.requires_grad:
            found = torch.autograd.grad(context.square().sum(), list(variables.values()), allow_unused=True)
            for name, gradient in zip(variables, found, strict=True):
                finite = gradient is None or bool(gradient.isfinite().all())
                expect(finite, f"the gradient of {name} is not finite {size}", advice)


@checks_that("it computes in bfloat16")
@torch.inference_mode()
def check_bfloat16(attention: Attention, inputs: AttentionInputs) -> None:
    """Under autocast and converted to bfloat16, it computes nearly the same, and weights have nearly the same sums.

    Rounding may move a choice of one position to another one, so only most of the steps have to have similar weights.

    Args:
        attention: The mechanism.
        inputs: Its inputs.
    """
    _, expected = attend_to(attention, inputs)
    query, states = inputs.query.bfloat16(), inputs.states.bfloat16()
    converted = deepcopy(attention).bfloat16(), AttentionInputs(query, states, inputs.valid)
    for how, uses_autocast, (mechanism, given) in (
        ("under autocast", True, (attention, inputs)),
        ("converted to bfloat16", False, converted),
    ):
        with torch.autocast(query.device.type, torch.bfloat16, enabled=uses_autocast):
            try:
                context, weights = attend_to(mechanism, given)
            except RuntimeError as error:
                advice = "create tensors like the inputs, with `query.new_zeros(…)` or `.to(query)`"
                expect(False, f"it cannot compute {how} ({describe_error(error)})", advice)
                raise
        types = {torch.float32, torch.bfloat16} if uses_autocast else {given.query.dtype}
        problem = f"{how}, the context is {context.dtype} and the weights are {weights.dtype}"
        advice = "a context has the type of the values, and weights have that of the query or float32"
        expect(context.dtype in types and weights.dtype in {torch.float32, given.query.dtype}, problem, advice)
        change = float((weights.float().sum(-1) - expected.sum(-1)).abs().max())
        advice = "normalize scores in float32, as `attend` does"
        expect(change <= BFLOAT16_TOLERANCE, f"{how}, the sums of the weights change by up to {change:.2g}", advice)
        change = float((weights.float() - expected).abs().amax(-1).median())
        advice = "bfloat16 has 8 bits: sum, count and compare in float32, with `.float()`"
        expect(change <= BFLOAT16_TOLERANCE, f"{how}, the weights of most steps change by {change:.2g} or more", advice)


@checks_that("tensors are created on the device of the inputs")
@torch.inference_mode()
def check_devices(attention: Attention, inputs: AttentionInputs) -> None:
    """New tensors are on the device of the inputs, so that a model runs on a GPU. Uses the `meta` device.

    Args:
        attention: The mechanism.
        inputs: Its inputs.
    """
    there = AttentionInputs(*(part.to("meta") for part in (inputs.query, inputs.states, inputs.valid)))
    try:
        attend_to(deepcopy(attention).to("meta"), there)
    except (RuntimeError, NotImplementedError) as error:  # some operations do not exist on this device
        expect(
            "is not on the expected device" not in str(error),
            f"it uses a tensor of another device than its inputs ({describe_error(error)})",
            "create tensors with `query.new_zeros(…)` or `device=query.device`, and register constants with "
            "`register_buffer(name, value, persistent=False)`; else the model does not run on a GPU",
        )
