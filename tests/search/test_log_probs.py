"""Log-probabilities of one model and of an ensemble, against log_softmax and each model on its own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from regard import nn
from regard.config.schema import ModelSection
from regard.data import Batch, Example, collate, pad
from regard.nn.build import build_model
from regard.search import Ensemble, LogProbs

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
TOKENS, LAYERS, HEADS, OTHER_HEADS = 13, 2, 3, 5
SOURCES = [[5, 4, 7, 12, 9, 2], [6, 2], [11, 8, 8, 2]]


# Log-probabilities


def some_logits(models: int, scale: float = 1.0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(9)
    return [torch.randn(5, TOKENS, generator=generator) * scale for _ in range(models)]


@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("models", [1, 2, 3])
def test_the_log_prob_of_a_token_is_the_mean_over_models(models: int, scale: float) -> None:
    logits = some_logits(models, scale)
    rows, tokens = torch.meshgrid(torch.arange(5), torch.arange(TOKENS), indexing="ij")
    expected = torch.stack([each.log_softmax(-1) for each in logits]).mean(0)
    torch.testing.assert_close(LogProbs.mean(logits).of_tokens(tokens, rows), expected, **CLOSE)


@pytest.mark.parametrize("models", [1, 3])
def test_within_a_row_tokens_are_ordered_by_their_logits(models: int) -> None:
    log_probs = LogProbs.mean(some_logits(models))
    for row in range(5):
        log_probabilities = log_probs.of_tokens(torch.arange(TOKENS), torch.full((TOKENS,), row))
        assert torch.equal(log_probabilities.argsort(), log_probs.logits[row].argsort())


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 2), (2, 1, 3)], ids=str)
def test_tokens_may_have_any_shape(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(2)
    (logits,) = some_logits(1)
    tokens = torch.randint(TOKENS, shape, generator=generator)
    rows = torch.randint(5, shape, generator=generator)
    log_probs = LogProbs.mean([logits]).of_tokens(tokens, rows)
    assert log_probs.shape == shape
    every = logits.log_softmax(-1)
    for log_prob, token, row in zip(log_probs.flatten(), tokens.flatten(), rows.flatten(), strict=True):
        torch.testing.assert_close(log_prob, every[row, token], **CLOSE)


# Ensembles


def build(seed: int, encoder: dict[str, Any], decoder: dict[str, Any], attention: dict[str, Any]) -> nn.Seq2Seq:
    section = ModelSection.model_validate({"encoder": encoder, "decoder": decoder, "attention": attention})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build_model(section, TOKENS, TOKENS).eval().requires_grad_(False)


def learned(longest: int) -> dict[str, Any]:
    return {"positions": {"kind": "learned", "longest": longest}}


RECURRENT = build(1, {"embedding": 5, "size": 7}, {"embedding": 3, "size": 11} | learned(17), {"kind": "additive"})
SEVERAL_HEADS = build(
    2,
    {"kind": "self-attention", "embedding": 5, "size": 6, "heads": 2},
    {"embedding": 3, "size": 10},
    {"kind": "multi-head", "heads": OTHER_HEADS},
)
TRANSFORMER = build(
    3,
    {"embedding": 3, "size": 5},
    {"kind": "transformer", "layers": LAYERS, "embedding": 5, "size": 12, "heads": 2, "inner_size": 7} | learned(11),
    {"kind": "multi-head", "heads": HEADS},
)
ENSEMBLES = {
    "recurrent": [RECURRENT],
    "transformer": [TRANSFORMER],
    "two-kinds": [RECURRENT, TRANSFORMER],
    "three": [TRANSFORMER, SEVERAL_HEADS, RECURRENT],
}


@pytest.fixture(params=ENSEMBLES.values(), ids=ENSEMBLES.keys())
def ensemble_models(request: pytest.FixtureRequest) -> list[nn.Seq2Seq]:
    return request.param


def mean_log_probs(steps: list[Tensor]) -> Tensor:
    return torch.stack([logits.log_softmax(-1) for logits in steps]).mean(0)


def all_log_probs(log_probs: LogProbs) -> Tensor:
    rows, tokens = (torch.arange(size) for size in log_probs.logits.shape)
    return log_probs.of_tokens(*torch.meshgrid(rows, tokens, indexing="ij")[::-1])


def test_an_ensemble_starts_steps_and_selects_like_each_of_its_models(ensemble_models: list[nn.Seq2Seq]) -> None:
    source, valid = pad(SOURCES)
    ensemble = Ensemble(ensemble_models)
    state, states = ensemble.start(source, valid), [model.start(source, valid) for model in ensemble_models]
    assert state.weights is None, "there are no weights before the first step"
    for index in ([0, 1, 2], [[0, 0], [1, 1], [2, 2]], [[1, 0], [2, 2], [4, 5]], [[4, 5, 4], [1, 0, 0]], [2, 3]):
        rows = torch.tensor(index)
        token = torch.arange(rows.numel()) + 4
        log_probs, state = ensemble.step(token, state.select(rows))
        pairs = zip(ensemble_models, states, strict=True)
        logits, states = zip(*(model.decoder.step(token, own.select(rows)) for model, own in pairs), strict=True)
        torch.testing.assert_close(all_log_probs(log_probs), mean_log_probs(logits), **CLOSE)
        for own, expected in zip(state.members, states, strict=True):
            torch.testing.assert_close(own.weights, expected.weights, **CLOSE)


def one_step(ensemble_models: list[nn.Seq2Seq]) -> tuple[Tensor | None, list[Tensor]]:
    """The attention weights of the ensemble, and of each of its models."""
    source, valid = pad(SOURCES)
    token = torch.tensor([4, 5, 6])
    _, state = Ensemble(ensemble_models).step(token, Ensemble(ensemble_models).start(source, valid))
    return state.weights, [
        model.decoder.step(token, model.start(source, valid))[1].weights for model in ensemble_models
    ]


@pytest.mark.parametrize(
    ("model", "axes"),
    [(RECURRENT, ()), (SEVERAL_HEADS, (OTHER_HEADS,)), (TRANSFORMER, (LAYERS, HEADS))],
    ids=["recurrent", "heads", "layers-and-heads"],
)
def test_one_model_keeps_the_attention_of_its_layers_and_heads(model: nn.Seq2Seq, axes: tuple[int, ...]) -> None:
    weights, (own,) = one_step([model])
    assert weights.shape == (3, *axes, 6)
    assert torch.equal(weights, own)


def test_attention_of_several_models_is_their_mean() -> None:
    weights, (recurrent, heads, layers) = one_step([RECURRENT, SEVERAL_HEADS, TRANSFORMER])
    assert weights.shape == (3, 6)
    expected = (recurrent + heads.sum(1) / OTHER_HEADS + layers.sum((1, 2)) / (LAYERS * HEADS)) / 3
    torch.testing.assert_close(weights, expected, **CLOSE)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3), **CLOSE)


@pytest.mark.parametrize(
    ("ensemble_models", "longest"),
    [
        ([RECURRENT], 17),
        ([SEVERAL_HEADS], None),
        ([RECURRENT, TRANSFORMER], 11),
        ([TRANSFORMER, RECURRENT], 11),
        ([SEVERAL_HEADS, RECURRENT], 17),
    ],
    ids=["one", "no-limit", "the-second", "the-first", "one-without"],
)
def test_the_longest_target_is_the_shortest_limit_of_all_models(
    ensemble_models: list[nn.Seq2Seq], longest: int | None
) -> None:
    assert Ensemble(ensemble_models).max_target_length == longest


# Scores

TARGETS = [[1, 7, 7, 2], [6, 2], [1, 9, 4, 12, 5, 4, 2]]  # each begins with the decoder's start token
EXAMPLES = [Example(tuple(source), tuple(target)) for source, target in zip(SOURCES, TARGETS, strict=True)]


def test_a_score_equals_that_of_stepping_through_the_target(ensemble_models: list[nn.Seq2Seq]) -> None:
    scores = Ensemble(ensemble_models).score(collate(EXAMPLES))
    assert [len(score) for score in scores] == [3, 1, 6]
    for example, score in zip(EXAMPLES, scores, strict=True):
        states = [model.start(*pad([example.source])) for model in ensemble_models]
        for read, generated, log_prob in zip(example.target, example.target[1:], score, strict=False):
            pairs = zip(ensemble_models, states, strict=True)
            logits, states = zip(*(m.decoder.step(torch.tensor([read]), own) for m, own in pairs), strict=True)
            assert log_prob == pytest.approx(float(mean_log_probs(logits)[0, generated]), rel=1e-5, abs=1e-5)


def test_a_score_depends_neither_on_the_batch_nor_on_padding(ensemble_models: list[nn.Seq2Seq]) -> None:
    ensemble = Ensemble(ensemble_models)
    together = ensemble.score(collate(EXAMPLES))
    for example, score in zip(EXAMPLES, together, strict=True):
        assert ensemble.score(collate([example])) == [pytest.approx(score, rel=1e-5, abs=1e-5)]
    reverse = ensemble.score(collate(EXAMPLES[::-1]))
    assert [pytest.approx(score, rel=1e-5, abs=1e-5) for score in reverse] == together[::-1]
    more = Batch(*(torch.nn.functional.pad(part, (0, 3)) for part in vars(collate(EXAMPLES)).values()))
    assert more.inputs.shape[1] == 9
    assert [pytest.approx(score, rel=1e-5, abs=1e-5) for score in ensemble.score(more)] == together


def test_log_probabilities_of_logits_in_bfloat16_are_exact():
    logits = torch.randn(3, 4_001, generator=torch.Generator().manual_seed(3)).bfloat16()
    log_probs = LogProbs.mean([logits, logits])
    assert log_probs.normalizer.dtype == torch.float32
    tokens, rows = logits.argmax(-1), torch.arange(3)
    expected = logits.double().log_softmax(-1)[rows, tokens]
    assert log_probs.of_tokens(tokens, rows).tolist() == pytest.approx(expected.tolist(), abs=1e-5)
