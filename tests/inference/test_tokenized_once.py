"""A text is tokenized once per request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import regard as package
from regard.search import SearchOptions
from regard.serving.app import build_app
from regard.serving.limits import Limits
from regard.serving.registry import open_runs
from regard.text import Tokenization

Regard = Callable[..., Any]
TEXTS = ["abc", "edcba", "ba"]


@pytest.fixture
def calls(trained: Path, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts the calls of `source_tokens`, by text."""
    counted: Counter[str] = Counter()
    kind: type[Tokenization] = type(package.load(trained).codec.tokenization)
    original = kind.source_tokens

    def source_tokens(self: Tokenization, text: str) -> list[str]:
        counted[text] += 1
        return original(self, text)

    monkeypatch.setattr(kind, "source_tokens", source_tokens)
    return counted


ONCE = dict.fromkeys(TEXTS, 1)


def test_translate_tokenizes_each_text_once(trained: Path, calls: Counter[str]):
    translator = package.load(trained)
    sources = [translator.encode(text) for text in TEXTS]
    options = SearchOptions(beam=3, n_best=2)
    translations = translator.translate(sources, options)
    translator.alternatives(sources, translations, 2)
    for source in sources:
        translator.tree(source, options)
    assert calls == ONCE


def test_the_api_tokenizes_each_text_once(trained: Path, calls: Counter[str]):
    request = {"texts": TEXTS, "beam": 3, "n_best": 2, "attention": True, "alternatives": 2, "tree": True}
    runs = open_runs([trained])
    calls.clear()
    with TestClient(build_app(runs, Limits()), base_url="http://127.0.0.1:8000") as client:
        assert client.post("/api/translate", json=request).status_code == 200
        assert calls == ONCE
        calls.clear()
        pairs = [{"source": text, "target": "a"} for text in TEXTS]
        assert client.post("/api/score", json={"pairs": pairs}).status_code == 200
        assert calls == ONCE


def test_the_commands_tokenize_each_text_once(regard: Regard, trained: Path, calls: Counter[str], tmp_path: Path):
    assert regard("translate", trained, "--beam", 2, "--json", *TEXTS).code == 0
    assert calls == ONCE
    calls.clear()
    assert regard("show", trained, "abc", "--beam", 2, "--json").code == 0
    assert calls == {"abc": 1}
    calls.clear()
    for name in ("in", "out"):
        (tmp_path / name).write_text("".join(f"{text}\n" for text in TEXTS))
    assert regard("score", trained, "--source", tmp_path / "in", "--target", tmp_path / "out").code == 0
    assert calls == ONCE
    calls.clear()
    texts = ("--source", tmp_path / "in", "--reference", tmp_path / "out")
    assert regard("evaluate", trained, *texts, "--beam", "1,2").code == 0
    assert calls == ONCE


@pytest.mark.parametrize("command", ["explain", "trace", "faithful"])
def test_the_commands_that_inspect_a_text_tokenize_it_once(
    regard: Regard, trained: Path, calls: Counter[str], command: str
):
    assert regard(command, trained, "abc", "--json").code == 0
    assert calls == {"abc": 1}
