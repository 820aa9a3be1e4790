"""A finished run at work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import regard
from regard import Translation, Translator
from regard.errors import UserError
from regard.search import greedy

TEXTS = ["abc", "e", "", "ddddd", "abcde", "ba", "", "e", "cabba"]


@pytest.fixture(scope="module")
def translator(trained: Path) -> Translator:
    return regard.load(trained)


def same(one: Translation, other: Translation) -> bool:
    return (
        (one.text, one.tokens, one.source_tokens, one.finished)
        == (other.text, other.tokens, other.source_tokens, other.finished)
        and one.score == pytest.approx(other.score, abs=1e-4)
        and one.attention.shape == other.attention.shape
        and torch.allclose(one.attention, other.attention, atol=1e-5)
    )


def test_the_order_is_kept_and_an_empty_text_has_an_empty_translation(translator: Translator):
    assert [translation.text for translation in translator.translate(TEXTS)] == TEXTS
    assert translator.translate([]) == []
    (empty,) = translator.translate([""])
    assert (empty.text, empty.tokens, empty.source_tokens, empty.score) == ("", (), (), 0.0)
    assert empty.attention.shape == (0, 0)
    assert empty.finished


def test_a_translation_tells_its_tokens_and_where_each_looked(translator: Translator):
    for text, translation in zip(TEXTS, translator.translate(TEXTS), strict=True):
        if not text:
            continue
        assert translation.tokens == (*text, "<end>")
        assert translation.source_tokens == (*text, "<end>")
        assert translation.attention.shape == (len(text) + 1, len(text) + 1)
        assert torch.allclose(translation.attention.sum(-1), torch.ones(len(text) + 1), atol=1e-5)
        assert translation.finished
        assert -1 < translation.score < 0


def test_attention_of_a_copy_is_a_diagonal(translator: Translator):
    (translation,) = translator.translate(["abcde"])
    assert translation.attention[:5].argmax(-1).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("settings", [(), ("decoding.batch_size=2",)])
def test_company_in_the_batch_does_not_matter(
    translator: Translator, trained_brief: Callable[..., Path], settings: tuple[str, ...]
):
    some = regard.load(trained_brief(*settings)) if settings else translator
    texts = [text for text in TEXTS if text] * 3
    together = some.translate(texts)
    assert all(same(together[place], some.translate([text])[0]) for place, text in enumerate(texts))
    assert all(same(one, other) for one, other in zip(some.translate(texts[::-1]), together[::-1], strict=True))


def test_loading_twice_gives_the_same_to_the_bit(trained: Path, translator: Translator):
    for one, other in zip(regard.load(str(trained)).translate(TEXTS), translator.translate(TEXTS), strict=True):
        assert one.score == other.score
        assert torch.equal(one.attention, other.attention)
        assert one.text == other.text


def test_the_callers_random_numbers_and_gradients_are_left_alone(trained: Path):
    before = torch.get_rng_state()
    translator = regard.load(trained)
    (translation,) = translator.translate(["abc"])
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.is_grad_enabled()
    assert not translation.attention.requires_grad
    assert not translator.model.training


def test_a_score_is_the_log_probability_of_the_tokens(translator: Translator):
    (translation,) = translator.translate(["bad"])
    numbers = [*translator.codec.target_vocabulary.numbers("bad"), 2]
    source = torch.tensor([translator.check("bad")])
    state = translator.model.start(source, torch.ones_like(source, dtype=torch.bool))
    logits, _ = translator.model.decoder.unroll(torch.tensor([[1, *numbers[:-1]]]), state)
    chances = logits.log_softmax(-1)[0, range(4), numbers]
    assert translation.score == pytest.approx(chances.sum().item(), abs=1e-5)


@pytest.mark.parametrize(("text", "message"), [("abx", "not trained on the character 'x'"), ("a b", "' '")])
def test_a_text_that_the_task_cannot_serve_is_refused(translator: Translator, text: str, message: str):
    with pytest.raises(UserError, match=message):
        translator.translate(["abc", text])
    with pytest.raises(UserError, match=message):
        translator.check(text)


@pytest.mark.parametrize("kind", ["learned", "one-hot"])
def test_a_text_longer_than_the_positions_is_refused(trained_brief: Callable[..., Path], kind: str):
    translator = regard.load(trained_brief(f"model.encoder.positions={{kind: {kind}, longest: 7}}"))
    assert len(translator.check("abcdea")) == 7
    assert translator.translate(["abcdea"])
    with pytest.raises(UserError, match="this text has 8 tokens, its end included, and this model has 7 positions"):
        translator.translate(["abcdeab"])


@pytest.mark.parametrize("kind", ["learned", "one-hot"])
def test_an_output_ends_where_the_decoders_positions_end(trained_brief: Callable[..., Path], kind: str):
    translator = regard.load(trained_brief(f"model.decoder.positions={{kind: {kind}, longest: 6}}"))
    for translation in translator.translate(["abcdeabcde", "a"]):
        assert len(translation.tokens) <= 6
        assert translation.finished == (translation.tokens[-1] == "<end>")


def test_an_output_ends_at_its_maximum_length(trained_brief: Callable[..., Path], monkeypatch: pytest.MonkeyPatch):
    translator = regard.load(trained_brief("decoding.length_factor=1.5", "decoding.length_extra=2"))
    limits = []
    monkeypatch.setattr("regard.translator.greedy", lambda *a: (limits.append(a[4].tolist()), greedy(*a))[1])
    translations = translator.translate(["abcde", "a"])
    assert limits == [[5, 11]]  # 1.5 · 2 + 2 and 1.5 · 6 + 2, the shorter first
    assert len(translations[0].tokens) <= 11
    assert len(translations[1].tokens) <= 5


def test_heads_and_layers_have_axes_before_output_and_source(trained_brief: Callable[..., Path]):
    path = trained_brief(
        *("model.encoder.kind=self-attention", "model.decoder.kind=transformer", "model.decoder.layers=2"),
        *("model.attention.kind=multi-head", "model.attention.heads=2"),
    )
    (translation,) = regard.load(path).translate(["abc"])
    assert translation.attention.shape == (2, 2, len(translation.tokens), 4)
