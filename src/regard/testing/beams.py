"""Properties that search needs of a decoder's state: `select` commutes with `step`, and hypotheses share a source.

Each function checks one property of a model in evaluation mode, and raises `PropertyError` if it does not hold. The
batch has three sources, as `sample_batch` returns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data import Batch
from regard.nn import Seq2Seq, State
from regard.testing.failures import checks_that, expect, expect_close
from regard.testing.models import latest_weights, run_steps

# Which rows continue before each step, for each source: one becomes three, they are reordered, a source leaves and the
# others are reordered, three become two, and two one.
MOVES = (
    [[0, 0, 0], [1, 1, 1], [2, 2, 2]],
    [[2, 0, 1], [3, 3, 5], [8, 7, 6]],
    [[7, 6, 8], [1, 1, 0]],
    [[2, 0], [3, 5]],
    [1, 2],
)
SELECT_ROWS = "`State.select` must reorder every tensor of the state that belongs to rows, along the axis of its rows"


def state_before(model: Seq2Seq, batch: Batch, steps: int) -> State:
    """The state after some steps.

    Args:
        model: The model.
        batch: Sources and targets.
        steps: Number of steps, which may be 0.
    """
    state = model.start(batch.source, batch.source_valid)
    if steps:
        *_, state = model.decoder.forward_steps(batch.inputs[:, :steps], state)
    return state


@checks_that("`select` commutes with `step`")
@torch.inference_mode()
def check_selection(model: Seq2Seq, batch: Batch, *, before: int = 2) -> None:
    """Rows that were selected continue as they would have without the selection.

    Args:
        model: The model.
        batch: Three sources, and targets of two steps more than `before`.
        before: Number of steps before the selection.
    """
    state = state_before(model, batch, before)
    rest = batch.inputs[:, before : before + 2]
    logits, weights = run_steps(model, rest, state)
    for index in ([2, 0, 1], [1, 1, 0, 2], [2]):
        rows = torch.tensor(index, device=rest.device)
        chosen = state.select(rows)
        if before:
            expect_close(
                latest_weights(chosen),
                latest_weights(state)[rows],
                "`select` leaves the weights of the latest step in their old order",
                SELECT_ROWS,
            )
        chosen_logits, chosen_weights = run_steps(model, rest[rows], chosen)
        problem = f"rows {index} continue differently after `select`"
        expect_close(chosen_logits, logits[rows], f"{problem} in their logits", SELECT_ROWS)
        expect_close(chosen_weights, weights[rows], f"{problem} in their attention weights", SELECT_ROWS)


@dataclass(frozen=True)
class BeamStep:
    """One step of hypotheses that share sources, and the same step of rows with sources of their own.

    Args:
        sources: Number of sources that the hypotheses share.
        logits: Logits of the hypotheses.
        state: Their state after the step.
        expected_logits: Logits of the rows with sources of their own.
        expected_state: Their state after the step.
    """

    sources: int
    logits: Tensor
    state: State
    expected_logits: Tensor
    expected_state: State


def beam_steps(model: Seq2Seq, batch: Batch, *, before: int = 2) -> Iterator[BeamStep]:
    """The steps of beams that grow, are reordered, lose sources and shrink.

    Args:
        model: The model.
        batch: Three sources and their targets.
        before: Number of steps before the first selection.
    """
    state, read = state_before(model, batch, before), batch.inputs[:, :before]
    origins = torch.arange(len(batch.source), device=read.device)
    for step, move in enumerate(MOVES):
        index = torch.tensor(move, device=read.device)
        rows = index.flatten()
        token = torch.arange(len(rows), device=read.device) + step  # a different token for each row
        origins, read = origins[rows], torch.cat([read[rows], token.unsqueeze(1)], 1)
        logits, state = model.decoder.step(token, state.select(index))
        copies = model.start(batch.source[origins], batch.source_valid[origins])
        features, _, copied = model.decoder.forward_steps(read, copies)
        yield BeamStep(len(index), logits, state, model.decoder.logits(features[:, -1]), copied)


@checks_that("hypotheses that share a source continue as with sources of their own")
@torch.inference_mode()
def check_beams(model: Seq2Seq, batch: Batch, *, before: int = 2) -> None:
    """Hypotheses of a beam, which share the memory of their source, continue as copies of the source would.

    Args:
        model: The model.
        batch: Three sources and their targets.
        before: Number of steps before the first selection.
    """
    advice = (
        "the rows of a query are [hypotheses of source 1, hypotheses of source 2, …] and share one row of the memory "
        "for each source; do not repeat the memory in another order, and let `State.select` choose rows and sources "
        "with `split_index`"
    )
    for step in beam_steps(model, batch, before=before):
        sharing = f"hypotheses that share {step.sources} sources differ from copies of the sources"
        expect_close(step.logits, step.expected_logits, f"{sharing} in their logits", advice)
        actual, expected = latest_weights(step.state), latest_weights(step.expected_state)
        expect_close(actual, expected, f"{sharing} in their attention weights", advice)


@checks_that("repeated selections compose")
@torch.inference_mode()
def check_repeated_selections(model: Seq2Seq, batch: Batch) -> None:
    """Several selections without a step between them equal one.

    Args:
        model: The model.
        batch: Three sources and their targets.
    """
    state = state_before(model, batch, 2)
    one, two, three = (torch.tensor(move, device=batch.inputs.device) for move in MOVES[:3])
    token = torch.arange(three.numel(), device=batch.inputs.device)
    logits, twice = model.decoder.step(token, state.select(one).select(two).select(three))
    expected, once = model.decoder.step(token, state.select(one.flatten()[two.flatten()[three]]))
    problem = "three selections in a row differ from one selection of the same rows"
    expect_close(logits, expected, f"{problem} in their logits", SELECT_ROWS)
    expect_close(latest_weights(twice), latest_weights(once), f"{problem} in their weights", SELECT_ROWS)


@checks_that("a step does not modify the state that it is given")
@torch.inference_mode()
def check_state_unchanged(model: Seq2Seq, batch: Batch) -> None:
    """Several steps can follow the same state.

    Args:
        model: The model.
        batch: Sources and targets of four steps.
    """
    for before in (0, 2):
        state = state_before(model, batch, before)
        first, _ = model.decoder.step(batch.inputs[:, 2], state)
        model.decoder.step(batch.inputs[:, 3], state)
        again, _ = model.decoder.step(batch.inputs[:, 2], state)
        expect(
            torch.equal(first, again),
            "the same step from the same state gives another result the second time",
            "a step must return a new state and leave the given one as it is; do not change its tensors in place, and "
            "keep nothing of a step on `self`",
        )
