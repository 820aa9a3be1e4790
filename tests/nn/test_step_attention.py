"""Modules with the signature of the CS224n-style homework as mechanisms, and mechanisms as such modules."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import GRU, Linear, Module

from regard import Search, load, nn, testing
from regard.config.kinds import AttentionSection
from regard.config.schema import Experiment
from regard.errors import UserError
from regard.nn.unscored_mechanisms import UnscoredAttentionSection
from regard.testing.samples import valid_mask
from regard.training.train_run import train_run

BATCH, POSITIONS, ENC, DEC, KEY, VOCABULARY = 3, 5, 7, 11, 13, 17
LENGTHS = (5, 2, 3)
CLOSE = {"rtol": 1e-5, "atol": 1e-6}


class SingleQueryScaledDotProductAttention(Module):
    """A solution as a student writes it: no mask, and biases."""

    def __init__(self, enc_hid_dim: int, dec_hid_dim: int, kq_dim: int = 512) -> None:
        super().__init__()
        self.query = Linear(dec_hid_dim, kq_dim)
        self.key = Linear(2 * enc_hid_dim, kq_dim)
        self.kq_dim = kq_dim

    def forward(self, hidden: Tensor, encoder_outputs: Tensor) -> tuple[Tensor, Tensor]:
        scores = (self.key(encoder_outputs) * self.query(hidden)).sum(-1).T / math.sqrt(self.kq_dim)
        alpha = torch.softmax(scores, 1)
        return torch.einsum("bs,sbe->be", alpha, encoder_outputs), alpha


class MeanPool(Module):
    def forward(self, hidden: Tensor, encoder_outputs: Tensor) -> tuple[Tensor, Tensor]:
        length, batch, _ = encoder_outputs.shape
        return encoder_outputs.mean(0), torch.full((batch, length), 1 / length)


class Dummy(Module):
    def __init__(self, dev: str) -> None:
        super().__init__()
        self.dev = dev

    def forward(self, hidden: Tensor, encoder_outputs: Tensor) -> tuple[Tensor, Tensor]:
        length, batch, size = encoder_outputs.shape
        return torch.zeros(batch, size).to(self.dev), torch.zeros(batch, length).to(self.dev)


class KeySizeSection(AttentionSection):
    kq_dim: int = KEY


class StudentsAttention(nn.StepAttention):
    module_class = SingleQueryScaledDotProductAttention


class StudentsAttentionWithSettings(StudentsAttention):
    Section = KeySizeSection


class StudentsMean(nn.StepAttention):
    Section = UnscoredAttentionSection

    def make_module(self, enc_hid_dim: int, dec_hid_dim: int, **options: Any) -> Module:
        return MeanPool()


class StudentsDummy(nn.StepAttention):
    Section = UnscoredAttentionSection

    def make_module(self, enc_hid_dim: int, dec_hid_dim: int, **options: Any) -> Module:
        return Dummy("cpu")


def same_weights(module: Module, mechanism: nn.ScaledDotAttention) -> None:
    """Copy the weights of a student's module into the mechanism of the same formula; set biases to 0."""
    with torch.no_grad():
        for own, layer in ((module.query, mechanism.query_layer), (module.key, mechanism.key_layer)):
            own.bias.zero_()
            layer.weight.copy_(own.weight)


# A student's class in Regard


@pytest.mark.parametrize("mechanism", [StudentsAttention, StudentsAttentionWithSettings, StudentsMean, StudentsDummy])
def test_a_students_class_has_every_property_of_a_mechanism(mechanism: type[nn.StepAttention]) -> None:
    testing.check_attention(mechanism)


