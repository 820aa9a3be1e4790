"""The SSRU: two steps by hand, gradients, one step at a time, padding. Its equations are in test_recurrent.py, too."""

from __future__ import annotations

import math

import pytest
import torch

from regard import nn

INPUT, SIZE, BATCH, STEPS = 3, 5, 2, 7


@torch.inference_mode()
def test_two_steps_of_two_dimensions_by_hand() -> None:
    """Gates of 1/2 and σ(log 3) = 3/4 in the first dimension, of 1/2 and 1/4 in the second."""
    layer = nn.SSRULayer(2, 2)
    assert isinstance(layer.residual_layer, torch.nn.Identity)
    layer.forget_layer.weight.copy_(torch.tensor([[0.0, math.log(3)], [0.0, -math.log(3)]]))
    layer.forget_layer.bias.zero_()
    layer.input_layer.weight.copy_(torch.tensor([[2.0, 0.0], [1.0, 2.0]]))
    layer.norm = torch.nn.Identity()  # two numbers that differ are always 1 and −1 after it
    inputs = torch.tensor([[[1.0, 0.0]], [[1.0, 1.0]]])
    # W x_1 = (2, 1), W x_2 = (2, 3); c_0 = (4, −5)
    # c_1 = (1/2 · 4 + 1/2 · 2, 1/2 · −5 + 1/2 · 1) = (3, −2)
    # c_2 = (3/4 · 3 + 1/4 · 2, 1/4 · −2 + 3/4 · 3) = (2.75, 1.75)
    outputs, end = layer(inputs, torch.tensor([[4.0, -5.0]]))
    torch.testing.assert_close(outputs, torch.tensor([[[1 + 3, 0.0 + 0]], [[1 + 2.75, 1 + 1.75]]]))
    torch.testing.assert_close(end, torch.tensor([[2.75, 1.75]]))


@torch.inference_mode()
def test_outputs_are_normalized() -> None:
    outputs, _ = nn.SSRU(INPUT, SIZE)(torch.randn(BATCH, STEPS, INPUT))
    torch.testing.assert_close(outputs.mean(-1), torch.zeros(BATCH, STEPS), atol=1e-5, rtol=0)
    torch.testing.assert_close(outputs.var(-1, correction=0), torch.ones(BATCH, STEPS), atol=1e-2, rtol=0)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_gradients_equal_finite_differences(bidirectional: bool) -> None:
    torch.manual_seed(1)
    cell = nn.SSRU(INPUT, SIZE, layers=2, bidirectional=bidirectional).double()
    inputs = torch.randn(BATCH, 4, INPUT, dtype=torch.float64, requires_grad=True)
    start = torch.randn(2, BATCH, cell.output_size, dtype=torch.float64, requires_grad=True)
    names, weights = zip(*cell.named_parameters(), strict=True)

    def run(inputs: torch.Tensor, start: torch.Tensor, *weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        arguments = (inputs, (start,), torch.tensor([4, 2]))
        outputs, (end,) = torch.func.functional_call(cell, dict(zip(names, weights, strict=True)), arguments)
        return outputs, end

    assert torch.autograd.gradcheck(run, (inputs, start, *weights))


@torch.inference_mode()
def test_all_steps_at_once_equal_one_step_at_a_time() -> None:
    torch.manual_seed(1)
    cell = nn.SSRU(INPUT, SIZE, layers=2)
    inputs, state = torch.randn(BATCH, STEPS, INPUT), (torch.randn(2, BATCH, SIZE),)
    expected, expected_end = cell(inputs, state)
    outputs = []
    for x in inputs.split(1, dim=1):
        output, state = cell(x, state)
        outputs.append(output)
    torch.testing.assert_close(torch.cat(outputs, 1), expected)
    torch.testing.assert_close(state, expected_end)


@pytest.mark.parametrize("bidirectional", [False, True])
@torch.inference_mode()
def test_padding_has_no_effect_and_outputs_of_0(bidirectional: bool) -> None:
    torch.manual_seed(1)
    cell = nn.SSRU(INPUT, SIZE, layers=2, bidirectional=bidirectional)
    inputs, lengths = torch.randn(BATCH, STEPS, INPUT), torch.tensor([STEPS, 4])
    padding = torch.arange(STEPS) >= lengths.unsqueeze(1)
    other = torch.where(padding.unsqueeze(-1), 1000.0, inputs)
    (outputs, (end,)), (expected, (expected_end,)) = (cell(each, lengths=lengths) for each in (other, inputs))
    assert torch.equal(outputs, expected)
    assert torch.equal(end, expected_end)
    assert (outputs[padding] == 0).all()
    assert (outputs[~padding] != 0).all()


def test_dropout_is_between_layers() -> None:
    inputs = torch.randn(BATCH, STEPS, INPUT)
    for layers in (1, 2):
        cell = nn.SSRU(INPUT, SIZE, layers=layers, dropout=0.5)
        assert torch.equal(cell(inputs)[0], cell(inputs)[0]) == (layers == 1)
        cell.eval()
        assert torch.equal(cell(inputs)[0], cell(inputs)[0])
