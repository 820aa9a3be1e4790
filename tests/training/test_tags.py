"""Tags in a trained run: resumable training with weights, and outputs without tags."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.errors import UserError
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


@pytest.mark.parametrize("unit", ["characters", "subwords"])
def test_a_fine_tuned_run_keeps_the_tags_of_its_vocabulary(corpus: Path, tmp_path: Path, unit: str):
    """As after back-translation: the last epochs are on text without tags."""
    first = settings(corpus, max_steps=2)
    first["data"]["text"] = {"unit": unit, **({"size": 60, "joint": True} if unit == "subwords" else {})}
    old = regard.train(first, tmp_path / "old", progress=False)
    real = {"data": {"train": str(corpus / "train")}, "training": {"max_steps": 2}}
    new = regard.train(real, tmp_path / "new", from_run=old, progress=False)
    assert new.experiment.data.tags == ["<2en>", "<bt>"]
    assert new.codec.source_vocabulary == old.codec.source_vocabulary
    regard.train(tmp_path / "new", overrides={"training.max_steps": 3, "training.rate.peak": 0.001}, progress=False)
    (translation,) = regard.load(tmp_path / "new").translate(["<bt> ein Mann"])
    assert translation.source_tokens[0] == "<bt>"
    real["data"]["train"] = [{"path": str(corpus / "train"), "tag": "<other>"}]
    with pytest.raises(
        UserError, match=r"other tags \(<2en>, <bt>\) than these settings .*data\.tags.*--reuse-vocabulary no"
    ):
        regard.train(real, tmp_path / "other", from_run=old, progress=False)
    assert not (tmp_path / "other").exists()
