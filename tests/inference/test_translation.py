"""A translation as plain values and as a page."""

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


def test_to_dict_returns_plain_values():
    values = json.loads(json.dumps(PIECES.to_dict()))
    assert (values["text"], values["score"], values["axes"], values["tree"]) == ("A vineyard.", -0.9375, [], None)
    assert values["source_labels"] == ["Ein", "Wein", "‑berg", ".", "<end>"]
    assert values["source_words"] == [[0, 1], [1, 3], [3, 4], [4, 5]]
    (hypothesis,) = values["n_best"]
    assert hypothesis["labels"] == ["A", "vine", "‑yard", ".", "<end>"]
    assert hypothesis["words"] == [[0, 1], [1, 3], [3, 4], [4, 5]]
    assert hypothesis["attention"] == torch.eye(5).tolist()
    assert hypothesis["alignment"] == [[0, 0], [1, 1], [2, 2], [3, 3]]
    assert hypothesis["log_probabilities"] == [-0.5, -0.25, -0.125, -0.0625, 0.0]
    assert PIECES.to_dict(attention=False)["n_best"][0]["attention"] is None


def test_to_dict_of_an_empty_translation_is_empty():
    values = EMPTY_TRANSLATION.to_dict()
    assert (values["text"], values["source_tokens"], values["n_best"][0]["attention"]) == ("", [], [])


def test_to_dict_has_the_n_best_list_with_attention_of_each(trained_brief: Callable[..., Path]):
    translator = regard.load(trained_brief("model.attention.kind=multi-head", "model.attention.heads=4"))
    (translation,) = translator.translate(["abcde"], SearchOptions(beam=4, n_best=3))
    values = translation.to_dict()
    assert values["axes"] == ["head"]
    assert [each["text"] for each in values["n_best"]] == [each.text for each in translation.n_best]
    for each, own in zip(values["n_best"], translation.n_best, strict=True):
        assert torch.tensor(each["attention"]).shape == (4, len(own.tokens), 6) == own.attention.shape


def test_an_ensemble_has_one_attention_map(trained: Path):
    (translation,) = regard.load(trained, trained).translate(["abc"])
    assert translation.axes == ()
    assert translation.attention.dim() == 2


@pytest.mark.parametrize("text", ["A vineyard.", "</script><img src=x onerror=alert(1)>", "\ud800 &amp; 'x' \"y\""])
def test_a_notebook_shows_a_translation_in_a_sandboxed_frame(text: str):
    html = Translation(**{**vars(PIECES), "text": text})._repr_html_()
    assert "<img" not in html
    assert "<script" not in html, "the page is the value of an attribute"
    assert html.count("<iframe") == 1
    assert 'sandbox="allow-scripts' in html
    assert "yard" in unescape(html)
    html.encode()
