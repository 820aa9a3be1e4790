"""PyTorch's global state belongs to the caller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.runs import MODEL
from regard.torch_state import private_torch_state


@contextmanager
def unusual_state() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(2)
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_num_threads(1)


def test_a_block_has_the_defaults_and_changes_nothing():
    with unusual_state():
        torch.manual_seed(5)
        expected = torch.rand(3, device="cpu")
        torch.manual_seed(5)
        with private_torch_state(threads=1):
            assert torch.get_default_dtype() == torch.float32
            assert torch.is_grad_enabled()
            assert torch.get_num_threads() == 1
            torch.manual_seed(1)
            torch.set_num_threads(1)
        assert torch.get_default_dtype() == torch.float64
        assert not torch.is_grad_enabled()
        assert torch.get_num_threads() == 2
        assert torch.equal(torch.rand(3, device="cpu"), expected)
    with torch.device("meta"), private_torch_state():
        assert torch.zeros(1).device.type == "cpu"
    with torch.inference_mode(), private_torch_state():
        assert not torch.is_inference_mode_enabled()


@pytest.mark.slow
def test_training_and_evaluation_do_not_depend_on_the_state_of_the_caller(brief: Any, tmp_path: Path):
    usual = regard.train(brief(), out=tmp_path / "usual", progress=False)
    report = regard.evaluate(regard.load(usual), progress=False)
    with unusual_state():
        other = regard.train(brief(), out=tmp_path / "other", progress=False)
        torch.manual_seed(3)
        before = torch.get_rng_state()
        same = regard.evaluate(regard.load(other), progress=False)
        assert torch.equal(torch.get_rng_state(), before)
    assert (other.path / MODEL).read_bytes() == (usual.path / MODEL).read_bytes()
    assert (same.loss, same.scores) == (report.loss, report.scores)
