"""The loss of R-Drop equals that of PyTorch's functions, whatever the number of rows at a time."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, log_softmax

from regard.training import r_drop_loss
from regard.training.r_drop_loss import RDropLoss

TOKENS, WORDS = 13, 7
SMOOTHING, WEIGHT = 0.2, 1.5


@pytest.fixture
def logits() -> Tensor:
    return 3 * torch.randn(2 * TOKENS, WORDS, dtype=torch.float64, generator=torch.Generator().manual_seed(5))


REFERENCES = torch.randint(WORDS, (TOKENS,), generator=torch.Generator().manual_seed(1))


def expected_loss(logits: Tensor) -> Tensor:
    p, q = (log_softmax(each, -1) for each in logits.chunk(2))
    likelihood = sum(cross_entropy(each, REFERENCES, label_smoothing=SMOOTHING) for each in logits.chunk(2))
    divergence = kl_div(q, p, log_target=True, reduction="batchmean")
    divergence += kl_div(p, q, log_target=True, reduction="batchmean")
    return likelihood / 2 + WEIGHT / 4 * divergence


@pytest.mark.parametrize("rows", [1, 5, TOKENS, 100])
def test_loss_and_gradient_are_those_of_the_formula(logits: Tensor, rows: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(r_drop_loss, "CACHED_VALUES", rows * WORDS)
    logits = logits.float().requires_grad_()
    loss, likelihood, consistency = RDropLoss.apply(logits, REFERENCES, SMOOTHING, WEIGHT)
    torch.testing.assert_close(loss, expected_loss(logits))
    torch.testing.assert_close(likelihood + WEIGHT / 2 * consistency, loss)
    assert [each.requires_grad for each in (loss, likelihood, consistency)] == [True, False, False]
    torch.testing.assert_close(
        *(torch.autograd.grad(each, logits)[0] for each in (3 * loss, 3 * expected_loss(logits)))
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_rounds_the_gradient_once(logits: Tensor, dtype: torch.dtype):
    """Scaled by 2^16, as a gradient scaler does; unscaled, a small gradient of float16 would be 0."""
    logits = logits.to(dtype).requires_grad_()
    wide = logits.detach().float().requires_grad_()
    (scaled,) = torch.autograd.grad(RDropLoss.apply(logits, REFERENCES, SMOOTHING, WEIGHT)[0] * 2**16, logits)
    (expected,) = torch.autograd.grad(expected_loss(wide) * 2**16, wide)
    torch.testing.assert_close(scaled, expected.to(dtype), rtol=2 * torch.finfo(dtype).eps, atol=0.1)