def test_masked_weights_and_gradients_are_those_of_the_built_in_mechanism() -> None:
    torch.manual_seed(1)
    student = StudentsAttention(DEC, 2 * ENC, kq_dim=KEY)
    built_in = nn.ScaledDotAttention(DEC, 2 * ENC, key_size=KEY)
    same_weights(student.module, built_in)
    query, states = torch.randn(BATCH, 2, DEC), torch.randn(BATCH, POSITIONS, 2 * ENC)
    valid = valid_mask(LENGTHS, POSITIONS)
    valid[0, 1] = False  # any mask, not padding only
    found = []
    for mechanism in (student, built_in):
        states.requires_grad_()
        context, weights = mechanism(query, mechanism.prepare(states, valid))
        (gradient,) = torch.autograd.grad(context.square().sum(), states)
        found.append((context, weights, gradient))
    for own, expected in zip(*found, strict=True):
        torch.testing.assert_close(own, expected, **CLOSE)


def test_a_mask_may_differ_between_steps_and_leave_nothing() -> None:
    mechanism = StudentsMean(DEC, 2 * ENC)
    states, valid = torch.randn(1, 3, 2 * ENC), torch.tensor([[[True, False, True], [False, False, False]]])
    context, weights = mechanism(torch.randn(1, 2, DEC), mechanism.prepare(states, valid))
    assert weights.tolist() == [[[0.5, 0.0, 0.5], [0.0, 0.0, 0.0]]]
    torch.testing.assert_close(context[0, 0], states[0, [0, 2]].mean(0))
    assert not context[0, 1].any()


def test_the_softmax_of_the_scores_are_the_weights() -> None:
    torch.manual_seed(1)
    mechanism, query = StudentsAttention(DEC, 2 * ENC), torch.randn(BATCH, 2, DEC)
    memory = mechanism.prepare(torch.randn(BATCH, POSITIONS, 2 * ENC), torch.ones(BATCH, POSITIONS, dtype=torch.bool))
    scores = mechanism.score(query, memory.keys)
    torch.testing.assert_close(scores.softmax(-1), mechanism(query, memory)[1], **CLOSE)
    dummy = StudentsDummy(DEC, 2 * ENC)
    assert dummy.score(query, memory.keys).isfinite().all(), "there is no logarithm of 0"


class SoftmaxOverTheBatch(MeanPool):
    """Weights that are normalized over the wrong axis."""

    def forward(self, hidden: Tensor, encoder_outputs: Tensor) -> tuple[Tensor, Tensor]:
        context, alpha = super().forward(hidden, encoder_outputs)
        return context, torch.softmax(alpha, 0)


class Squeezed(MeanPool):
    def forward(self, hidden: Tensor, encoder_outputs: Tensor) -> tuple[Tensor, Tensor]:
        context, alpha = super().forward(hidden, encoder_outputs)
        return context.squeeze(), alpha


class OnlyTheContext(MeanPool):
    def forward(self, hidden: Tensor, encoder_outputs: Tensor) -> Tensor:  # type: ignore[override]
        return encoder_outputs.mean(0)


def mechanism_of(module: type[Module]) -> type[nn.StepAttention]:
    return type("Mechanism", (StudentsMean,), {"make_module": lambda self, enc_hid_dim, dec_hid_dim: module()})


def test_weights_over_the_wrong_axis_are_reported() -> None:
    with pytest.raises(testing.PropertyError, match=r"weights of a step do not sum to 1.*normalize over the last axis"):
        testing.check_attention(mechanism_of(SoftmaxOverTheBatch))


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            Squeezed,
            r"Squeezed returned \[\[14\], \[1, 5\]\].*here \[1, 14\] and \[1, 5\]; a squeeze\(\) without an axis",
        ),
        (OnlyTheContext, r"OnlyTheContext returned Tensor instead of attended_val"),
    ],
)
def test_wrong_shapes_are_user_errors(module: type[Module], message: str) -> None:
    mechanism = mechanism_of(module)(DEC, 2 * ENC)
    memory = mechanism.prepare(torch.randn(1, POSITIONS, 2 * ENC), torch.ones(1, POSITIONS, dtype=torch.bool))
    with pytest.raises(UserError, match=message):
        mechanism(torch.randn(1, 1, DEC), memory)


