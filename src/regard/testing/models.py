"""Properties of a model's outputs and attention weights: padding, steps and teacher forcing.

Each function checks one property of a model in evaluation mode, and raises `PropertyError` if it does not hold. The
batch has three sources of different lengths, the first one the longest, as `sample_batch` returns.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.data import Batch
from regard.nn import Seq2Seq, State
from regard.testing.failures import checks_that, expect, expect_close
from regard.testing.samples import more_padding, row_alone

ONE_BY_ONE = (
    "training runs all steps at once and search runs one; carry everything that a later step needs in the state, and "
    "count positions from `state.position`, not from the beginning of the call"
)


def run_steps(model: Seq2Seq, inputs: Tensor, state: State) -> tuple[Tensor, Tensor]:
    """Logits and weights, as `teacher_forced` returns them, computed one step at a time.

    Args:
        model: The model.
        inputs: Input tokens, [rows, steps].
        state: The state before the first step.
    """
    logits, weights = [], []
    for token in inputs.unbind(1):
        output, state = model.decoder.step(token, state)
        logits.append(output)
        weights.append(latest_weights(state))
    return torch.stack(logits, 1), torch.stack(weights, -2)


def latest_weights(state: State) -> Tensor:
    """The attention weights of the latest step, which a state has after every step.

    Args:
        state: The state after a step.
    """
    weights = state.weights
    expect(
        weights is not None,
        "the state after a step has no attention weights",
        "set `weights` of the new state to those of its last step",
    )
    assert weights is not None
    return weights


@checks_that("padding changes neither outputs nor weights")
@torch.inference_mode()
def check_padding(model: Seq2Seq, batch: Batch) -> None:
    """A source has the same outputs and weights alone, in a batch, and with more padding.

    Args:
        model: The model.
        batch: Sources of different lengths.
    """
    advice = (
        "a source must have the same result alone, in a batch and with any padding; mask positions where `valid` is "
        "False wherever positions are summed, averaged, normalized or counted"
    )
    logits, weights = model.decoder.teacher_forced(batch.inputs, model.start(batch.source, batch.source_valid))
    padded_logits, padded_weights = model.decoder.teacher_forced(batch.inputs, model.start(*more_padding(batch)))
    positions = batch.source.shape[1]
    expect_close(padded_logits, logits, "more padding changes the logits", advice)
    expect_close(padded_weights[..., :positions], weights, "more padding changes the attention weights", advice)
    row = len(batch.source) - 1
    source, valid = row_alone(batch, row)
    alone_logits, alone_weights = model.decoder.teacher_forced(batch.inputs[row:], model.start(source, valid))
    expect_close(alone_logits[0], logits[row], "the logits of a source alone and in a batch differ", advice)
    expected = weights[row, ..., : source.shape[1]]
    expect_close(alone_weights[0], expected, "the attention weights of a source alone and in a batch differ", advice)


@checks_that("attention weights are a distribution over the valid positions")
@torch.inference_mode()
def check_weights(model: Seq2Seq, batch: Batch, *, total: float | None = 1.0, hard: bool = False) -> None:
    """Weights have the axes of `weight_axes`, are not negative, 0 on padding, and sum to 1 over the other positions.

    Args:
        model: The model.
        batch: Sources of different lengths.
        total: The expected sum of the weights; 0 without attention, None if it is 1 at some steps and 0 at others.
        hard: Whether all weight is on one position.
    """
    decoder = model.decoder
    _, weights = decoder.teacher_forced(batch.inputs, model.start(batch.source, batch.source_valid))
    rows, positions = batch.source_valid.shape
    expect(
        weights.dim() == 3 + len(decoder.weight_axes),
        f"the weights have the shape {list(weights.shape)}, but `weight_axes` is {decoder.weight_axes}",
        "weights are [batch, one axis for each name in `weight_axes`, steps, positions]",
    )
    layers = [len(decoder.source_attentions)] if "layer" in decoder.weight_axes else []
    begin, end = [rows, *layers], [batch.inputs.shape[1], positions]
    expect(
        list(weights.shape[: len(begin)]) == begin and list(weights.shape[-2:]) == end,
        f"the weights have the shape {list(weights.shape)} instead of {[*begin, '…', *end]}",
        "weights are [batch, (layers,) (heads,) steps, positions]",
    )
    padding = ~batch.source_valid.view(rows, *[1] * (weights.dim() - 2), positions)
    expect_distribution(weights, padding, total=total, hard=hard)


def expect_distribution(weights: Tensor, padding: Tensor, *, total: float | None, hard: bool) -> None:
    """Expect that weights are a distribution over the positions that are not padding.

    Args:
        weights: [batch, …, steps, positions].
        padding: True for padding, broadcastable to `weights`.
        total: The expected sum; None: 0 or 1.
        hard: Whether all weight is on one position.
    """
    largest = float(weights.masked_fill(~padding, 0.0).abs().max())
    expect(
        largest == 0.0,
        f"padding gets attention weight (up to {largest:.2g})",
        "the weights of positions where `valid` is False must be exactly 0; compute them with `regard.nn.attend`, or "
        "mask the scores before the softmax",
    )
    expect((weights >= 0).all(), "attention weights are negative or not numbers", "weights are probabilities")
    sums = weights.sum(-1)
    expect_close(
        sums,
        sums.round().clamp(0, 1) if total is None else torch.full_like(sums, total),
        f"the attention weights of a step do not sum to {'0 or 1' if total is None else f'{total:g}'}",
        "normalize over the last axis, the positions, and after masking",
    )
    if hard:
        expect(
            set(weights.unique().tolist()) <= {0.0, 1.0},
            "weights other than 0 and 1 in spite of `normalizer='hard'`",
            "pass `normalizer` to the constructor of the base class, and `self.normalizer` to `attend`",
        )


@checks_that("all steps at once equal one step after the other")
@torch.inference_mode()
def check_steps(model: Seq2Seq, batch: Batch) -> None:
    """`teacher_forced` returns what repeated calls of `step` return.

    Args:
        model: The model.
        batch: Sources and targets.
    """
    state = model.start(batch.source, batch.source_valid)
    logits, weights = model.decoder.teacher_forced(batch.inputs, state)
    step_logits, step_weights = run_steps(model, batch.inputs, state)
    expect_close(step_logits, logits, "the logits of single steps differ from those of all steps at once", ONE_BY_ONE)
    expect_close(
        step_weights,
        weights,
        "the attention weights of single steps differ from those of all steps at once",
        ONE_BY_ONE,
    )


@checks_that("several calls of `forward_steps` equal one")
@torch.inference_mode()
def check_chunks(model: Seq2Seq, batch: Batch) -> None:
    """`forward_steps` over a few steps at a time returns what one call over all steps returns.

    Args:
        model: The model.
        batch: Sources and targets of at least three steps.
    """
    state = model.start(batch.source, batch.source_valid)
    features, weights, end = model.decoder.forward_steps(batch.inputs, state)
    all_features, all_weights = [], []
    for chunk in batch.inputs.split(2, 1):
        chunk_features, chunk_weights, state = model.decoder.forward_steps(chunk, state)
        all_features.append(chunk_features)
        all_weights.append(chunk_weights)
    problem = "`forward_steps` over two steps at a time differs from one call over all steps"
    expect_close(torch.cat(all_features, 1), features, f"{problem} in its features", ONE_BY_ONE)
    expect_close(torch.cat(all_weights, -2), weights, f"{problem} in its weights", ONE_BY_ONE)
    expect_close(latest_weights(state), latest_weights(end), f"{problem} in the weights of its state", ONE_BY_ONE)


@checks_that("with `valid`, `teacher_forced` returns the valid steps in order")
@torch.inference_mode()
def check_valid_steps(model: Seq2Seq, batch: Batch) -> None:
    """With `valid`, the logits are those of the valid steps, one row after the other.

    Args:
        model: The model.
        batch: Sources, and targets of different lengths.
    """
    problem = "with `valid`, `teacher_forced` returns other results than without it"
    advice = "with `valid`, it returns `logits[valid]` and all weights"
    state = model.start(batch.source, batch.source_valid)
    logits, weights = model.decoder.teacher_forced(batch.inputs, state)
    valid_logits, same_weights = model.decoder.teacher_forced(batch.inputs, state, batch.valid)
    expect_close(valid_logits, logits[batch.valid], problem, advice)
    expect_close(same_weights, weights, problem, advice)
    forward = model(batch.source, batch.source_valid, batch.inputs, batch.valid)
    expect_close(forward, valid_logits, "`forward` of the model and `teacher_forced` differ", advice)


@checks_that("the state has the weights of the latest step")
@torch.inference_mode()
def check_latest_weights(model: Seq2Seq, batch: Batch) -> None:
    """`state.weights` is None before the first step, and then has the weights of the latest step.

    Args:
        model: The model.
        batch: Sources and targets.
    """
    state = model.start(batch.source, batch.source_valid)
    expect(state.weights is None, "the first state has attention weights", "`weights` is None before the first step")
    _, weights, state = model.decoder.forward_steps(batch.inputs, state)
    expect_close(
        latest_weights(state),
        weights[..., -1, :],
        "`state.weights` differs from the weights of the last step",
        "set `weights` of the new state to `weights.select(-2, -1)`",
    )


@checks_that("a step depends on its own token and not on later ones")
@torch.inference_mode()
def check_causality(model: Seq2Seq, batch: Batch) -> None:
    """A later token changes no earlier output, and a token changes the output of its own step.

    Args:
        model: The model.
        batch: Sources and targets.
    """
    state = model.start(batch.source, batch.source_valid)
    logits, weights = model.decoder.teacher_forced(batch.inputs, state)
    advice = "the decoder sees the future, which search does not know; mask later steps in every layer"
    for step in range(batch.inputs.shape[1]):
        changed = batch.inputs.clone()
        changed[:, step:] = (changed[:, step:] + 1) % logits.shape[-1]
        other_logits, other_weights = model.decoder.teacher_forced(changed, state)
        expect_close(other_logits[:, :step], logits[:, :step], "a later token changes earlier logits", advice)
        before, same = weights[..., :step, :], other_weights[..., :step, :]
        expect_close(same, before, "a later token changes earlier attention weights", advice)
        expect(
            not torch.equal(other_logits[:, step], logits[:, step]),
            "the logits of a step do not depend on its input token",
            "feed the embedding of the token into the step",
        )


@checks_that("scheduled sampling with reference tokens only equals teacher forcing")
@torch.inference_mode()
def check_full_mask(model: Seq2Seq, batch: Batch) -> None:
    """`scheduled_sampling` with a mask that is True everywhere returns the logits of `teacher_forced`.

    Args:
        model: The model.
        batch: Sources and targets.
    """
    state = model.start(batch.source, batch.source_valid)
    expected, _ = model.decoder.teacher_forced(batch.inputs, state)
    actual = model.decoder.scheduled_sampling(batch.inputs, state, torch.ones_like(batch.valid))
    expect_close(
        actual, expected, "scheduled sampling with reference tokens only differs from teacher forcing", ONE_BY_ONE
    )


@checks_that("scheduled sampling reads the model's own tokens where the mask is False")
@torch.inference_mode()
def check_own_predictions(model: Seq2Seq, batch: Batch) -> None:
    """Where the teacher-forcing mask is False, the decoder reads its most likely token of the step before.

    Args:
        model: The model.
        batch: Three sources, and targets of five steps.
    """
    pattern = [[0, 0, 0, 0, 0], [0, 0, 1, 0, 1], [1, 1, 0, 1, 0]]
    mask = torch.tensor(pattern, device=batch.inputs.device).bool()
    state = model.start(batch.source, batch.source_valid)
    read = batch.inputs.clone()
    for step in range(1, read.shape[1]):
        predicted = model.decoder.teacher_forced(read[:, :step], state)[0][:, -1].argmax(-1)
        read[:, step] = torch.where(mask[:, step], read[:, step], predicted)
    expected, _ = model.decoder.teacher_forced(read, state)
    actual = model.decoder.scheduled_sampling(batch.inputs, state, mask)
    problem = "scheduled sampling differs from teacher forcing with the tokens that it should read"
    advice = (
        "where the mask is True it reads the reference token, elsewhere the most likely token of the step before, and "
        "the first token is always the reference"
    )
    expect_close(actual, expected, problem, advice)
    flat = model(batch.source, batch.source_valid, batch.inputs, batch.valid, mask)
    expect_close(flat, actual[batch.valid], "`forward` of the model and `scheduled_sampling` differ", advice)
