"""Translations and measurements on a pretend device (`tests/pretend_device.py`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import regard
from pretend_device import DEVICE, PretendDevice
from regard import Translator
from regard.evaluation.alignment import forced_attention
from regard.laboratory.explanation import explain_translation
from regard.laboratory.gradients import gradient_profile
from regard.laboratory.states import collect_states
from regard.search import GREEDY

TEXTS = ["abc", "dd", "edcba"]
JOBS: dict[str, Callable[[Translator], object]] = {
    "self-attention": lambda t: t.translate(TEXTS, self_attention=True),
    "n-best": lambda t: t.translate(TEXTS, regard.Search(beam=3, n_best=2)),
    "sampling": lambda t: t.translate(TEXTS, regard.Search(sample=True, n_best=2)),
    "score": lambda t: t.score([(text, text) for text in TEXTS]),
    "alternatives": lambda t: t.alternatives(TEXTS, t.translate(TEXTS), 3),
    "tree": lambda t: t.tree(TEXTS[0], regard.Search(beam=3)),
    "attention": lambda t: forced_attention(t.model, encode(t)),
    "gradients": lambda t: gradient_profile(t.model, encode(t)),
    "states": lambda t: collect_states(t.model, encode(t), 9, 1),
    "explanation": lambda t: explain_translation(t, TEXTS[0], GREEDY).steps[0].probabilities.tolist(),
}


def encode(translator: Translator) -> list[Any]:
    return [translator.encode_pair(text, text) for text in TEXTS]


@pytest.mark.parametrize("name", JOBS)
def test_a_model_on_a_device_is_measured(trained: Path, pretend_device: PretendDevice, name: str) -> None:
    translator = regard.load(trained)
    translator.model.to(DEVICE)
    assert JOBS[name](translator)


def test_translations_are_those_of_the_cpu(trained: Path, pretend_device: PretendDevice) -> None:
    on_cpu, on_device = regard.load(trained), regard.load(trained)
    on_device.model.to(DEVICE)
    for search in (GREEDY, regard.Search(beam=3), regard.Search(sample=True, n_best=2)):
        expected = [translation.text for translation in on_cpu.translate(TEXTS, search)]
        assert [translation.text for translation in on_device.translate(TEXTS, search)] == expected