@pytest.mark.parametrize(
    ("mechanism", "size", "message"),
    [
        (nn.StepAttention, 2 * ENC, r"StepAttention: set module_class to a class, or define make_module"),
        (StudentsAttention, ENC, r"StudentsAttention needs states of an even size.*these have 7"),
        (
            type("Wrong", (nn.StepAttention,), {"module_class": Dummy}),
            2 * ENC,
            r"Wrong: module_class.*define make_module",
        ),
    ],
)
def test_a_module_that_cannot_be_built_is_a_user_error(
    mechanism: type[nn.StepAttention], size: int, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        mechanism(DEC, size)


def test_a_model_is_trained_with_a_students_class(
    tiny: Callable[..., Experiment], new_callback: Callable[..., Any], tmp_path: Path
) -> None:
    experiment = tiny("training.epochs=5")
    attention = {"kind": StudentsAttentionWithSettings, "kq_dim": KEY}
    settings = experiment.model_dump() | {"model": experiment.model.model_dump() | {"attention": attention}}
    run = train_run(Experiment.model_validate(settings), tmp_path / "run", new_callback())
    losses = [row["validation_loss"] for row in run.metrics()]
    assert losses[-1] < 0.7 * losses[0]
    translator = load(run)
    assert translator.model.decoder.attention.module.query.weight.shape == (KEY, 32)
    (found,) = translator.translate(["abc"], Search(beam=3))
    torch.testing.assert_close(found.attention.sum(-1), torch.ones(len(found.tokens)), **CLOSE)


# Regard's mechanisms in a student's notebook


class NotebookDecoder(Module):
    """The decoder of the CS224n-style homework: a step, then attention, then the readout of both."""

    def __init__(self, attention: Module, attended_size: int) -> None:
        super().__init__()
        self.attention = attention
        self.rnn = GRU(DEC, DEC)
        self.fc_out = Linear(attended_size + DEC, VOCABULARY)

    def forward(self, embedded: Tensor, hidden: Tensor, encoder_outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        _, hidden = self.rnn(embedded[None], hidden[None])
        attended_val, alpha = self.attention(hidden[0], encoder_outputs)
        return self.fc_out(torch.cat([hidden[0], attended_val], 1)), hidden[0], alpha


@pytest.mark.parametrize(
    "mechanism",
    [
        nn.AdditiveAttention(DEC, 2 * ENC, key_size=KEY),
        nn.MultiHeadAttention(DEC, 2 * ENC, heads=3, key_size=9),
        nn.MeanAttention(DEC, 2 * ENC),
    ],
    ids=lambda mechanism: type(mechanism).__name__,
)
def test_a_loop_over_steps_in_a_notebook_learns(mechanism: nn.Attention) -> None:
    torch.manual_seed(1)
    decoder = NotebookDecoder(nn.StepModule(mechanism), mechanism.context_size)
    optimizer = torch.optim.Adam(decoder.parameters(), 0.01)
    encoder_outputs = torch.randn(POSITIONS, BATCH, 2 * ENC, requires_grad=True)
    inputs, targets = torch.randn(2, BATCH, DEC), torch.randint(VOCABULARY, (2, BATCH))
    losses = []
    for _ in range(20):
        loss, hidden = torch.zeros(()), torch.zeros(BATCH, DEC)
        for embedded, target in zip(inputs, targets, strict=True):
            logits, hidden, alpha = decoder(embedded, hidden, encoder_outputs)
            loss = loss + torch.nn.functional.cross_entropy(logits, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
    assert alpha.shape == (BATCH, POSITIONS)
    torch.testing.assert_close(alpha.sum(1), torch.ones(BATCH), **CLOSE)
    assert encoder_outputs.grad is not None
    assert encoder_outputs.grad.any()
    assert all(parameter.grad.isfinite().all() for parameter in mechanism.parameters())


def test_a_mechanism_and_a_students_module_agree_in_a_notebook() -> None:
    torch.manual_seed(1)
    student = SingleQueryScaledDotProductAttention(ENC, DEC, KEY)
    mechanism = nn.ScaledDotAttention(DEC, 2 * ENC, key_size=KEY)
    same_weights(student, mechanism)
    inputs = torch.randn(BATCH, DEC), torch.randn(POSITIONS, BATCH, 2 * ENC)
    for own, expected in zip(nn.StepModule(mechanism)(*inputs), student(*inputs), strict=True):
        torch.testing.assert_close(own, expected, **CLOSE)


def test_valid_masks_padding_and_heads_are_averaged() -> None:
    torch.manual_seed(1)
    mechanism = nn.MultiHeadAttention(DEC, 2 * ENC, heads=3, key_size=9)
    hidden, outputs = torch.randn(BATCH, DEC), torch.randn(POSITIONS, BATCH, 2 * ENC)
    valid = valid_mask(LENGTHS, POSITIONS)
    attended, alpha = nn.StepModule(mechanism)(hidden, outputs, valid)
    assert attended.shape == (BATCH, mechanism.context_size)
    assert not alpha[~valid].any()
    _, weights = mechanism(hidden[:, None], mechanism.prepare(outputs.transpose(0, 1), valid))
    torch.testing.assert_close(alpha, (weights[:, 0] + weights[:, 1] + weights[:, 2])[:, 0] / 3, **CLOSE)


@pytest.mark.parametrize(
    ("hidden", "outputs", "valid"),
    [
        ((BATCH, DEC), (BATCH, POSITIONS, 2 * ENC), None),  # the batch first
        ((1, BATCH, DEC), (POSITIONS, BATCH, 2 * ENC), None),
        ((BATCH, DEC), (POSITIONS, BATCH, ENC), None),
        ((BATCH, DEC), (POSITIONS, BATCH, 2 * ENC), (POSITIONS, BATCH)),
    ],
)
def test_wrong_shapes_in_a_notebook_are_user_errors(
    hidden: tuple[int, ...], outputs: tuple[int, ...], valid: tuple[int, ...] | None
) -> None:
    module = nn.StepModule(nn.MeanAttention(DEC, 2 * ENC))
    mask = None if valid is None else torch.ones(valid, dtype=torch.bool)
    with pytest.raises(UserError, match=r"should be \[(batch, 11\] and \[src_len, batch, 14|batch, src_len)\]"):
        module(torch.zeros(hidden), torch.zeros(outputs), mask)


@pytest.mark.parametrize("mechanism", [nn.LastAttention, nn.AlignedAttention])
def test_a_mechanism_that_depends_on_the_order_of_states_is_no_module(mechanism: type[nn.Attention]) -> None:
    with pytest.raises(UserError, match="depends on the order of the states"):
        nn.StepModule(mechanism(DEC, 2 * ENC))


def test_a_module_is_called_once_for_each_length() -> None:
    """Not for each step: a batch of captions has about 15 steps."""

    class Counting(MeanPool):
        calls = 0

        def forward(self, hidden: Tensor, encoder_outputs: Tensor) -> tuple[Tensor, Tensor]:
            Counting.calls += 1
            return super().forward(hidden, encoder_outputs)

    class CountedMean(nn.StepAttention):
        Section = UnscoredAttentionSection

        def make_module(self, enc_hid_dim: int, dec_hid_dim: int) -> Module:
            return Counting()

    attention = CountedMean(DEC, 2 * ENC)
    memory = attention.prepare(torch.randn(BATCH, POSITIONS, 2 * ENC), valid_mask(LENGTHS, POSITIONS))
    attention(torch.randn(BATCH, 19, DEC), memory)
    assert Counting.calls == len(set(LENGTHS))
