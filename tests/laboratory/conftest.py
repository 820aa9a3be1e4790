"""Models of every kind, to be inspected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from regard.inference.translator import Translator, load

KINDS = {
    "dot": (),
    "none": ("model.attention.kind=none",),
    "before, LSTM, two layers": (
        "model.decoder.wiring=before",
        "model.encoder.cell=lstm",
        "model.encoder.layers=2",
        "model.decoder.cell=lstm",
        "model.decoder.layers=2",
        "model.attention.kind=additive",
    ),
    "several heads": ("model.attention.kind=multi-head", "model.attention.heads=4"),
    "Transformer": (
        "model.encoder.kind=self-attention",
        "model.encoder.layers=2",
        "model.encoder.heads=2",
        "model.decoder.kind=transformer",
        "model.decoder.layers=3",
        "model.decoder.heads=2",
        "model.attention.kind=multi-head",
        "model.attention.heads=4",
    ),
}


@pytest.fixture(params=KINDS)
def any_model(request: pytest.FixtureRequest, trained_brief: Callable[..., Path]) -> Translator:
    """One of each kind, hardly trained."""
    return load(trained_brief(*KINDS[request.param]))


@pytest.fixture(scope="session")
def model_of(trained_brief: Callable[..., Path]) -> Callable[[str], Translator]:
    """That of a kind, by its name in `KINDS`."""
    return lambda kind: load(trained_brief(*KINDS[kind]))
