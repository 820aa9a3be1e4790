"""Losses against loops without batches or padding."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from regard.config.schema import ModelSection
from regard.data import Example, collate
from regard.data.batches import pad
from regard.evaluation.losses import LossMetrics, compute_losses
from regard.nn import Seq2Seq
from regard.nn.build import build_model
from regard.search import Beam, Constraints, Ensemble, Hypothesis, SearchBatch, search
from regard.text import Vocabulary

TOKENS = 9


@pytest.fixture(
    scope="module",
    params=[{"wiring": "after"}, {"wiring": "before"}, {"kind": "transformer"}],
    ids=["after", "before", "transformer"],
)
def model(request: pytest.FixtureRequest) -> Seq2Seq:
    decoder = {"embedding": 3, "size": 8, "positions": {"kind": "learned"}, **request.param}
    section = ModelSection.model_validate({"encoder": {"embedding": 5, "size": 7}, "decoder": decoder})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = build_model(section, TOKENS, TOKENS).requires_grad_(False)
    for parameter in model.parameters():  # so that outputs depend on inputs
        parameter.mul_(3)
    model.decoder.readout.output_layer.bias[Vocabulary.end] += 1  # so that outputs end
    return model


@pytest.fixture(scope="module")
def examples(model: Seq2Seq) -> list[Example]:
    """Half of the targets are greedy outputs of the model, the other half are random."""
    draw, examples_made = random.Random(5), []
    for number in range(12):
        source = tuple(draw.randrange(4, TOKENS) for _ in range(1 + number % 5))
        target = [draw.randrange(3, TOKENS) for _ in range(1 + number % 4)]
        if number % 2:
            model.eval()
            predicted = greedy(model, *pad([source]), torch.tensor([Vocabulary.begin]), torch.tensor([6]))[0].tokens
            target = [token for token in predicted if token != Vocabulary.end]
        examples_made.append(Example(source, (Vocabulary.begin, *target, Vocabulary.end)))
    return examples_made


def greedy(model: Seq2Seq, *inputs: Tensor) -> list[Hypothesis]:
    """Greedy outputs, with no token banned."""
    result = search(Ensemble([model]), SearchBatch(*inputs, constraints=Constraints(banned_tokens=())), Beam())
    return [best for (best,) in result.hypotheses()]


def by_hand(model: Seq2Seq, examples: list[Example], *, teacher: bool) -> LossMetrics:
    model.eval()
    loss, right, tokens, exact = 0.0, 0, 0, 0
    for example in examples:
        state, read, hits = model.start(*pad([example.source])), example.target[0], []
        for reference in example.target[1:]:
            logits, state = model.decoder.step(torch.tensor([read]), state)
            predicted = int(logits.argmax())
            loss -= float(logits[0].log_softmax(-1)[reference])
            hits.append(predicted == reference)
            read = reference if teacher else predicted
        right, tokens, exact = right + sum(hits), tokens + len(hits), exact + all(hits)
    return LossMetrics(loss / tokens, right / tokens, exact / len(examples))


@pytest.fixture(scope="module")
def assert_same_metrics() -> Callable[[LossMetrics, LossMetrics], None]:
    def check(one: LossMetrics, other: LossMetrics) -> None:
        assert one.loss == pytest.approx(other.loss, rel=1e-5)
        assert one.token_accuracy == other.token_accuracy
        assert one.exact_match == other.exact_match

    return check


@pytest.mark.parametrize("teacher", [True, False], ids=["teacher", "free"])
@pytest.mark.parametrize("size", [1, 5, 12])
def test_batched_losses_equal_a_loop_over_sentences(
    model, examples, assert_same_metrics, teacher: bool, size: int
) -> None:
    batches = [collate(examples[begin : begin + size]) for begin in range(0, len(examples), size)]
    assert size == 1 or any((~batch.valid).any() for batch in batches), "there is padding to ignore"
    assert_same_metrics(
        compute_losses(model, iter(batches), teacher=teacher), by_hand(model, examples, teacher=teacher)
    )


def test_a_free_running_exact_match_is_a_correct_greedy_output(model, examples) -> None:
    model.eval()
    batch = collate(examples)
    limits = torch.tensor([len(example.target) - 1 for example in examples])
    found = greedy(model, batch.source, batch.source_valid, batch.inputs[:, 0], limits)
    hits = [tuple(hypothesis.tokens) == example.target[1:] for hypothesis, example in zip(found, examples, strict=True)]
    assert 0 < sum(hits) < len(hits), "some right, some wrong"
    assert compute_losses(model, [batch], teacher=False).exact_match == sum(hits) / len(hits)
    for hit, example in zip(hits, examples, strict=True):
        assert compute_losses(model, [collate([example])], teacher=False).exact_match == float(hit)


def test_computing_losses_switches_dropout_off() -> None:
    section = ModelSection.model_validate({"dropout": 0.9})
    torch.manual_seed(1)
    model = build_model(section, TOKENS, TOKENS).train()
    batch = collate([Example((4, 5, 2), (1, 5, 4, 2))])
    assert compute_losses(model, [batch], teacher=True) == compute_losses(model, [batch], teacher=True)
