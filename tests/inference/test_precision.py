"""Trained runs in bfloat16, and on which device they compute."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard import Translation
from regard.errors import UserError
from regard.evaluation import final
from regard.inference import run_ensemble
from regard.studies import worker

TEXTS = ["abc", "e", "", "ddddd", "abcde", "ba"]
SEARCHES = [regard.Search(), regard.Search(beam=3, n_best=2), regard.Search(sample=True, seed=7)]


def test_a_run_in_bfloat16_has_nearly_the_log_probabilities_of_float32(trained: Path):
    full, half = (regard.load(trained, device="cpu", precision=each) for each in ("float32", "bfloat16"))
    assert {weight.dtype for weight in half.model.parameters()} == {torch.bfloat16}
    for search in SEARCHES:
        assert [each.text for each in half.translate(TEXTS, search)] == TEXTS
    pairs = [(text, text) for text in TEXTS]
    for one, other in zip(full.score(pairs), half.score(pairs), strict=True):
        assert other.log_probabilities == pytest.approx(one.log_probabilities, abs=0.05)
    assert half.score(pairs) != full.score(pairs)
    results = [regard.evaluate(each, split="test", progress=False) for each in (full, half)]
    assert results[1].loss == pytest.approx(results[0].loss, abs=0.01)
    assert results[1].alignment_accuracy == pytest.approx(results[0].alignment_accuracy, abs=0.02)


def same_within_rounding(one: Translation, other: Translation) -> bool:
    close = torch.allclose(one.attention, other.attention, atol=0.02)
    return one.text == other.text and one.score == pytest.approx(other.score, abs=0.05) and close


def test_in_bfloat16_batched_equals_single_within_rounding(trained: Path):
    half = regard.load(trained, device="cpu", precision="bfloat16")
    for search in SEARCHES:
        for text, translation in zip(TEXTS, half.translate(TEXTS, search), strict=True):
            assert same_within_rounding(half.translate([text], search)[0], translation)
    together = half.score([(text, text) for text in TEXTS])
    for text, score in zip(TEXTS, together, strict=True):
        (alone,) = half.score([(text, text)])
        assert alone.log_probabilities == pytest.approx(score.log_probabilities, abs=0.02)


def flat_rows(weights: list[Any]) -> list[list[float]]:
    """The rows of maps, in lists of any depth."""
    return [row for each in weights for row in flat_rows(each)] if isinstance(weights[0], list) else [weights]


def test_all_that_a_translation_has_is_printed_in_bfloat16(trained_brief: Callable[..., Path]):
    heads = trained_brief(
        "model.encoder.kind=self-attention", "model.decoder.kind=transformer", "model.attention.kind=scaled-dot"
    )
    half = regard.load(heads, device="cpu", precision="bfloat16")
    (translation,) = half.translate(["abc"], regard.Search(beam=2, n_best=2), self_attention=True)
    alternatives = [half.alternatives(["abc"], [each], 2)[0] for each in translation.n_best]
    tree = half.tree("abc", regard.Search(beam=2))
    printed = json.loads(json.dumps(translation.to_dict(alternatives=alternatives, tree=tree)))
    assert all(
        sum(row) == pytest.approx(1, abs=1e-5) for row in flat_rows([each["attention"] for each in printed["n_best"]])
    )
    maps = [printed["encoder_attention"], printed["n_best"][0]["decoder_attention"]]
    assert all(sum(row) == pytest.approx(1, abs=1e-5) for each in maps for row in flat_rows(each["weights"]))


def test_pictures_and_ensembles_are_translated_in_bfloat16(reads_pictures: Path):
    pictures = regard.load(reads_pictures, reads_pictures, device="cpu", precision="bfloat16")
    pair = next(iter(pictures.experiment.task.dataset.pairs("test")))
    (translation,) = pictures.translate([pair.source])
    assert translation.attention.isfinite().all()
    assert translation.score == pytest.approx(regard.load(reads_pictures).translate([pair.source])[0].score, abs=0.05)


def test_float32_is_the_default_whatever_the_precision_of_the_training(trained_brief: Callable[..., Path]):
    run = trained_brief("training.precision=bfloat16")
    assert regard.Run(run).precision == "bfloat16"
    translator = regard.load(run)
    assert {weight.dtype for weight in translator.model.parameters()} == {torch.float32}


def test_what_a_device_cannot_do_is_refused(trained: Path):
    with pytest.raises(UserError, match="float16 needs a GPU"):
        regard.load(trained, device="cpu", precision="float16")
    with pytest.raises(UserError, match="precision: 'auto' is not a precision"):
        regard.load(trained, device="cpu", precision="auto")
    with pytest.raises(UserError, match="device: 'meta' is not a device"):
        regard.load(trained, device=torch.device("meta"))
    assert regard.load(trained, device=torch.device("cpu")).device == torch.device("cpu")


def test_evaluations_after_training_are_on_the_device_of_the_training(
    trained_brief: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
):
    run = regard.Run(trained_brief("training.device=cpu"))
    selected: list[str] = []

    def refuse(name: str) -> torch.device:
        selected.append(name)
        raise UserError("no device")

    monkeypatch.setattr(run_ensemble, "select_device", refuse)
    spec: Any = None
    for evaluate in (
        lambda: final.score_test_set(run, "cuda:7"),
        lambda: worker.run_evaluations(run, "cuda:7", [spec], spec),
    ):
        with pytest.raises(UserError, match="no device"):
            evaluate()
    assert selected == ["cuda:7"] * 2
