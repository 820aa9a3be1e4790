"""What comes out, as plain values and as a page."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest
import torch

import regard
from regard.inference.translation import EMPTY_TRANSLATION, Translation
from regard.search import SearchOptions

PIECES = Translation(
    text="A vineyard.",
    tokens=("▁A", "▁vine", "yard", ".", "<end>"),
    source_tokens=("▁Ein", "▁Wein", "berg", ".", "<end>"),
    log_probabilities=(-0.5, -0.25, -0.125, -0.0625, 0.0),
    attention=torch.eye(5),
    finished=True,
    word_starts=(True, True, False, False, True),
    source_word_starts=(True, True, False, False, True),
)


def test_a_translation_is_told_in_plain_values():
    told = json.loads(json.dumps(PIECES.to_dict()))
    assert (told["text"], told["score"], told["axes"], told["tree"]) == ("A vineyard.", -0.9375, [], None)
    assert told["source_labels"] == ["Ein", "Wein", "‑berg", ".", "<end>"]
    assert told["source_words"] == [[0, 1], [1, 3], [3, 4], [4, 5]]
    (hypothesis,) = told["n_best"]
    assert hypothesis["labels"] == ["A", "vine", "‑yard", ".", "<end>"]
    assert hypothesis["words"] == [[0, 1], [1, 3], [3, 4], [4, 5]]
    assert hypothesis["attention"] == torch.eye(5).tolist()
    assert hypothesis["alignment"] == [[0, 0], [1, 1], [2, 2], [3, 3]]
    assert hypothesis["log_probabilities"] == [-0.5, -0.25, -0.125, -0.0625, 0.0]
    assert PIECES.to_dict(attention=False)["n_best"][0]["attention"] is None


def test_of_nothing_there_is_nothing_to_tell():
    told = EMPTY_TRANSLATION.to_dict()
    assert (told["text"], told["source_tokens"], told["n_best"][0]["attention"]) == ("", [], [])


def test_the_next_best_are_told_with_their_own_attention(trained_brief: Callable[..., Path]):
    translator = regard.load(trained_brief("model.attention.kind=multi-head", "model.attention.heads=4"))
    (translation,) = translator.translate(["abcde"], SearchOptions(beam=4, n_best=3))
    told = translation.to_dict()
    assert told["axes"] == ["head"]
    assert [each["text"] for each in told["n_best"]] == [each.text for each in translation.n_best]
    for each, own in zip(told["n_best"], translation.n_best, strict=True):
        assert torch.tensor(each["attention"]).shape == (4, len(own.tokens), 6) == own.attention.shape


def test_runs_that_vote_have_one_map(trained: Path):
    (translation,) = regard.load(trained, trained).translate(["abc"])
    assert translation.axes == ()
    assert translation.attention.dim() == 2


@pytest.mark.parametrize("text", ["A vineyard.", "</script><img src=x onerror=alert(1)>", "\ud800 &amp; 'x' \"y\""])
def test_a_notebook_shows_a_translation_as_a_page_of_its_own(text: str):
    shown = Translation(**{**vars(PIECES), "text": text})._repr_html_()
    assert "<img" not in shown
    assert "<script" not in shown, "the page is the value of an attribute"
    assert shown.count("<iframe") == 1
    assert 'sandbox="allow-scripts' in shown
    assert "yard" in unescape(shown)
    shown.encode()
