"""Tags in a trained run: resumable training with weights, and outputs without tags."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.training.train_run import train_run

pytestmark = pytest.mark.slow


def settings(corpus: Path, **training: Any) -> dict[str, Any]:
    train = [{"path": corpus / "train", "weight": 0.5, "tag": "<2en>"}, {"path": corpus / "validation", "tag": "<bt>"}]
    small = {"embedding": 8, "size": 8}
    return {
        "data": {"task": "files", "train": train, "validation": corpus / "validation", "text": {"unit": "characters"}},
        "model": {"encoder": small, "decoder": small},
        "training": {"epochs": 4, "batch_tokens": 400, "validate_every": 5, **training},
        "decoding": {"length_factor": 0, "length_extra": 9},
    }


def test_outputs_have_no_tags_and_a_stopped_training_continues(
    corpus: Path, tmp_path: Path, new_callback: Callable[..., Any], same_training: Callable[[Path, Path], None]
):
    experiment = regard.Experiment.load(settings(corpus))
    whole = train_run(experiment, tmp_path / "whole", new_callback())
    for steps in (3, 4, None):
        train_run(experiment, tmp_path / "parts", new_callback(stop_after=steps))
    same_training(tmp_path / "parts", tmp_path / "whole")
    assert whole.progress.finished == "all epochs done"

    translator = regard.load(tmp_path / "whole")
    tags = whole.codec.target_vocabulary.to_ids(["<2en>", "<bt>"])
    with torch.no_grad():
        translator.model.decoder.readout.output_layer.bias[tags] += 100.0  # whatever the source is
    for translation in translator.translate(["<2en> ein Mann", "<bt> ein Mann", "ein Mann"]):
        assert not {"<2en>", "<bt>"} & set(translation.tokens)
    tagged, plain = translator.translate(["<bt> ein Mann", "ein Mann"])
    assert tagged.source_tokens[0] == "<bt>"
    assert tagged.source_tokens[1:] == plain.source_tokens
