"""Translations and measurements on a pretend device (`tests/pretend_device.py`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from pretend_device import DEVICE, PretendDevice
from regard import Translator
from regard.evaluation.alignment import forced_attention
from regard.laboratory import probe_tasks, probes
from regard.laboratory.alignment_report import alignment_report
from regard.laboratory.embeddings import model_device
from regard.laboratory.explanation import explain_translation
from regard.laboratory.faithfulness_report import faithfulness_report
from regard.laboratory.gradient_report import gradient_report
from regard.laboratory.gradients import gradient_profile
from regard.laboratory.importance import compute_importance
from regard.laboratory.probe_report import probe_report
from regard.laboratory.sequence_losses import sequence_losses
from regard.laboratory.states import collect_states
from regard.laboratory.tensor_trace_report import trace_report
from regard.nn import Seq2Seq
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
    "importance": lambda t: compute_importance(t.model, encode(t)[0]),
    "faithfulness report": lambda t: faithfulness_report(t, TEXTS[0]),
    "alignment report": lambda t: alignment_report(t, "test", 7, None, None),
    "gradient report": lambda t: gradient_report([t], "test", 7),
    "gradient report, untrained": lambda t: gradient_report([t], "test", 7, untrained=True),
    "tensor report": lambda t: trace_report(t, TEXTS[0]),
    "probe report": lambda t: probe_report(t, 150, 1),
    "explanation": lambda t: explain_translation(t, TEXTS[0], GREEDY).steps[0].probabilities.tolist(),
}


def encode(translator: Translator) -> list[Any]:
    return [translator.encode_pair(text, text) for text in TEXTS]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes of few labels, trained once with few iterations."""
    monkeypatch.setattr(probes, "PENALTIES", (1e-3,))
    monkeypatch.setattr(probes, "ITERATIONS", 2)
    monkeypatch.setattr(probe_tasks, "MAX_TOKEN_INDEX", 1)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", JOBS)
def test_a_model_on_a_device_is_measured(trained: Path, pretend_device: PretendDevice, name: str) -> None:
    translator = regard.load(trained)
    translator.model.to(DEVICE)
    assert JOBS[name](translator)


def test_a_model_before_training_is_measured_on_the_device(
    trained: Path, pretend_device: PretendDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[torch.device] = []

    def measure(model: Seq2Seq, *arguments: Any) -> Any:
        found.append(model_device(model))
        return sequence_losses(model, *arguments)

    monkeypatch.setattr("regard.laboratory.gradient_report.sequence_losses", measure)
    translator = regard.load(trained)
    translator.model.to(DEVICE)
    gradient_report([translator], "test", 3, untrained=True)
    assert found == [DEVICE]


def test_translations_are_those_of_the_cpu(trained: Path, pretend_device: PretendDevice) -> None:
    on_cpu, on_device = regard.load(trained), regard.load(trained)
    on_device.model.to(DEVICE)
    for search in (GREEDY, regard.Search(beam=3), regard.Search(sample=True, n_best=2)):
        expected = [translation.text for translation in on_cpu.translate(TEXTS, search)]
        assert [translation.text for translation in on_device.translate(TEXTS, search)] == expected
