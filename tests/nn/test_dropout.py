"""Dropout: the fraction dropped, the mean that is kept, and what the mask depends on."""

from __future__ import annotations

import pytest
import torch

from pretend_device import DEVICE, PretendDevice
from regard.config import kinds
from regard.nn import Dropout


@pytest.mark.parametrize("p", [0.1, 0.25, 0.5, 0.9])
def test_a_fraction_p_is_dropped_and_the_mean_is_kept(p: float):
    torch.manual_seed(1)
    values = torch.ones(311, 1_009)
    dropped = Dropout(p)(values)
    assert float((dropped == 0).double().mean()) == pytest.approx(p, abs=0.004)  # p is rounded to 1/256
    assert float(dropped.double().mean()) == pytest.approx(1, rel=0.02)
    assert len(dropped.unique()) == 2


def test_a_device_drops_the_same_fraction(pretend_device: PretendDevice):
    torch.manual_seed(1)
    dropped = Dropout(0.25)(torch.ones(31, 1_009, device=DEVICE)).cpu()
    assert float((dropped == 0).double().mean()) == pytest.approx(0.25, abs=0.02)
    assert dropped.unique().tolist() == pytest.approx([0, 4 / 3])


def test_positions_are_dropped_independently():
    torch.manual_seed(1)
    dropped_mask = (Dropout(0.5)(torch.ones(64, 16_384)) == 0).double()
    assert float(dropped_mask.mean(0).std()) == pytest.approx(
        0.5 / 8, rel=0.05
    )  # standard error of a binomial: √(p (1 − p) / 64)
    for step in (1, 2, 7, 8, 64):  # neighbors share a random number of eight bytes
        assert float((dropped_mask[:, step:] * dropped_mask[:, :-step]).mean()) == pytest.approx(0.25, abs=0.005)


def test_the_gradient_is_zero_where_values_are_dropped():
    torch.manual_seed(1)
    values = torch.randn(7, 11, 13, requires_grad=True)
    dropped = Dropout(0.3)(values)
    dropped.sum().backward()
    scale = 256 / (256 - 77)
    assert values.grad is not None
    torch.testing.assert_close(values.grad, torch.where(dropped == 0, 0.0, scale))
    torch.testing.assert_close(dropped, values.detach() * values.grad)


def test_the_mask_depends_only_on_the_seed():
    layer, values = Dropout(0.5), torch.ones(5, 7)
    outputs = [layer(values) for seed in (1, 1, 2) if torch.manual_seed(seed)]
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])


@pytest.mark.parametrize(("p", "training"), [(0.0, True), (0.5, False), (0.001, True)])
def test_nothing_is_dropped_in_evaluation_mode_or_with_p_0(p: float, training: bool):
    values = torch.randn(3, 5)
    assert Dropout(p).train(training)(values) is values


def test_not_everything_is_dropped():
    torch.manual_seed(1)
    dropped = Dropout(0.9999)(torch.ones(10_000))
    assert dropped.isfinite().all()
    assert 0 < int((dropped > 0).sum()) < 200


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2), (1,), (9,)])
def test_any_shape_is_accepted(shape: tuple[int, ...]):
    assert Dropout(0.5)(torch.ones(shape)).shape == shape


MECHANISMS = [kind for kind in kinds.MECHANISMS if kind not in ("none", "last", "mean", "aligned")]


@pytest.mark.parametrize("kind", MECHANISMS)
def test_dropped_attention_weights_change_the_context_and_are_not_reported(kind: str):
    mechanism = kinds.MECHANISMS[kind](6, 6)
    query, states, valid = torch.randn(3, 5, 6), torch.randn(3, 7, 6), torch.ones(3, 7, dtype=torch.bool)

    def attend() -> tuple[torch.Tensor, torch.Tensor]:
        torch.manual_seed(1)
        context, weights = mechanism(query, mechanism.prepare(states, valid))
        return context, weights

    context, weights = attend()
    mechanism.weight_dropout = Dropout(0.5)
    context_of_some, same_weights = attend()
    if kind != "monotonic":  # which draws noise at each step, and would draw other noise
        assert torch.equal(weights, same_weights)
    torch.testing.assert_close(same_weights.sum(-1), torch.ones_like(same_weights.sum(-1)))
    assert not torch.allclose(context, context_of_some)
    mechanism.eval()
    in_evaluation = attend()[0]
    mechanism.weight_dropout = None
    assert torch.equal(in_evaluation, attend()[0])
