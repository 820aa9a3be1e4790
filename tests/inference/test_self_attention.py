"""The self-attention of translations."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import regard
from regard.data import pad
from regard.inference.schema import TranslationSchema
from regard.inference.translation import Translation
from regard.inference.translator import Translator
from regard.nn.self_attention_maps import join_layers, record_weights
from regard.search import SearchOptions, SearchStopped

TRANSFORMER = (
    *("model.encoder.kind=self-attention", "model.encoder.heads=2", "model.encoder.layers=2"),
    *("model.decoder.kind=transformer", "model.decoder.layers=3", "model.decoder.heads=4"),
    "model.attention.kind=multi-head",
)
TEXTS = ["abcde", "", "ed", "aaaa", "c"]
BEAM = SearchOptions(beam=4, n_best=3)
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(scope="module")
def translator(trained_brief: Callable[..., Path]) -> Translator:
    return regard.load(trained_brief(*TRANSFORMER))


def weights_of(translation: Translation) -> tuple[torch.Tensor, torch.Tensor]:
    assert translation.encoder_attention is not None
    assert translation.decoder_attention is not None
    return translation.encoder_attention.weights, translation.decoder_attention.weights


def test_rows_and_columns_have_their_tokens(translator: Translator) -> None:
    (translation,) = translator.translate(["abcde"], BEAM, self_attention=True)
    for hypothesis in translation.n_best:
        encoder, decoder = weights_of(hypothesis)
        assert encoder.shape == (2, 2, 6, 6)
        assert decoder.shape == (3, 4, len(hypothesis.tokens), len(hypothesis.tokens))
        assert hypothesis.encoder_attention.tokens == ("a", "b", "c", "d", "e", "<end>")
        assert hypothesis.decoder_attention.tokens == ("<begin>", *hypothesis.tokens[:-1])
        assert hypothesis.encoder_attention.axes == hypothesis.decoder_attention.axes == ("layer", "head")
        assert hypothesis.encoder_attention is translation.encoder_attention, "one encoder, one map"


def test_the_first_input_is_the_start_token_of_the_text(trained_brief: Callable[..., Path]) -> None:
    """Here it is the prompt."""
    prompt = ("data.task=case", "data.prompt=decoder", "data.max_length=3", "data.train=900")
    translator = regard.load(trained_brief(*TRANSFORMER, *prompt))
    upper, lower = translator.translate(["<U> to", "<L> To"], self_attention=True)
    assert [each.decoder_attention.tokens[0] for each in (upper, lower)] == ["<U>", "<L>"]


def test_the_other_fields_are_those_without_self_attention(translator: Translator) -> None:
    plain = translator.translate(TEXTS, BEAM)
    complete = translator.translate(TEXTS, BEAM, self_attention=True)
    for one, other in zip(plain, complete, strict=True):
        assert one.encoder_attention is one.decoder_attention is None
        values = other.to_dict() | {"encoder_attention": None}
        values["n_best"] = [each | {"decoder_attention": None} for each in values["n_best"]]
        assert values == one.to_dict()


def test_a_text_has_the_same_weights_alone_in_a_batch_and_in_any_order(translator: Translator) -> None:
    together = translator.translate(TEXTS, BEAM, self_attention=True)
    backwards = translator.translate(TEXTS[::-1], BEAM, self_attention=True)[::-1]
    for text, batched, reverse in zip(TEXTS, together, backwards, strict=True):
        (alone,) = translator.translate([text], BEAM, self_attention=True)
        if not text:
            assert (alone.encoder_attention, alone.decoder_attention) == (None, None)
            continue
        for other in (batched, reverse):
            for one, two in zip(alone.n_best, other.n_best, strict=True):
                torch.testing.assert_close(weights_of(two), weights_of(one), **CLOSE)


@torch.inference_mode()
def test_weights_of_hypotheses_are_those_of_a_replay_step_by_step(translator: Translator) -> None:
    model, vocabulary = translator.model, translator.codec.target_vocabulary
    (translation,) = translator.translate(["abcde"], BEAM, self_attention=True)
    assert len(translation.n_best) == 3
    for hypothesis in translation.n_best:
        with record_weights([*model.encoder.self_attentions, *model.decoder.self_attentions]) as calls:
            state = model.start(*pad([translator.encode("abcde").ids]))
            for token in vocabulary.output_to_ids(hypothesis.decoder_attention.tokens):
                _, state = model.decoder.step(torch.tensor([token]), state)
        encoder = join_layers(calls[:2], 6)[0]
        decoder = join_layers(calls[2:], len(hypothesis.tokens))[0]
        torch.testing.assert_close((encoder, decoder), weights_of(hypothesis), **CLOSE)


@pytest.mark.parametrize(
    ("settings", "encoder", "decoder"),
    [
        ((), None, None),
        (("model.encoder.kind=plain-attention", "model.encoder.layers=0"), None, None),
        (("model.encoder.kind=plain-attention", "model.encoder.layers=2"), ("layer",), None),
        (("model.encoder.kind=recurrent-self-attention",), ("layer", "head"), None),
        (("model.decoder.kind=transformer",), None, ("layer", "head")),
    ],
)
def test_models_have_the_self_attention_of_their_kinds(
    trained_brief: Callable[..., Path],
    settings: tuple[str, ...],
    encoder: tuple[str, ...] | None,
    decoder: tuple[str, ...] | None,
) -> None:
    translator = regard.load(trained_brief(*settings, "model.attention.kind=additive"))
    (translation,) = translator.translate(["abc"], self_attention=True)
    recorded = translation.encoder_attention, translation.decoder_attention
    assert tuple(each and each.axes for each in recorded) == (encoder, decoder)
    TranslationSchema.model_validate_json(json.dumps(translation.to_dict()))


def test_an_ensemble_has_the_mean_of_its_models_that_have_any(
    translator: Translator, trained_brief: Callable[..., Path]
) -> None:
    path = translator.runs[0].path
    other = trained_brief(*TRANSFORMER, "training.seed=2")
    ensemble = regard.load(path, other, trained_brief("model.attention.kind=additive"))
    (translation,) = ensemble.translate(["abcde"], self_attention=True)
    prefix = SearchOptions(prefix=tuple(translation.tokens[:-1]), min_length=len(translation.tokens) - 1)
    alone = [regard.load(run).translate(["abcde"], prefix, self_attention=True)[0] for run in (path, other)]
    expected = [weights_of(each)[0].flatten(0, 1).mean(0) for each in alone]
    torch.testing.assert_close(weights_of(translation)[0], torch.stack(expected).mean(0), **CLOSE)
    assert translation.encoder_attention.axes == translation.decoder_attention.axes == ()
    steps = len(translation.tokens)
    expected = [weights_of(each)[1].flatten(0, 1).mean(0)[:steps, :steps] for each in alone]
    torch.testing.assert_close(weights_of(translation)[1], torch.stack(expected).mean(0), **CLOSE)


def test_it_can_be_stopped(translator: Translator) -> None:
    calls: list[None] = []
    translator.translate(["abc"], should_stop=lambda: calls.append(None))
    left = iter([False] * len(calls))
    with pytest.raises(SearchStopped):
        translator.translate(["abc"], should_stop=lambda: next(left, True), self_attention=True)


def test_the_json_has_the_weights_of_the_encoder_once_and_of_the_decoder_for_each_hypothesis(
    translator: Translator,
) -> None:
    (translation,) = translator.translate(["abcde"], BEAM, self_attention=True)
    values = TranslationSchema.model_validate_json(json.dumps(translation.to_dict()))
    encoder, _ = weights_of(translation)
    assert values.encoder_attention.axes == ["layer", "head"]
    torch.testing.assert_close(torch.tensor(values.encoder_attention.weights), encoder, rtol=0, atol=1e-6)
    for each, hypothesis in zip(values.n_best, translation.n_best, strict=True):
        _, decoder = weights_of(hypothesis)
        torch.testing.assert_close(torch.tensor(each.decoder_attention.weights), decoder, rtol=0, atol=1e-6)
        assert each.decoder_attention.tokens == ["<begin>", *each.tokens[:-1]]
        assert each.decoder_attention.words[0] == (0, 1)
